/** A record with what its data say. It stands where the record stood, so it can be marked like it. */
import type { KinesumerRecord } from "../KinesumerRecord.js"
import { DeliveredRecord, FollowedSymbol, HandedSymbol, IndexSymbol } from "./deliveredRecord.js"

export class DecodedRecord<out A> extends DeliveredRecord {
  readonly value: A

  constructor(record: KinesumerRecord, value: A) {
    const isDelivered = record instanceof DeliveredRecord
    super(record, isDelivered ? record[IndexSymbol] : 0, isDelivered && record[FollowedSymbol])
    this[HandedSymbol] = isDelivered ? record[HandedSymbol] : undefined
    this.value = value
  }

  override toJSON(): KinesumerRecord & { readonly value: A } {
    return { ...super.toJSON(), value: this.value }
  }
}
