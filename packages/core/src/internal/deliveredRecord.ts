/** A record on its way through a member: what user code sees of it, and where it stands in the slice that brought it. */
import * as Inspectable from "effect/Inspectable"
import type { KinesumerRecord } from "../KinesumerRecord.js"
import type { RunSlice } from "./page.js"

/** Where a record stands in the slice that brought it: a mark needs to know what came before. */
export const SliceSymbol: unique symbol = Symbol.for("@kinesumer/core/KinesumerRecord/slice")

export const IndexSymbol: unique symbol = Symbol.for("@kinesumer/core/KinesumerRecord/index")

/** Whether others of the same aggregate come after it. */
export const FollowedSymbol: unique symbol = Symbol.for("@kinesumer/core/KinesumerRecord/followed")

/** A record as it is handed out. What it prints and what JSON has of it are the public fields alone. */
export class DeliveredRecord extends Inspectable.Class implements KinesumerRecord {
  readonly stream: string
  readonly shardId: string
  readonly partitionKey: string
  readonly data: Uint8Array
  readonly sequenceNumber: string
  readonly subSequenceNumber: number | undefined
  readonly explicitHashKey: string | undefined
  readonly arrivalTime: Date | undefined
  readonly millisBehindLatest: number | undefined
  readonly epoch: number;
  [SliceSymbol]: RunSlice | undefined;
  [IndexSymbol]: number;
  [FollowedSymbol]: boolean

  constructor(record: KinesumerRecord, index: number, isFollowed = false) {
    super()
    this.stream = record.stream
    this.shardId = record.shardId
    this.partitionKey = record.partitionKey
    this.data = record.data
    this.sequenceNumber = record.sequenceNumber
    this.subSequenceNumber = record.subSequenceNumber
    this.explicitHashKey = record.explicitHashKey
    this.arrivalTime = record.arrivalTime
    this.millisBehindLatest = record.millisBehindLatest
    this.epoch = record.epoch
    this[SliceSymbol] = undefined
    this[IndexSymbol] = index
    this[FollowedSymbol] = isFollowed
  }

  toJSON(): KinesumerRecord {
    return {
      stream: this.stream,
      shardId: this.shardId,
      partitionKey: this.partitionKey,
      data: this.data,
      sequenceNumber: this.sequenceNumber,
      subSequenceNumber: this.subSequenceNumber,
      explicitHashKey: this.explicitHashKey,
      arrivalTime: this.arrivalTime,
      millisBehindLatest: this.millisBehindLatest,
      epoch: this.epoch
    }
  }
}
