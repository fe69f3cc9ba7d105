/** Aggregated records, made by another implementation than ours. */
import { createHash } from "node:crypto"
import { createRequire } from "node:module"

export interface Part {
  readonly data: string
  /** Defaults to `key`. */
  readonly partitionKey?: string | undefined
  readonly explicitHashKey?: string | undefined
}

/** The messages of the format, field by field. */
export interface Message {
  readonly partition_key_table: ReadonlyArray<string>
  readonly explicit_hash_key_table: ReadonlyArray<string>
  readonly records: ReadonlyArray<{
    readonly partition_key_index: number
    readonly explicit_hash_key_index?: number | undefined
    readonly data: Uint8Array
    readonly tags?: ReadonlyArray<{ readonly key: string; readonly value?: string }> | undefined
  }>
}

interface UserRecord {
  readonly partitionKey: string
  readonly explicitHashKey: string | undefined
  readonly data: Buffer
}

// The package has no types of its own that hold.
const require = createRequire(import.meta.url)
const { RecordAggregator } = require("aws-kinesis-agg/lib/kpl-agg") as {
  readonly RecordAggregator: new() => {
    readonly addUserRecord: (record: UserRecord) => void
    readonly build: () => { readonly data: Buffer } | undefined
  }
}
const { AggregatedRecord } = require("aws-kinesis-agg/lib/common") as {
  readonly AggregatedRecord: { readonly encode: (message: Message) => { readonly finish: () => Uint8Array } }
}

/** An aggregate as a producer makes it. */
export const of = (parts: ReadonlyArray<Part>): Uint8Array => {
  const aggregator = new RecordAggregator()
  for (const { data, explicitHashKey, partitionKey = "key" } of parts) {
    aggregator.addUserRecord({ partitionKey, explicitHashKey, data: Buffer.from(data) })
  }
  return aggregator.build()?.data ?? new Uint8Array()
}

/** An aggregate that a sound producer would not make. */
export const encode = (message: Message): Uint8Array => seal(AggregatedRecord.encode(message).finish())

/** Any bytes between the magic number and their digest. */
export const seal = (body: Uint8Array): Uint8Array =>
  Buffer.concat([Buffer.from("f3899ac2", "hex"), body, createHash("md5").update(body).digest()])
