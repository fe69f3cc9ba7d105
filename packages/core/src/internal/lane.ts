/**
 * What a member knows of one running shard: how far it was read, delivered, processed and committed. All of it is one
 * immutable value and pure transitions, so that each rule about positions stands in one place.
 *
 * ```
 *   committed <= processed <= cursor <= read
 * ```
 *
 * `read` moves when a page arrives, `cursor` when the stream pulls a slice, `processed` when marks close up without a
 * gap, `committed` when the store has answered. Where all that was read is processed, a commit goes on up to `passed`.
 */
import * as Option from "effect/Option"
import * as Position from "../Position.js"
import type { Handed } from "./deliveredRecord.js"

/** Records of one shard that wait to be handed over together. `from` and `to` are the cursor before and after it. */
export interface Slice {
  readonly size: number
  readonly bytes: number
  readonly from: Position.Position
  readonly to: Position.Position
  /** Its first records, so many, and the rest. */
  readonly split: (size: number) => readonly [first: Slice, rest: Slice]
  /** Makes the records: what waits is little more than their places in the answer that brought them. */
  readonly open: () => Handed
}

/** A stretch of records that are marked while something before them is not yet. */
export interface Interval {
  readonly from: Position.Position
  readonly to: Position.Position
}

/**
 * - `Open`: there may be more to read
 * - `Read`: Kinesis gave no next iterator, and a second sign agreed that the shard has ended. What was read may still
 *   wait to be delivered and marked
 * - `Stopped`: this member reads no more of it
 */
export type Ending = "Open" | "Read" | "Stopped"

export interface Lane {
  readonly committed: Position.Position
  readonly processed: Position.Position
  readonly marked: ReadonlyArray<Interval>
  readonly cursor: Position.Position
  readonly read: Position.Position
  /** What was read after `read` up to here is not delivered; it is done when nothing before it is left. */
  readonly passed: Position.Position
  readonly waiting: ReadonlyArray<Slice>
  readonly waitingRecords: number
  readonly waitingBytes: number
  readonly ending: Ending
  /** Grows whenever a page that is on its way must not come in any more. */
  readonly generation: number
}

/**
 * Marks beyond a gap are kept as intervals. A group that leaves this many gaps has lost track itself; forgetting the
 * marks furthest ahead keeps memory bounded and only means that those records are delivered again after a restart.
 */
export const maxGaps = 10_000

export const make = (position: Position.Position): Lane => ({
  committed: position,
  processed: position,
  marked: [],
  cursor: position,
  read: position,
  passed: position,
  waiting: [],
  waitingRecords: 0,
  waitingBytes: 0,
  ending: "Open",
  generation: 0
})

/** Adds what a page brought, unless it is refused since it was asked for. */
export const push = (lane: Lane, generation: number, slices: ReadonlyArray<Slice>): Option.Option<Lane> => {
  if (generation !== lane.generation) return Option.none()
  const last = slices[slices.length - 1]
  return Option.some(
    last === undefined ? lane : {
      ...lane,
      waiting: [...lane.waiting, ...slices],
      waitingRecords: slices.reduce((sum, { size }) => sum + size, lane.waitingRecords),
      waitingBytes: slices.reduce((sum, { bytes }) => sum + bytes, lane.waitingBytes),
      read: last.to
    }
  )
}

/** Reading has got further, by records that are dropped. */
export const pass = (lane: Lane, read: Position.Position, to: Position.Position): Lane =>
  Position.compare(lane.read, read) === 0 && Position.compare(to, lane.passed) > 0 ? { ...lane, passed: to } : lane

/** The next slice, or as much of it as is wanted. This is the one place that moves the cursor forwards. */
export const pull = (lane: Lane, most = Infinity): readonly [slice: Option.Option<Slice>, lane: Lane] => {
  const [first, ...others] = lane.waiting
  if (first === undefined) return [Option.none(), lane]
  const [slice, ...rest] = first.size <= most ? [first] : first.split(most)
  return [
    Option.some(slice),
    {
      ...lane,
      waiting: [...rest, ...others],
      waitingRecords: lane.waitingRecords - slice.size,
      waitingBytes: lane.waitingBytes - slice.bytes,
      cursor: slice.to
    }
  ]
}

/** Marks a stretch as processed. Marks come in any order; `processed` moves over those that close up. */
export const mark = (lane: Lane, interval: Interval): Lane => {
  if (Position.compare(interval.to, lane.processed) <= 0) return lane
  const marked = insert(lane.marked, interval)
  const first = marked[0]
  return first !== undefined && Position.compare(first.from, lane.processed) <= 0
    ? { ...lane, processed: first.to, marked: marked.slice(1) }
    : { ...lane, marked: marked.length > maxGaps ? marked.slice(0, maxGaps) : marked }
}

