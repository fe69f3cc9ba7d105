/** A Kinesis that answers at once, with records that were made before: all that is measured comes after it. */
import type { KinesisClient } from "@kinesumer/core"
import { Effect, Option } from "effect"
import * as PollingKinesis from "../pollingKinesis.js"

export const stream = "pipeline"

export const pageSize = 10_000

/** A page, which all shards share: sequence numbers order the records of one. */
const page = (length: number): ReadonlyArray<KinesisClient.RawRecord> => {
  const first = 49680778593833408366556738991946064446641854769774198786n
  const data = new Uint8Array(20)
  const arrivalTime = new Date(0)
  return Array.from({ length }, (_, index) => ({
    sequenceNumber: `${first + BigInt(index)}`,
    partitionKey: `key-${index % 100}`,
    data,
    arrivalTime
  }))
}

/** Each of the shards has `records` records. */
export const make = (shards: number, records: number): typeof KinesisClient.KinesisClient.Service => {
  const all = page(records)
  return PollingKinesis.make({
    stream,
    shards,
    getShardIterator: () => Effect.succeed("0"),
    // An answer does not come in the same moment, or one shard would never let the others have their turn.
    getRecords: (_stream, _shardId, { iterator, limit }) =>
      Effect.zipRight(
        Effect.yieldNow(),
        Effect.sync(() => {
          const from = Number(iterator)
          const to = Math.min(records, from + limit)
          return {
            records: all.slice(from, to),
            nextIterator: Option.some(`${to}`),
            millisBehindLatest: Option.some(to < records ? 1 : 0),
            childShards: []
          }
        })
      )
  })
}
