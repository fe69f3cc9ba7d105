/** What a group tells of a server that does not speak CBOR. */
import { assert, describe, it } from "@effect/vitest"
import { KinesisError } from "@kinesumer/core"
import { Deferred, Effect } from "effect"
import { eventsOf } from "../cases/leases-support.js"
import { member, names, pass, putTo, shardId, until, world } from "./support.js"

describe("a client that goes over to JSON", () => {
  it.scoped("is told once by each group that reads with it, and reading goes on", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders", shards: 1 })
      const refused = yield* Deferred.make<KinesisError.KinesisError>()
      const client = { ...w.kinesis.client, fallback: Deferred.await(refused) }
      const orders = yield* member(w, { app: "orders" }, { client })
      const audit = yield* member(w, { app: "audit" }, { client })
      yield* orders.consume()
      yield* pass(1)
      assert.deepStrictEqual(yield* eventsOf(orders, "ProtocolFallback"), [])
      const error = new KinesisError.KinesisError({
        reason: "Unsupported",
        operation: "getRecords",
        stream: "orders",
        detail: "415"
      })
      yield* Deferred.succeed(refused, error)
      yield* putTo(w, "orders", shardId(0), names("a", 1, 3))
      yield* until(Effect.map(orders.delivered, (all) => all.length === 3))
      for (const one of [orders, audit]) {
        assert.deepStrictEqual((yield* eventsOf(one, "ProtocolFallback")).map((event) => event.error), [error])
      }
    }))
})
