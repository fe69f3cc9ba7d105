/** Answers whose records are made when they are asked for, beside what is known of them before. */
import type { GetRecordsResult, RawRecord, SubscriptionEvent } from "../KinesisClient.js"
import type { Packed } from "./recordsCbor.js"
import * as RecordsCbor from "./recordsCbor.js"

const known = new WeakMap<object, Packed>()

/**
 * An answer with these records. Whoever copies it or changes it gets an answer like any other: what is known belongs to
 * this very object.
 */
export const make = <A extends Omit<GetRecordsResult | SubscriptionEvent, "records">>(
  records: ReadonlyArray<RawRecord> | Packed,
  rest: A
): A & { readonly records: ReadonlyArray<RawRecord> } => {
  if (!("get" in records)) return { records, ...rest }
  let made: ReadonlyArray<RawRecord> | undefined
  const answer = {
    get records() {
      made ??= RecordsCbor.unpack(records)
      return made
    },
    ...rest
  }
  known.set(answer, records)
  return answer
}

/** The records of an answer as they came; nothing where they have to be put in order first. */
export const packed = (answer: object): Packed | undefined => {
  const records = known.get(answer)
  return records?.isAscending === true ? records : undefined
}
