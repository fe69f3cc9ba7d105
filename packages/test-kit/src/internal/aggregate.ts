import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire"
import { createHash } from "node:crypto"

const magic = Uint8Array.of(0xf3, 0x89, 0x9a, 0xc2)

/**
 * Puts records together into the data of one, as the KPL does.
 *
 * @internal
 */
export const aggregate = (
  parts: ReadonlyArray<{ readonly partitionKey: string; readonly data: Uint8Array }>
): Uint8Array => {
  const keys = [...new Set(parts.map(({ partitionKey }) => partitionKey))]
  const writer = new BinaryWriter()
  for (const key of keys) writer.tag(1, WireType.LengthDelimited).string(key)
  for (const { data, partitionKey } of parts) {
    writer.tag(3, WireType.LengthDelimited).fork()
      .tag(1, WireType.Varint).uint32(keys.indexOf(partitionKey))
      .tag(3, WireType.LengthDelimited).bytes(data)
      .join()
  }
  const body = writer.finish()
  return Buffer.concat([magic, body, createHash("md5").update(body).digest()])
}
