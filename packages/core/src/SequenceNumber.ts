/**
 * Sequence numbers order the records of a shard. They are decimal numbers of 56 digits and more: too long for a
 * `number`, and of different lengths, so plain text does not order them either.
 *
 * @since 0.1.0
 */
import * as Order_ from "effect/Order"
import type { Ordering } from "effect/Ordering"

/**
 * A Kinesis sequence number: decimal digits without a sign or leading zeros.
 *
 * @since 0.1.0
 * @category models
 */
export type SequenceNumber = string

/**
 * `true` for text that has the shape of a sequence number.
 *
 * @since 0.1.0
 * @category predicates
 */
export const isSequenceNumber = (text: string): boolean => /^(0|[1-9]\d*)$/.test(text)

/**
 * Orders sequence numbers by value. Without leading zeros the longer number is the larger one, and text of one length
 * compares as its number does, so no big integer is made on the path of a record.
 *
 * @since 0.1.0
 * @category ordering
 * @example
 * import { SequenceNumber } from "@kinesumer/core"
 *
 * export const ordering: -1 | 0 | 1 = SequenceNumber.compare("9", "10") // -1
 */
export const compare = (self: SequenceNumber, that: SequenceNumber): Ordering =>
  self === that
    ? 0
    : self.length === that.length
    ? (self < that ? -1 : 1)
    : (self.length < that.length ? -1 : 1)

/**
 * @since 0.1.0
 * @category ordering
 */
export const Order: Order_.Order<SequenceNumber> = Order_.make(compare)
