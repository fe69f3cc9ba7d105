/** Shards that are over weigh nothing: neither in the balance nor in calls. */
import { assert, describe, it } from "@effect/vitest"
import { Position } from "@kinesumer/core"
import { Clock, Effect, Option } from "effect"
import { pass, shardId, until } from "../group/support.js"
import { crash, faulty, faultyWorld, isEnded } from "./lineage-support.js"

describe("ended-shards-are-not-free", () => {
  /** 8 open shards, and many closed ones before them that were read to their end. */
  const history = (resharded: number) =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* w.kinesis.createStream({ name: "orders", shards: 8 })
      let last = shardId(0)
      for (let round = 0; round < resharded; round++) {
        const [left, right] = yield* w.kinesis.split("orders", last)
        last = (yield* w.kinesis.merge("orders", left.shardId, right.shardId)).shardId
      }
      const closed = (yield* w.kinesis.shards("orders")).filter((shard) => shard.closed)
      const earlier = { memberId: "earlier", incarnation: "1" }
      const leases = closed.map((shard) => ({ stream: "orders", shardId: shard.shardId }))
      yield* w.store.acquireLeases(
        "app",
        earlier,
        leases.map((lease) => ({ ...lease, takeFrom: Option.none(), epochAbove: 0 }))
      )
      yield* w.store.commitCheckpoints(
        "app",
        earlier,
        leases.map((lease) => ({ ...lease, epoch: 1, position: Position.shardEnd }))
      )
      return { w, closed }
    })

  const counted = (resharded: number) =>
    Effect.gen(function*() {
      const { closed, w } = yield* history(resharded)
      const start = yield* Clock.currentTimeMillis
      const m = yield* faulty(w)
      yield* m.consume()
      yield* pass(2)
      const calls = yield* w.kinesis.calls
      const writes = yield* Effect.forEach(
        ["acquireLeases", "commitCheckpoints", "updateShards", "releaseLeases"] as const,
        (operation) => Effect.map(w.faults.callsOf(operation), (made) => made.length)
      )
      return {
        closed: closed.length,
        calls: calls.map(({ at, operation }) => [operation, at - start]).filter(([operation]) =>
          operation !== "listShards"
        ),
        writes,
        shards: (yield* m.service.assignment).length
      }
    })

  it.scoped("2,000 ended shards cost the start no call and no write", () =>
    Effect.gen(function*() {
      const none = yield* counted(0)
      const many = yield* counted(667)
      assert.isAbove(many.closed, 2_000)
      assert.deepStrictEqual({ ...many, closed: 0 }, none)
      assert.strictEqual(many.shards, 8)
    }))

  it.scoped("only what can be read is dealt: before the ends, after them, and when a member dies", () =>
    Effect.gen(function*() {
      const { w } = yield* history(10)
      const group = yield* Effect.forEach(["a", "b", "c", "d"], (memberId) => faulty(w, { memberId }))
      yield* Effect.forEach(group, (m) => m.consume())
      const counts = Effect.forEach(group, (m) => Effect.map(m.service.assignment, (shards) => shards.length))
      yield* until(Effect.map(counts, (all) => all.join() === "2,2,2,2"), 15)
      const open = (yield* w.kinesis.shards("orders")).filter((shard) => !shard.closed)
      for (const shard of open) yield* w.kinesis.split("orders", shard.shardId)
      yield* until(Effect.map(counts, (all) => all.join() === "4,4,4,4"), 20)
      for (const shard of open) {
        assert.isTrue(yield* isEnded(w, shard.shardId))
      }
      const others = group.slice(1)
      yield* Effect.forEach(group.slice(0, 1), (m) => crash(w, m))
      yield* until(
        Effect.map(
          Effect.forEach(others, (m) => m.service.assignment),
          (all) => all.map((shards) => shards.length).sort().join() === "5,5,6"
        ),
        20
      )
    }))
})
