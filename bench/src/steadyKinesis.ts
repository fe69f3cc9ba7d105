/**
 * A Kinesis in memory that answers at once. Each shard gets records at a steady rate, or none: what is measured is the
 * member that reads it.
 */
import type { KinesisClient, Position } from "@kinesumer/core"
import { Clock, Effect, Option } from "effect"
import * as PollingKinesis from "./pollingKinesis.js"

export const stream = "bench"

export interface Options {
  readonly shards: number
  /** Of each shard. */
  readonly recordsPerSecond: number
  /** Whenever records are asked for. */
  readonly onGetRecords?: (() => void) | undefined
}

/** As long as those of Kinesis, and in order. */
const sequenceNumber = (index: number) => `49680778593833408366556738991946064446641854${`${index}`.padStart(12, "0")}`

const data = new Uint8Array(200)

export const make = (
  { onGetRecords, recordsPerSecond, shards }: Options
): Effect.Effect<typeof KinesisClient.KinesisClient.Service> =>
  Effect.gen(function*() {
    const began = yield* Clock.currentTimeMillis
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
    return PollingKinesis.make({
      stream,
      shards,
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
        })
    })
  })
