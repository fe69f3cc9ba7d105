/** Turns what Kinesis gives at once, a page or an event, into slices of records. */
import * as Option from "effect/Option"
import type { GetRecordsResult, RawRecord } from "../KinesisClient.js"
import * as Position from "../Position.js"
import * as SequenceNumber from "../SequenceNumber.js"
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
  /** What was read, with what had come before. */
  readonly bytesRead: number
  /** Records at or before the place that was read up to, which are dropped. */
  readonly repeats: number
}

/** Large enough that the cost of a slice is spread out, small enough that little comes again after a failure. */
const sliceRecords = 500

type Answer = Pick<GetRecordsResult, "records" | "millisBehindLatest">

/** `most` is what a slice may hold. A record that is larger is one by itself. */
export const make = (run: Run, read: Position.Position, answer: Answer, most: Room): Page => {
  const records = fresh(read, answer)
  const slices: Array<RunSlice> = []
  let from = read
  for (let start = 0; start < records.length;) {
    const slice = cut(run, from, records, start, answer, most)
    slices.push(slice)
    from = slice.to
    start += slice.records.length
  }
  return {
    slices,
    to: from,
    records: records.length,
    bytes: bytesOf(records),
    bytesRead: bytesOf(answer.records),
    repeats: answer.records.length - records.length
  }
}

/** The records of an answer that had not come before, in order. */
export const fresh = (read: Position.Position, answer: Answer): ReadonlyArray<RawRecord> =>
  inOrder(answer.records).filter(isAfter(read))

/** As many of the records, from the one at `start` on, as make a slice; `from` is where those before them end. */
export const cut = (
  run: Run,
  from: Position.Position,
  records: ReadonlyArray<RawRecord>,
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
  records: ReadonlyArray<RawRecord>,
  start: number,
  size: number,
  bytes: number
): ReadonlyArray<RawRecord> => {
  let end = start
  for (let left = bytes; end < records.length && end - start < size; end++) {
    left -= sizeOf(records[end])
    if (left < 0 && end > start) break
  }
  return records.slice(start, end)
}

const sizeOf = (record: RawRecord | undefined): number =>
  record === undefined ? 0 : record.data.byteLength + record.partitionKey.length

const bytesOf = (records: ReadonlyArray<RawRecord>): number => records.reduce((sum, record) => sum + sizeOf(record), 0)

const isSorted = (records: ReadonlyArray<RawRecord>): boolean => {
  let last: RawRecord | undefined
  for (const record of records) {
    if (last !== undefined && SequenceNumber.compare(last.sequenceNumber, record.sequenceNumber) > 0) return false
    last = record
  }
  return true
}

/** Kinesis answers in order; a stand-in that does not must not make a mark move backwards. */
const inOrder = (records: ReadonlyArray<RawRecord>): ReadonlyArray<RawRecord> =>
  isSorted(records)
    ? records
    : [...records].sort((self, that) => SequenceNumber.compare(self.sequenceNumber, that.sequenceNumber))

const isAfter = (read: Position.Position) => {
  let last = read
  return (record: RawRecord): boolean => {
    const position = Position.afterSequence(record.sequenceNumber)
    if (last._tag === "AfterSequence" && Position.compare(position, last) <= 0) return false
    last = position
    return true
  }
}

const makeSlice = (
  run: Run,
  from: Position.Position,
  raw: ReadonlyArray<RawRecord>,
  millisBehindLatest: number | undefined
): RunSlice => {
  const records = raw.map((record, index) =>
    new DeliveredRecord({
      stream: run.stream.label,
      shardId: run.shard.shardId,
      partitionKey: record.partitionKey,
      data: record.data,
      sequenceNumber: record.sequenceNumber,
      subSequenceNumber: undefined,
      arrivalTime: record.arrivalTime,
      millisBehindLatest,
      epoch: run.epoch
    }, index)
  )
  const last = raw[raw.length - 1]
  const slice: RunSlice = {
    run,
    records,
    bytes: bytesOf(raw),
    from,
    to: last === undefined ? from : Position.afterSequence(last.sequenceNumber)
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
