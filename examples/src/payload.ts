/** JSON that is packed with gzip, as typed values. What does not decode goes to a stream of its own, with the reason. */
import { Kinesumer, type KinesumerError, Payload } from "@kinesumer/core"
import { LocalKinesis } from "@kinesumer/test-kit"
import { Array, Effect, Ref, Schema, Stream } from "effect"
import { gzipSync } from "node:zlib"
import * as Local from "./local.js"

const Order = Schema.Struct({ id: Schema.Int, amount: Schema.Number.pipe(Schema.positive()) })
type Order = typeof Order.Type

/** What the consumer does. */
const consume = <E>(
  save: (order: Order) => Effect.Effect<void>,
  putDeadLetter: (error: KinesumerError.DecodeError) => Effect.Effect<unknown, E>
) =>
  Effect.gen(function*() {
    const kinesumer = yield* Kinesumer.Kinesumer
    yield* kinesumer.records.pipe(
      Payload.decode(Payload.json(Order), { compression: "gzip", onInvalid: putDeadLetter }),
      Stream.runForEach(({ value }) => save(value))
    )
  }).pipe(Effect.provide(Local.member({ app: "payload", streams: ["orders"] })))

/** Three of a hundred are no orders: text that is not packed, half an object, an amount that cannot be. */
const dataOf = (id: number): Uint8Array => {
  switch (id) {
    case 25:
      return new TextEncoder().encode("an order")
    case 50:
      return gzipSync(`{"id":${id},`)
    case 75:
      return gzipSync(JSON.stringify({ id, amount: -1 }))
    default:
      return gzipSync(JSON.stringify({ id, amount: id / 4 }))
  }
}
const ids = Array.range(1, 100)

export const run = Effect.gen(function*() {
  const { kinesis } = yield* LocalKinesis.LocalKinesis
  const puts = yield* Effect.forEach(ids, (id) =>
    Effect.map(
      kinesis.put({ stream: "orders", partitionKey: `customer-${id % 7}`, data: dataOf(id) }),
      ({ sequenceNumber }) => ({ id, sequenceNumber })
    ))
  const saved = yield* Ref.make<ReadonlyArray<Order>>([])
  // The letter carries the reason and the record as it was.
  const putDeadLetter = (
    { message, reason, record: { data, partitionKey, sequenceNumber } }: KinesumerError.DecodeError
  ) =>
    kinesis.put({
      stream: "orders-dead",
      partitionKey,
      data: JSON.stringify({ sequenceNumber, reason, message, data: Buffer.from(data).toString("base64") })
    })

  const outcome = Effect.gen(function*() {
    const orders = new Set((yield* Ref.get(saved)).map(({ id }) => id))
    const [shard] = yield* kinesis.shards("orders-dead")
    const letters = (yield* kinesis.records("orders-dead", shard?.shardId ?? "")).map(({ data }) => decodeLetter(data))
    const dead = new Set(letters.map(({ sequenceNumber }) => sequenceNumber))
    return {
      put: puts.length,
      saved: orders.size,
      deadLetters: dead.size,
      notUnpacked: letters.filter(({ reason }) => reason === "Compression").length,
      lost: puts.filter(({ id, sequenceNumber }) => !orders.has(id) && !dead.has(sequenceNumber)).length
    }
  })
  const consumer = consume((order) => Ref.update(saved, (all) => [...all, order]), putDeadLetter)
  const found = yield* Effect.raceFirst(
    Effect.zipRight(consumer, outcome),
    Local.lookUntil(outcome, ({ lost }) => lost === 0)
  )
  yield* Local.report(found, found.lost === 0 && found.saved === 97 && found.deadLetters === 3)
}).pipe(Effect.provide(Local.layer({ name: "orders" }, { name: "orders-dead" })))

const decodeLetter = Schema.decodeSync(
  Schema.compose(
    Payload.text,
    Schema.parseJson(Schema.Struct({ sequenceNumber: Schema.String, reason: Schema.String }))
  )
)
