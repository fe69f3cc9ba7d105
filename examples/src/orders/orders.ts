/** The sink. Writing the same record again changes nothing, so a record that is delivered twice is stored once. */
import { SqlClient, SqlSchema } from "@effect/sql"
import type { SqlError } from "@effect/sql"
import type { KinesumerRecord } from "@kinesumer/core"
import { Context, Effect, Layer, Schema } from "effect"
import { Order } from "./order.js"

export class Orders extends Context.Tag("@kinesumer/examples/Orders")<Orders, {
  readonly store: (order: Order, record: KinesumerRecord.KinesumerRecord) => Effect.Effect<void, SqlError.SqlError>
}>() {}

export const layer = Layer.effect(
  Orders,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    yield* createTable
    return {
      store: (order, record) =>
        sql`INSERT INTO orders ${
          sql.insert({
            ...order,
            stream: record.stream,
            shard: record.shardId,
            sequence_number: record.sequenceNumber,
            // A record that is no part of an aggregate has none, and NULL is never the same as NULL.
            sub_sequence_number: record.subSequenceNumber ?? -1,
            epoch: record.epoch
          })
        } ON CONFLICT (stream, shard, sequence_number, sub_sequence_number) DO NOTHING`
    }
  })
)

const createTable = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const id = sql.onDialectOrElse({
    pg: () => sql.literal("BIGSERIAL PRIMARY KEY"),
    orElse: () => sql.literal("INTEGER PRIMARY KEY AUTOINCREMENT")
  })
  yield* sql`CREATE TABLE IF NOT EXISTS orders (
    id ${id},
    stream TEXT NOT NULL,
    shard TEXT NOT NULL,
    sequence_number TEXT NOT NULL,
    sub_sequence_number BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    customer TEXT NOT NULL,
    number INTEGER NOT NULL,
    amount DOUBLE PRECISION NOT NULL,
    UNIQUE (stream, shard, sequence_number, sub_sequence_number)
  )`
})

/** An order, and the record that it came in. */
const Stored = Schema.Struct({ ...Order.fields, sequenceNumber: Schema.String })

/** All that is stored, in the order in which it was. */
export const all = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  SqlSchema.findAll({
    Request: Schema.Void,
    Result: Stored,
    execute: () => sql`SELECT customer, number, amount, sequence_number AS "sequenceNumber" FROM orders ORDER BY id`
  })(undefined))
