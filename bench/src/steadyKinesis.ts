/**
 * A Kinesis in memory that answers at once. Each shard gets records at a steady rate, or none: what is measured is the
 * member that reads it.
 */
import { KinesisClient, type Position, type Shard } from "@kinesumer/core"
import { Clock, DateTime, Effect, Option, Stream } from "effect"

export const stream = "bench"

export interface Options {
  readonly shards: number
  /** Of each shard. */
  readonly recordsPerSecond: number
  /** Whenever records are asked for. */
  readonly onGetRecords?: (() => void) | undefined
}

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

/** As long as those of Kinesis, and in order. */
const sequenceNumber = (index: number) => `49680778593833408366556738991946064446641854${`${index}`.padStart(12, "0")}`

const data = new Uint8Array(200)

export const make = (
  { onGetRecords, recordsPerSecond, shards }: Options
): Effect.Effect<typeof KinesisClient.KinesisClient.Service> =>
  Effect.gen(function*() {
    const began = yield* Clock.currentTimeMillis
    const createdAt = DateTime.unsafeMake(0)
    const list = Array.from({ length: shards }, (_, index) => shardOf(index, shards))
    /** How many records of a shard have arrived by then. */
    const arrivedBy = (millis: number) => Math.max(0, Math.floor((millis - began) * recordsPerSecond / 1_000))
    const recordOf = (index: number): KinesisClient.RawRecord => ({
      sequenceNumber: sequenceNumber(index),
      partitionKey: "key",
      data,
      arrivalTime: new Date(began + (index + 1) * 1_000 / recordsPerSecond)
    })
    const iteratorAt = (position: Position.Position): number => {
      switch (position._tag) {
        case "AfterSequence":
          return Number(position.sequenceNumber.slice(-12)) + 1
        case "AtTimestamp":
          return arrivedBy(position.timestamp.epochMillis)
        default:
          return 0
      }
    }
    const none = Effect.dieMessage("nobody asks for consumers")
    return KinesisClient.KinesisClient.of({
      region: Effect.succeed("us-east-1"),
      describeStream: () =>
        Effect.map(DateTime.now, (answeredAt) => ({
          name: stream,
          arn: `arn:aws:kinesis:us-east-1:000000000000:stream/${stream}`,
          status: "ACTIVE",
          createdAt,
          answeredAt
        })),
      listShards: () => Effect.succeed({ shards: list, nextToken: Option.none() }),
      getShardIterator: (_stream, _shardId, position) => Effect.sync(() => `${iteratorAt(position)}`),
      getRecords: (_stream, _shardId, { iterator, limit }) =>
        Effect.map(Clock.currentTimeMillis, (now) => {
          onGetRecords?.()
          const from = Number(iterator)
          const arrived = arrivedBy(now)
          const to = Math.max(from, Math.min(arrived, from + limit))
          return {
            records: Array.from({ length: to - from }, (_, index) => recordOf(from + index)),
            nextIterator: Option.some(`${to}`),
            millisBehindLatest: Option.some(to < arrived ? 1 : 0),
            childShards: []
          }
        }),
      registerConsumer: () => none,
      describeConsumer: () => none,
      listConsumers: () => none,
      deregisterConsumer: () => none,
      subscribeToShard: () => Stream.die("nobody subscribes")
    })
  })
