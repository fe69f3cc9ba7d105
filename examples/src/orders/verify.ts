/** Whether each record has become exactly one order or at least one dead letter, and the orders of a customer in turn. */
import * as Sdk from "@aws-sdk/client-kinesis"
import { Array, Effect } from "effect"
import * as Kinesis from "../demo/kinesis.js"
import * as DeadLetters from "./deadLetters.js"
import type { Order } from "./order.js"
import * as Orders from "./orders.js"
import type { Put } from "./producer.js"

export interface Balance {
  readonly put: number
  /** Different orders in the database. */
  readonly stored: number
  /** Different records in the dead-letter stream. */
  readonly deadLetters: number
  readonly lost: number
  readonly doubled: number
  readonly reorderedKeys: number
}

export const balance = (puts: ReadonlyArray<Put>) =>
  Effect.gen(function*() {
    // A database may hold those of earlier runs, whose customers have the same names.
    const mine = new Set(puts.map(({ sequenceNumber }) => sequenceNumber))
    const orders = (yield* Orders.all).filter(({ sequenceNumber }) => mine.has(sequenceNumber))
    const letters = new Set((yield* deadLetters).map(({ sequenceNumber }) => sequenceNumber))
    const stored = new Set(orders.map(nameOf))
    const byCustomer = Object.values(Array.groupBy(orders, ({ customer }) => customer))
    const balance: Balance = {
      put: puts.length,
      stored: stored.size,
      deadLetters: letters.size,
      lost: puts.filter((put) => !stored.has(nameOf(put)) && !letters.has(put.sequenceNumber)).length,
      doubled: orders.length - stored.size,
      reorderedKeys: byCustomer.filter((all) => !isAscending(all)).length
    }
    return balance
  })

const nameOf = ({ customer, number }: Pick<Order, "customer" | "number">): string => `${customer}/${number}`

const isAscending = (orders: ReadonlyArray<Order>): boolean =>
  orders.every((order, index) => index === 0 || order.number >= (orders[index - 1]?.number ?? 0))

/** All of the dead-letter stream, which has one shard. */
const deadLetters = Effect.gen(function*() {
  const { use } = yield* Kinesis.Kinesis
  const StreamName = "orders-dead"
  const { Shards: [shard] = [] } = yield* use(
    "ListShards",
    (client, abort) => client.send(new Sdk.ListShardsCommand({ StreamName }), abort)
  )
  const { ShardIterator: first } = yield* use("GetShardIterator", (client, abort) =>
    client.send(
      new Sdk.GetShardIteratorCommand({ StreamName, ShardId: shard?.ShardId, ShardIteratorType: "TRIM_HORIZON" }),
      abort
    ))
  const letters: Array<DeadLetters.DeadLetter> = []
  let iterator = first
  while (iterator !== undefined) {
    const { NextShardIterator, Records = [] } = yield* use(
      "GetRecords",
      (client, abort) => client.send(new Sdk.GetRecordsCommand({ ShardIterator: iterator }), abort)
    )
    if (Records.length === 0) break
    letters.push(...Records.flatMap(({ Data }) => Data === undefined ? [] : [DeadLetters.decode(Data)]))
    iterator = NextShardIterator
  }
  return letters
})