/** Keeps the intervals sorted, apart and joined where they touch. */
const insert = (marked: ReadonlyArray<Interval>, interval: Interval): ReadonlyArray<Interval> => {
  const start = firstIndex(marked, (other) => Position.compare(other.to, interval.from) >= 0)
  const end = firstIndex(marked, (other) => Position.compare(other.from, interval.to) > 0)
  const joined = marked.slice(start, end).reduce<Interval>((self, that) => ({
    from: Position.compare(that.from, self.from) < 0 ? that.from : self.from,
    to: Position.compare(that.to, self.to) > 0 ? that.to : self.to
  }), interval)
  return [...marked.slice(0, start), joined, ...marked.slice(end)]
}

/** Where the intervals begin for which this holds, as it does for all that follow. There can be as many as are in hand. */
const firstIndex = (marked: ReadonlyArray<Interval>, holds: (interval: Interval) => boolean): number => {
  let low = 0
  let high = marked.length
  while (low < high) {
    const middle = (low + high) >>> 1
    const interval = marked[middle]
    if (interval !== undefined && holds(interval)) high = middle
    else low = middle + 1
  }
  return low
}

/**
 * Gives back what was delivered and not processed: the next pull begins at the first unprocessed record. Nothing happens
 * where everything delivered was processed.
 */
export const rewind = (lane: Lane): Lane =>
  Position.compare(lane.processed, lane.cursor) === 0 ? lane : beginAt({ ...lane, marked: [] }, lane.processed)

/** Refuses what is on its way, to be read again. After an end nothing is on its way. */
export const refuse = (lane: Lane): Lane => lane.ending === "Open" ? { ...lane, generation: lane.generation + 1 } : lane

/** Drops what waits and refuses what is on its way, to be read again from the cursor. */
export const drop = (lane: Lane): Lane => lane.waiting.length === 0 ? refuse(lane) : beginAt(lane, lane.cursor)

/** Drops what waits, for good. An end that was read and waits for nothing but marks stays one. */
export const stop = (lane: Lane): Lane => {
  const dropped = drop(lane)
  return dropped.ending === "Open" ? { ...dropped, ending: "Stopped" } : dropped
}

/**
 * Kinesis no longer accepts the position: reading begins anew at the oldest record. The place in the order is given up
 * with it, since what comes next may belong to another numbering.
 */
export const restart = (lane: Lane): Lane => ({
  ...beginAt(lane, Position.trimHorizon),
  processed: Position.trimHorizon,
  committed: Position.trimHorizon,
  marked: []
})

const beginAt = (lane: Lane, position: Position.Position): Lane => ({
  ...lane,
  cursor: position,
  read: position,
  passed: position,
  waiting: [],
  waitingRecords: 0,
  waitingBytes: 0,
  ending: lane.ending === "Stopped" ? "Stopped" : "Open",
  generation: lane.generation + 1
})

export const end = (lane: Lane, generation: number): Lane =>
  generation === lane.generation ? { ...lane, ending: "Read" } : lane

/** Everything that was handed out is processed; a late mark after a rewind can be ahead of what is handed out again. */
export const isSettled = (lane: Lane): boolean => Position.compare(lane.processed, lane.cursor) >= 0

/** The shard is over for this member: read to its end, all of it delivered and processed. */
export const isFinished = (lane: Lane): boolean =>
  lane.ending === "Read" && lane.waiting.length === 0 && isSettled(lane)

/** Its end is written: whatever is marked from now on is a part of that. */
export const isEnded = (lane: Lane): boolean => lane.committed._tag === "ShardEnd"

/** What a commit would write now, if it is more than what is written already. */
export const toCommit = (lane: Lane): Option.Option<Position.Position> => {
  const position = isFinished(lane) ? Position.shardEnd : done(lane)
  return position._tag !== "TrimHorizon" && Position.compare(position, lane.committed) > 0
    ? Option.some(position)
    : Option.none()
}

/** Up to here nothing is left to do. */
const done = (lane: Lane): Position.Position =>
  lane.waiting.length === 0 && isSettled(lane) && Position.compare(lane.passed, lane.processed) > 0
    ? lane.passed
    : lane.processed

export const committed = (lane: Lane, position: Position.Position): Lane =>
  Position.compare(position, lane.committed) > 0 ? { ...lane, committed: position } : lane
