import type { Position } from "@kinesumer/core/Position"
import * as SequenceNumber from "@kinesumer/core/SequenceNumber"
import type { Shard } from "@kinesumer/core/Shard"
import type * as HashKeys from "./hashKeys.js"
import * as RateLimit from "./rateLimit.js"

/** @internal */
export interface StoredRecord {
  readonly sequenceNumber: string
  readonly partitionKey: string
  readonly data: Uint8Array
  readonly arrival: number
}

/**
 * A shard and what it holds. Places in it are counted from its first record ever, so that an iterator keeps its place
 * while older records vanish.
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
  readonly records: Array<StoredRecord>
  /** How many records have vanished: the place of the oldest one that is left. */
  trimmed: number
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
  records: [],
  trimmed: 0,
  lastTrimmed: undefined,
  closedAt: undefined,
  endingSequenceNumber: undefined,
  emptyPages: 0,
  emptyPagesAtEnd: 0,
  blockedUntil: 0,
  getRecords: RateLimit.window(),
  getRecordsBytes: RateLimit.window(),
  getShardIterator: RateLimit.window()
})

/** @internal */
export const toShard = (shard: TestShard): Shard => ({
  shardId: shard.shardId,
  parents: shard.parents,
  hashKeyRange: { start: `${shard.range.start}`, end: `${shard.range.end}` },
  closed: shard.closedAt !== undefined
})

/**
 * The first of the records of which `isAfter` holds, if it holds of all that follow.
 */
const lowerBound = (records: ReadonlyArray<StoredRecord>, isAfter: (record: StoredRecord) => boolean): number => {
  let low = 0
  let high = records.length
  while (low < high) {
    const middle = (low + high) >>> 1
    const record = records[middle]
    if (record !== undefined && isAfter(record)) high = middle
    else low = middle + 1
  }
  return low
}

/**
 * The place where a position begins, among what is left. A position before that begins at the oldest record.
 *
 * @internal
 */
export const placeOf = (shard: TestShard, position: Exclude<Position, { readonly _tag: "ShardEnd" }>): number => {
  switch (position._tag) {
    case "TrimHorizon":
      return shard.trimmed
    case "AtTimestamp":
      return shard.trimmed + lowerBound(shard.records, (record) => record.arrival >= position.timestamp.epochMillis)
    case "AfterSequence": {
      const least = position.subSequenceNumber === undefined ? 1 : 0
      return shard.trimmed + lowerBound(
        shard.records,
        (record) => SequenceNumber.compare(record.sequenceNumber, position.sequenceNumber) >= least
      )
    }
  }
}

/** @internal */
export const trimWhile = (shard: TestShard, isOld: (record: StoredRecord) => boolean): void => {
  const gone = lowerBound(shard.records, (record) => !isOld(record))
  if (gone === 0) return
  shard.lastTrimmed = shard.records[gone - 1]?.sequenceNumber
  shard.records.splice(0, gone)
  shard.trimmed += gone
}

/** @internal */
export const sizeOf = (record: StoredRecord): number => record.data.byteLength + Buffer.byteLength(record.partitionKey)

const pageBytes = 10 * 1024 * 1024

/**
 * The records from a place on: at most `limit`, and at most 10 MiB.
 *
 * @internal
 */
export const page = (
  shard: TestShard,
  place: number,
  limit: number
): { readonly records: ReadonlyArray<StoredRecord>; readonly next: number; readonly bytes: number } => {
  const first = Math.max(0, place - shard.trimmed)
  let bytes = 0
  let end = first
  for (let record = shard.records[end]; record !== undefined && end - first < limit; record = shard.records[end]) {
    const size = sizeOf(record)
    if (end > first && bytes + size > pageBytes) break
    bytes += size
    end++
  }
  return { records: shard.records.slice(first, end), next: shard.trimmed + end, bytes }
}
