import type { RawRecord } from "@kinesumer/core/KinesisClient"
import type { Position } from "@kinesumer/core/Position"
import * as SequenceNumber from "@kinesumer/core/SequenceNumber"
import type { Shard } from "@kinesumer/core/Shard"
import type * as HashKeys from "./hashKeys.js"
import * as RateLimit from "./rateLimit.js"
import type { StoredRecord } from "./recordLog.js"
import * as RecordLog from "./recordLog.js"

/**
 * A shard and what it holds.
 *
 * @internal
 */
export interface TestShard {
  readonly index: number
  readonly shardId: string
  readonly parents: ReadonlyArray<string>
  readonly range: HashKeys.HashRange
  readonly startingSequenceNumber: string
  readonly children: Array<string>
  readonly log: RecordLog.RecordLog
  lastTrimmed: string | undefined
  closedAt: number | undefined
  endingSequenceNumber: string | undefined
  /** How many answers are still to be empty although there are records, and at the end before the last answer. */
  emptyPages: number
  emptyPagesAtEnd: number
  /** No call is answered before this moment: the last answer was larger than what a second allows. */
  blockedUntil: number
  readonly getRecords: RateLimit.Window
  readonly getRecordsBytes: RateLimit.Window
  readonly getShardIterator: RateLimit.Window
  /** The subscriptions that wait for something to happen here. */
  readonly waiting: Set<() => void>
}

/** @internal */
export const make = (options: {
  readonly index: number
  readonly parents: ReadonlyArray<string>
  readonly range: HashKeys.HashRange
  readonly startingSequenceNumber: string
}): TestShard => ({
  ...options,
  shardId: `shardId-${`${options.index}`.padStart(12, "0")}`,
  children: [],
  log: RecordLog.make(),
  lastTrimmed: undefined,
  closedAt: undefined,
  endingSequenceNumber: undefined,
  emptyPages: 0,
  emptyPagesAtEnd: 0,
  blockedUntil: 0,
  getRecords: RateLimit.window(),
  getRecordsBytes: RateLimit.window(),
  getShardIterator: RateLimit.window(),
  waiting: new Set()
})

/** @internal */
export const wake = (shard: TestShard): void => {
  for (const resume of shard.waiting) resume()
  shard.waiting.clear()
}

/** @internal */
export const toShard = (shard: TestShard): Shard => ({
  shardId: shard.shardId,
  parents: shard.parents,
  hashKeyRange: { start: `${shard.range.start}`, end: `${shard.range.end}` },
  closed: shard.closedAt !== undefined
})

/** @internal */
export const toRawRecord = (record: StoredRecord): RawRecord => ({
  sequenceNumber: record.sequenceNumber,
  partitionKey: record.partitionKey,
  data: record.data,
  arrivalTime: new Date(record.arrival)
})

/**
 * The place where a position begins, among what is left. A position before that begins at the oldest record.
 *
 * @internal
 */
export const placeOf = (shard: TestShard, position: Exclude<Position, { readonly _tag: "ShardEnd" }>): number => {
  switch (position._tag) {
    case "TrimHorizon":
      return shard.log.first
    case "AtTimestamp":
      return RecordLog.lowerBound(shard.log, (record) => record.arrival >= position.timestamp.epochMillis)
    case "AfterSequence": {
      const least = position.subSequenceNumber === undefined ? 1 : 0
      return RecordLog.lowerBound(
        shard.log,
        (record) => SequenceNumber.compare(record.sequenceNumber, position.sequenceNumber) >= least
      )
    }
  }
}

/** @internal */
export const trimWhile = (shard: TestShard, isOld: (record: StoredRecord) => boolean): void => {
  const oldest = RecordLog.at(shard.log, shard.log.first)
  if (oldest === undefined || !isOld(oldest)) return
  const left = RecordLog.lowerBound(shard.log, (record) => !isOld(record))
  shard.lastTrimmed = RecordLog.at(shard.log, left - 1)?.sequenceNumber
  RecordLog.trim(shard.log, left)
}

const pageBytes = 10 * 1024 * 1024

/** @internal */
export interface Page {
  /** The place of the first record. */
  readonly first: number
  /** The place after the last one. */
  readonly next: number
  readonly bytes: number
}

/**
 * Where the records from a place on end: at most `limit`, and at most `maxBytes` or a single one. Defaults to 10 MiB.
 *
 * @internal
 */
export const page = (shard: TestShard, place: number, limit: number, maxBytes = pageBytes): Page => {
  const first = Math.max(shard.log.first, place)
  const { bytes, count } = RecordLog.fit(shard.log, first, limit, maxBytes)
  return { first, next: first + count, bytes }
}

/** @internal */
export const recordsOf = (shard: TestShard, { first, next }: Page): ReadonlyArray<StoredRecord> =>
  RecordLog.slice(shard.log, first, next)
