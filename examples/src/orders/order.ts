/** What the records carry. */
import { Payload } from "@kinesumer/core"
import { Schema } from "effect"

export const Order = Schema.Struct({
  customer: Schema.NonEmptyString,
  /** Counts the orders of a customer, from 1 on. */
  number: Schema.Int,
  amount: Schema.Number.pipe(Schema.positive())
})
export type Order = typeof Order.Type

const Json = Payload.json(Order)

export const encode = Schema.encodeSync(Json)

export const decoder = Payload.decoder(Json)
