/** What an answer brings: its records in order, none that had come before, aggregates taken apart. */
import type { GetRecordsResult } from "../KinesisClient.js"
import type { KinesumerConfig } from "../KinesumerConfig.js"
import * as Position from "../Position.js"
import * as SequenceNumber from "../SequenceNumber.js"
import * as Aggregate from "./aggregate.js"
import * as Answers from "./answers.js"
import type { Room } from "./budget.js"
import type { Run } from "./run.js"

/** Records that may be made only when they are asked for. */
export interface UserRecords {
  readonly count: number
  /** Of all of them. */
  readonly bytes: number
  readonly get: (index: number) => Aggregate.UserRecord
  /** The bytes of the data and of the key. */
  readonly sizeOf: (index: number) => number
}

export interface Content {
  readonly records: UserRecords
  /** Where the answer ends, what is dropped included. */
  readonly to: Position.Position
  /** What came, as Kinesis counts it. */
  readonly brought: Room
  /** Records at or before the place that was read up to, which are dropped. */
  readonly repeats: number
  /** Parts of aggregates that are dropped because they belong to other shards. */
  readonly outOfRange: number
}

/** Whether there is nothing in an answer, not even what is dropped. */
export const isEmpty = (answer: Pick<GetRecordsResult, "records">): boolean =>
  (Answers.packed(answer)?.count ?? answer.records.length) === 0

export const make = (
  run: Run,
  read: Position.Position,
  answer: Pick<GetRecordsResult, "records">,
  aggregation: KinesumerConfig["aggregation"]
): Content => {
  const packed = Answers.packed(answer)
  if (packed === undefined || (packed.isAggregated && aggregation.expand) || !isNew(packed, read)) {
    return makeOf(run, read, answer.records, aggregation)
  }
  return {
    records: packed,
    to: packed.count === 0 ? read : endOf(packed.get(packed.count - 1)),
    brought: { records: packed.count, bytes: packed.bytes },
    repeats: 0,
    outOfRange: 0
  }
}

/** Of records in order none had come before if the first one had not. */
const isNew = (records: UserRecords, read: Position.Position): boolean =>
  records.count === 0 || isAfter(endOf(records.get(0)), read)

const makeOf = (
  run: Run,
  read: Position.Position,
  raw: ReadonlyArray<Aggregate.UserRecord>,
  { expand, outOfRange }: KinesumerConfig["aggregation"]
): Content => {
  const records: Array<Aggregate.UserRecord> = []
  let repeats = 0
  let dropped = 0
  let last = read
  for (const record of inOrder(raw)) {
    const whole = Position.afterSequence(record.sequenceNumber)
    if (!isAfter(whole, last)) {
      repeats++
      continue
    }
    const parts = expand ? Aggregate.expand(record) : undefined
    if (parts === undefined) records.push(record)
    else {
      const left = parts.filter((part) => isAfter(endOf(part), last))
      const kept = outOfRange === "drop" ? Aggregate.within(left, run.shard) : left
      for (const part of kept) records.push(part)
      repeats += parts.length - left.length
      dropped += left.length - kept.length
    }
    last = whole
  }
  return {
    records: listed(records),
    to: last,
    brought: { records: raw.length, bytes: bytesOf(raw) },
    repeats,
    outOfRange: dropped
  }
}

const listed = (records: ReadonlyArray<Aggregate.UserRecord>): UserRecords => {
  const get = (index: number): Aggregate.UserRecord => {
    const record = records[index]
    if (record === undefined) throw new RangeError(`record ${index} of ${records.length}`)
    return record
  }
  return { count: records.length, bytes: bytesOf(records), get, sizeOf: (index) => sizeOf(get(index)) }
}

const sizeOf = ({ data, partitionKey }: Aggregate.UserRecord): number => data.byteLength + partitionKey.length

const bytesOf = (records: ReadonlyArray<Aggregate.UserRecord>): number =>
  records.reduce((sum, record) => sum + sizeOf(record), 0)

/** The place after a record. After the last part of an aggregate it is that after the whole of it. */
export const endOf = ({ part, sequenceNumber }: Aggregate.UserRecord): Position.Position =>
  Position.afterSequence(sequenceNumber, part === undefined || part.isLast ? undefined : part.subSequenceNumber)

const isSorted = (records: ReadonlyArray<Aggregate.UserRecord>): boolean => {
  let last: Aggregate.UserRecord | undefined
  for (const record of records) {
    if (last !== undefined && SequenceNumber.compare(last.sequenceNumber, record.sequenceNumber) > 0) return false
    last = record
  }
  return true
}

/** Kinesis answers in order; a stand-in that does not must not make a mark move backwards. */
const inOrder = (records: ReadonlyArray<Aggregate.UserRecord>): ReadonlyArray<Aggregate.UserRecord> =>
  isSorted(records)
    ? records
    : [...records].sort((self, that) => SequenceNumber.compare(self.sequenceNumber, that.sequenceNumber))

/** What is read from a moment on, or from the beginning, has nothing before it. */
const isAfter = (self: Position.Position, read: Position.Position): boolean =>
  read._tag !== "AfterSequence" || Position.compare(self, read) > 0
