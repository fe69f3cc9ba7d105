/**
 * A position says from where a shard is read. The checkpoint of a shard is a position too.
 *
 * @since 0.1.0
 */
import * as Data from "effect/Data"
import type * as DateTime from "effect/DateTime"
import * as Order_ from "effect/Order"
import type { Ordering } from "effect/Ordering"
import * as SequenceNumber from "./SequenceNumber.js"

/**
 * Where reading goes on:
 *
 * - `TrimHorizon`: at the oldest record that the stream still holds
 * - `AtTimestamp`: at the first record that arrived at or after a moment of Kinesis's clock
 * - `AfterSequence`: after a record. Where several user records share one sequence number (an aggregate),
 *   `subSequenceNumber` is the place of the last one that is done; `undefined` means that the whole record is done
 * - `ShardEnd`: the shard is closed and read to its end. Nothing comes after it
 *
 * @since 0.1.0
 * @category models
 */
export type Position = Data.TaggedEnum<{
  readonly TrimHorizon: object
  readonly AtTimestamp: { readonly timestamp: DateTime.Utc }
  readonly AfterSequence: {
    readonly sequenceNumber: SequenceNumber.SequenceNumber
    readonly subSequenceNumber: number | undefined
  }
  readonly ShardEnd: object
}>

/**
 * @since 0.1.0
 * @category models
 */
export type AtTimestamp = Data.TaggedEnum.Value<Position, "AtTimestamp">

/**
 * @since 0.1.0
 * @category models
 */
export type AfterSequence = Data.TaggedEnum.Value<Position, "AfterSequence">

const Constructors = Data.taggedEnum<Position>()

/**
 * @since 0.1.0
 * @category refinements
 */
export const { $is: is, $match: match } = Constructors

/**
 * @since 0.1.0
 * @category constructors
 */
export const trimHorizon: Position = Constructors.TrimHorizon()

/**
 * @since 0.1.0
 * @category constructors
 */
export const atTimestamp = (timestamp: DateTime.Utc): Position => Constructors.AtTimestamp({ timestamp })

/**
 * @since 0.1.0
 * @category constructors
 */
export const afterSequence = (
  sequenceNumber: SequenceNumber.SequenceNumber,
  subSequenceNumber?: number
): Position => Constructors.AfterSequence({ sequenceNumber, subSequenceNumber })

/**
 * @since 0.1.0
 * @category constructors
 */
export const shardEnd: Position = Constructors.ShardEnd()

const ranks = { TrimHorizon: 0, AtTimestamp: 1, AfterSequence: 2, ShardEnd: 3 } as const

const compareNumbers = (self: number, that: number): Ordering => self < that ? -1 : self > that ? 1 : 0

/**
 * Orders the positions of one shard: `ShardEnd` is above everything, and a whole record is above each of its parts.
 *
 * @since 0.1.0
 * @category ordering
 */
export const compare = (self: Position, that: Position): Ordering => {
  if (self._tag === "AfterSequence" && that._tag === "AfterSequence") {
    const ordering = SequenceNumber.compare(self.sequenceNumber, that.sequenceNumber)
    return ordering !== 0
      ? ordering
      : compareNumbers(self.subSequenceNumber ?? Infinity, that.subSequenceNumber ?? Infinity)
  }
  if (self._tag === "AtTimestamp" && that._tag === "AtTimestamp") {
    return compareNumbers(self.timestamp.epochMillis, that.timestamp.epochMillis)
  }
  return compareNumbers(ranks[self._tag], ranks[that._tag])
}

/**
 * @since 0.1.0
 * @category ordering
 */
export const Order: Order_.Order<Position> = Order_.make(compare)

/**
 * A text whose own order is the order of positions, for stores that can only compare text in a condition: numbers are
 * written behind their length, so that the longer one is larger.
 *
 * @since 0.1.0
 * @category ordering
 */
export const orderKey = (self: Position): string => {
  const rank = ranks[self._tag]
  switch (self._tag) {
    case "TrimHorizon":
    case "ShardEnd":
      return `${rank}`
    case "AtTimestamp":
      return `${rank}:${withLength(`${Math.max(0, Math.floor(self.timestamp.epochMillis))}`)}`
    case "AfterSequence":
      return `${rank}:${withLength(self.sequenceNumber)}:${
        self.subSequenceNumber === undefined ? "~" : withLength(`${self.subSequenceNumber}`)
      }`
  }
}

const withLength = (digits: string): string => `${`${digits.length}`.padStart(3, "0")}${digits}`
