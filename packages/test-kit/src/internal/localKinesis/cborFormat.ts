/**
 * CBOR, in the form that the SDK for Java speaks (times in milliseconds) and in that of Smithy RPC v2 (times in seconds).
 * Both mark times with the tag for them.
 */
import * as Cbor from "cborg"
import type { Format } from "./format.js"
import { plain, recordMembers } from "./format.js"

const timeTag = 1

/** A time stands for itself: the number in its tag. All that is no CBOR, or has other tags, is refused. */
const decodeOptions: Cbor.DecodeOptions = { tags: { [timeTag]: (content): unknown => content() } }

const encode = (value: unknown): Uint8Array => Cbor.encode(value)

const arrayOpening = (count: number): Uint8Array => {
  if (count < 24) return Uint8Array.of(0x80 | count)
  if (count < 0x100) return Uint8Array.of(0x98, count)
  return Uint8Array.of(0x99, count >> 8, count & 0xff)
}

/** A map without a given length, and its first key. */
const opening = Buffer.concat([Uint8Array.of(0xbf), encode("Records")])
const closing = Uint8Array.of(0xff)

const make = (options: {
  readonly contentType: string
  readonly headers: Readonly<Record<string, string>>
  /** What one unit of time is, in milliseconds. */
  readonly unit: number
}): Format => {
  const ofTime = (time: Date) => new Cbor.Tagged(timeTag, time.getTime() / options.unit)
  return {
    contentType: options.contentType,
    headers: options.headers,
    decode: (body): unknown => Cbor.decode(body, decodeOptions),
    bytes: (value) => value instanceof Uint8Array ? value : undefined,
    time: (value) => typeof value === "number" ? Math.round(value * options.unit) : undefined,
    encode: (members) => encode(plain(members, ofTime)),
    encodeRecord: (record) => encode({ ...plain(recordMembers(record), ofTime), Data: record.data }),
    withRecords: (records, count, rest) => {
      // Less than 24 members: one byte says how many there are.
      const members = encode(plain(rest, ofTime)).subarray(1)
      return [opening, arrayOpening(count), ...records, members, closing]
    }
  }
}

/** @internal */
export const amzCbor: Format = make({ contentType: "application/x-amz-cbor-1.1", headers: {}, unit: 1 })

/** @internal */
export const rpcV2Cbor: Format = make({
  contentType: "application/cbor",
  headers: { "smithy-protocol": "rpc-v2-cbor" },
  unit: 1000
})
