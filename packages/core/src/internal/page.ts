/** Turns what Kinesis gives at once, a page or an event, into slices of records. */
import * as Option from "effect/Option"
import type { GetRecordsResult } from "../KinesisClient.js"
import type * as Position from "../Position.js"
import type { Room } from "./budget.js"
import * as Content from "./content.js"
import { after, DeliveredRecord, type Handed, HandedSymbol } from "./deliveredRecord.js"
import type { Interval, Slice } from "./lane.js"
import type { Run } from "./run.js"

export interface Page {
  readonly slices: ReadonlyArray<Slice>
  /** Where the page ends. */
  readonly to: Position.Position
  readonly records: number
  readonly bytes: number
}

/** Large enough that the cost of a slice is spread out, small enough that little comes again after a failure. */
const sliceRecords = 500

type Answer = Pick<GetRecordsResult, "millisBehindLatest">

/**
 * Slices of the first records: up to `room`, which the last one may exceed in bytes. `most` is what a slice may hold; a
 * record that is larger is one by itself.
 */
export const make = (
  run: Run,
  read: Position.Position,
  records: Content.UserRecords,
  room: Room,
  answer: Answer,
  most: Room
): Page => {
  const slices: Array<Slice> = []
  let to = read
  let bytes = 0
  const end = Math.min(room.records, records.count)
  let start = 0
  while (start < end && bytes < room.bytes) {
    const slice = cut(run, to, records, start, answer, { ...most, records: Math.min(most.records, end - start) })
    slices.push(slice)
    to = slice.to
    start += slice.size
    bytes += slice.bytes
  }
  return { slices, to, records: start, bytes }
}

/** As many of the records, from the one at `start` on, as make a slice; `from` is where those before them end. */
export const cut = (
  run: Run,
  from: Position.Position,
  records: Content.UserRecords,
  start: number,
  { millisBehindLatest }: Answer,
  most: Room
): Slice => {
  const size = Math.min(sliceRecords, most.records, records.count - start)
  let end = start + 1
  let bytes = records.sizeOf(start)
  for (; end - start < size; end++) {
    const more = records.sizeOf(end)
    if (bytes + more > most.bytes) break
    bytes += more
  }
  return new PageSlice({ run, records, millisBehindLatest: Option.getOrUndefined(millisBehindLatest) }, from, {
    start,
    end,
    bytes
  })
}

/** What the slices of a page share. */
interface Source {
  readonly run: Run
  readonly records: Content.UserRecords
  readonly millisBehindLatest: number | undefined
}

/**
 * A slice that makes its records as it is handed over. It does not keep them: it has grown old in the buffer, and what an
 * old object holds lives until the old ones are looked through, however dead both are.
 */
class PageSlice implements Slice {
  readonly from: Position.Position
  readonly to: Position.Position
  readonly size: number
  readonly bytes: number
  private readonly source: Source
  private readonly start: number

  constructor(
    source: Source,
    from: Position.Position,
    { bytes, end, start }: { readonly start: number; readonly end: number; readonly bytes: number }
  ) {
    this.source = source
    this.start = start
    this.from = from
    this.to = Content.endOf(source.records.get(end - 1))
    this.size = end - start
    this.bytes = bytes
  }

  split(size: number): readonly [first: Slice, rest: Slice] {
    const { records } = this.source
    const middle = this.start + size
    const end = this.start + this.size
    let bytes = 0
    for (let index = this.start; index < middle; index++) bytes += records.sizeOf(index)
    const first = new PageSlice(this.source, this.from, { start: this.start, end: middle, bytes })
    return [first, new PageSlice(this.source, first.to, { start: middle, end, bytes: this.bytes - bytes })]
  }

  open(): Handed {
    const { millisBehindLatest, records: { get }, run } = this.source
    const records: Array<DeliveredRecord> = []
    const handed: Handed = { run, records, from: this.from, to: this.to }
    for (let index = 0; index < this.size; index++) {
      const record = get(this.start + index)
      const delivered = new DeliveredRecord(
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
      delivered[HandedSymbol] = handed
      records.push(delivered)
    }
    return handed
  }
}

/** The stretch that a mark of one record covers: it alone, from the record before it. */
export const intervalOf = ({ from, records, to }: Handed, index: number): Interval => {
  const previous = records[index - 1]
  const record = records[index]
  return {
    from: previous === undefined ? from : after(previous),
    to: record === undefined ? to : after(record)
  }
}
