/** A record on its way through a member: what user code sees of it, and where it stands in the slice that brought it. */
import * as Inspectable from "effect/Inspectable"
import type { KinesumerRecord } from "../KinesumerRecord.js"
import * as Position from "../Position.js"
import type { Interval } from "./lane.js"
import type { Run } from "./run.js"

/** A slice that was handed over. Its records know it, so that each can be marked wherever it has got to. */
export interface Handed extends Interval {
  readonly run: Run
  readonly records: ReadonlyArray<DeliveredRecord>
}

export const HandedSymbol: unique symbol = Symbol.for("@kinesumer/core/KinesumerRecord/handed")

/** Where a record stands in it: a mark needs to know what came before. */
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
  [HandedSymbol]: Handed | undefined;
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
    this[HandedSymbol] = undefined
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

/** The place after a record. After the last part of an aggregate it is that after the whole of it. */
export const after = (record: DeliveredRecord): Position.Position =>
  Position.afterSequence(record.sequenceNumber, record[FollowedSymbol] ? record.subSequenceNumber : undefined)
