/** A Kinesis that answers at once, with records that were made before: all that is measured comes after it. */
import { KinesisClient, type Shard } from "@kinesumer/core"
import { DateTime, Effect, Option, Stream } from "effect"

export const stream = "pipeline"

export const pageSize = 10_000

const lastHashKey = (1n << 128n) - 1n

const shardOf = (index: number, count: number): Shard.Shard => ({
  shardId: `shardId-${`${index}`.padStart(12, "0")}`,
  parents: [],
  hashKeyRange: {
    start: `${lastHashKey * BigInt(index) / BigInt(count)}`,
    end: `${lastHashKey * BigInt(index + 1) / BigInt(count)}`
  },
  closed: false
})

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
  const list = Array.from({ length: shards }, (_, index) => shardOf(index, shards))
  const at = DateTime.unsafeMake(0)
  const none = Effect.dieMessage("nobody asks for consumers")
  return KinesisClient.KinesisClient.of({
    region: Effect.succeed("us-east-1"),
    describeStream: () =>
      Effect.succeed({
        name: stream,
        arn: `arn:aws:kinesis:us-east-1:000000000000:stream/${stream}`,
        status: "ACTIVE",
        createdAt: at,
        answeredAt: at
      }),
    listShards: () => Effect.succeed({ shards: list, nextToken: Option.none() }),
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
      ),
    registerConsumer: () => none,
    describeConsumer: () => none,
    listConsumers: () => none,
    deregisterConsumer: () => none,
    subscribeToShard: () => Stream.die("nobody subscribes")
  })
}
