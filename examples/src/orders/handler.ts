/** What is done with a record, and when it is tried again. */
import { Kinesumer, type KinesumerRecord } from "@kinesumer/core"
import { Effect, Predicate, Schedule } from "effect"
import * as Order from "./order.js"
import { Orders } from "./orders.js"

export const handler = Effect.map(
  Order.decoder,
  (decode) => (record: KinesumerRecord.KinesumerRecord) =>
    Effect.gen(function*() {
      const orders = yield* Orders
      const { value } = yield* decode(record)
      yield* orders.store(value, record).pipe(Kinesumer.whileLeased(record))
    })
)

/** A record that is no order does not become one by trying again. */
export const retry = Schedule.exponential("50 millis").pipe(
  Schedule.jittered,
  Schedule.intersect(Schedule.recurs(7)),
  Schedule.whileInput((error: unknown) => !Predicate.isTagged(error, "DecodeError"))
)
