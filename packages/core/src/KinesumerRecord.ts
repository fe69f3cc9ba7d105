/**
 * The records that a group hands to user code.
 *
 * @since 0.1.0
 */
import * as Inspectable from "effect/Inspectable"
import type { RunSlice } from "./internal/page.js"

/**
 * One record of a shard.
 *
 * @since 0.1.0
 * @category models
 */
export interface KinesumerRecord {
  /** The stream, as it was configured: a name or an ARN. */
  readonly stream: string
  readonly shardId: string
  readonly partitionKey: string
  readonly data: Uint8Array
  readonly sequenceNumber: string
  /** The place within an aggregate; `undefined` for a record that stands for itself. */
  readonly subSequenceNumber: number | undefined
  /** When Kinesis took the record in, by its clock, to the millisecond; approximate, as Kinesis says itself. */
  readonly arrivalTime: Date | undefined
  /** How far behind the tip of the shard it was read, in milliseconds; `undefined` where Kinesis does not say. */
  readonly millisBehindLatest: number | undefined
  /** The epoch of the lease under which it was read: a fencing token for what is written because of it. */
  readonly epoch: number
}

/** @internal Where a record stands in the slice that brought it: a mark needs to know what came before. */
export const SliceSymbol: unique symbol = Symbol.for("@kinesumer/core/KinesumerRecord/slice")

/** @internal */
export const IndexSymbol: unique symbol = Symbol.for("@kinesumer/core/KinesumerRecord/index")

/** @internal A record as it is handed out. What it prints and what JSON has of it are the public fields alone. */
export class DeliveredRecord extends Inspectable.Class implements KinesumerRecord {
  readonly stream: string
  readonly shardId: string
  readonly partitionKey: string
  readonly data: Uint8Array
  readonly sequenceNumber: string
  readonly subSequenceNumber: number | undefined
  readonly arrivalTime: Date | undefined
  readonly millisBehindLatest: number | undefined
  readonly epoch: number;
  [SliceSymbol]: RunSlice | undefined;
  [IndexSymbol]: number

  constructor(record: KinesumerRecord, index: number) {
    super()
    this.stream = record.stream
    this.shardId = record.shardId
    this.partitionKey = record.partitionKey
    this.data = record.data
    this.sequenceNumber = record.sequenceNumber
    this.subSequenceNumber = record.subSequenceNumber
    this.arrivalTime = record.arrivalTime
    this.millisBehindLatest = record.millisBehindLatest
    this.epoch = record.epoch
    this[SliceSymbol] = undefined
    this[IndexSymbol] = index
  }

  toJSON(): KinesumerRecord {
    return {
      stream: this.stream,
      shardId: this.shardId,
      partitionKey: this.partitionKey,
      data: this.data,
      sequenceNumber: this.sequenceNumber,
      subSequenceNumber: this.subSequenceNumber,
      arrivalTime: this.arrivalTime,
      millisBehindLatest: this.millisBehindLatest,
      epoch: this.epoch
    }
  }
}
