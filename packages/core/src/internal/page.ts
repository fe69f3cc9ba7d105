/** Turns what Kinesis gives at once, a page or an event, into slices of records. */
import * as Option from "effect/Option"
import type { GetRecordsResult } from "../KinesisClient.js"
import type { KinesumerConfig } from "../KinesumerConfig.js"
import * as Position from "../Position.js"
import * as SequenceNumber from "../SequenceNumber.js"
import * as Aggregate from "./aggregate.js"
import type { Room } from "./budget.js"
import { DeliveredRecord, SliceSymbol } from "./deliveredRecord.js"
import { after, type Interval, type Slice } from "./lane.js"
import type { Run } from "./run.js"

/** A slice that knows whose it is, so that a record can be marked wherever it has got to. */
export interface RunSlice extends Slice {
  readonly run: Run
}

export interface Page {
  readonly slices: ReadonlyArray<RunSlice>
  /** Where the page ends. */
  readonly to: Position.Position
  readonly records: number
  readonly bytes: number
}

/** What an answer brings, aggregates taken apart. */
export interface Content {
  readonly records: ReadonlyArray<Aggregate.UserRecord>
  /** Records at or before the place that was read up to, which are dropped. */
  readonly repeats: number
  /** Parts of aggregates that are dropped because they belong to other shards. */
  readonly outOfRange: number
}

/** Large enough that the cost of a slice is spread out, small enough that little comes again after a failure. */
const sliceRecords = 500

type Answer = Pick<GetRecordsResult, "records" | "millisBehindLatest">

/** The records of an answer that had not come before, in order. */
export const contentOf = (
  run: Run,
  read: Position.Position,
  answer: Answer,
  { expand, outOfRange }: KinesumerConfig["aggregation"]
): Content => {
  const records: Array<Aggregate.UserRecord> = []
  let repeats = 0
  let dropped = 0
  let last = read
  for (const record of inOrder(answer.records)) {
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
  return { records, repeats, outOfRange: dropped }
}

/** `most` is what a slice may hold. A record that is larger is one by itself. */
export const make = (
  run: Run,
  read: Position.Position,
  records: ReadonlyArray<Aggregate.UserRecord>,
  answer: Answer,
  most: Room
): Page => {
  const slices: Array<RunSlice> = []
  let from = read
  let bytes = 0
  for (let start = 0; start < records.length;) {
    const slice = cut(run, from, records, start, answer, most)
    slices.push(slice)
    from = slice.to
    start += slice.records.length
    bytes += slice.bytes
  }
  return { slices, to: from, records: records.length, bytes }
}

/** As many of the records, from the one at `start` on, as make a slice; `from` is where those before them end. */
export const cut = (
  run: Run,
  from: Position.Position,
  records: ReadonlyArray<Aggregate.UserRecord>,
  start: number,
  { millisBehindLatest }: Answer,
  most: Room
): RunSlice =>
  makeSlice(
    run,
    from,
    within(records, start, Math.min(sliceRecords, most.records), most.bytes),
    Option.getOrUndefined(millisBehindLatest)
  )

const within = (
  records: ReadonlyArray<Aggregate.UserRecord>,
  start: number,
  size: number,
  bytes: number
): ReadonlyArray<Aggregate.UserRecord> => {
  let end = start
  for (let left = bytes; end < records.length && end - start < size; end++) {
    left -= sizeOf(records[end])
    if (left < 0 && end > start) break
  }
  return records.slice(start, end)
}

const sizeOf = (record: Aggregate.UserRecord | undefined): number =>
  record === undefined ? 0 : record.data.byteLength + record.partitionKey.length

export const bytesOf = (records: ReadonlyArray<Aggregate.UserRecord>): number =>
  records.reduce((sum, record) => sum + sizeOf(record), 0)

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

/** The place after a record. After the last part of an aggregate it is that after the whole of it. */
const endOf = ({ part, sequenceNumber }: Aggregate.UserRecord): Position.Position =>
  Position.afterSequence(sequenceNumber, part === undefined || part.isLast ? undefined : part.subSequenceNumber)

const makeSlice = (
  run: Run,
  from: Position.Position,
  raw: ReadonlyArray<Aggregate.UserRecord>,
  millisBehindLatest: number | undefined
): RunSlice => {
  const records = raw.map((record, index) =>
    new DeliveredRecord(
      {
        stream: run.stream.label,
        shardId: run.shard.shardId,
        partitionKey: record.partitionKey,
        data: record.data,
        sequenceNumber: record.sequenceNumber,
        subSequenceNumber: record.part?.subSequenceNumber,
        explicitHashKey: record.part?.explicitHashKey,
        arrivalTime: record.arrivalTime,
        millisBehindLatest,
        epoch: run.epoch
      },
      index,
      record.part?.isLast === false
    )
  )
  const last = raw[raw.length - 1]
  const slice: RunSlice = {
    run,
    records,
    bytes: bytesOf(raw),
    from,
    to: last === undefined ? from : endOf(last)
  }
  for (const record of records) record[SliceSymbol] = slice
  return slice
}

/** The stretch that a mark of one record covers: it alone, from the record before it. */
export const intervalOf = (slice: Slice, index: number): Interval => {
  const previous = slice.records[index - 1]
  const record = slice.records[index]
  return {
    from: previous === undefined ? slice.from : after(previous),
    to: record === undefined ? slice.to : after(record)
  }
}
