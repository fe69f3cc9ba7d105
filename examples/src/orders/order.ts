/** What the records carry. */
import { Schema } from "effect"

export const Order = Schema.Struct({
  customer: Schema.NonEmptyString,
  /** Counts the orders of a customer, from 1 on. */
  number: Schema.Int,
  amount: Schema.Number.pipe(Schema.positive())
})
export type Order = typeof Order.Type

const Json = Schema.parseJson(Order)

export const encode = (order: Order): Uint8Array => new TextEncoder().encode(Schema.encodeSync(Json)(order))

const decodeJson = Schema.decode(Json)

export const decode = (data: Uint8Array) => decodeJson(new TextDecoder().decode(data))
