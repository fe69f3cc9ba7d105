import { assert, describe, it } from "@effect/vitest"
import { Position } from "@kinesumer/core"
import { Effect, Option } from "effect"
import { datas, member, names, pass, putTo, row, shardId, until, world } from "./support.js"

describe("one member", () => {
  it.scoped("reads all records of a shard in order and commits them", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders", shards: 2 })
      yield* putTo(w, "orders", shardId(0), names("a", 1, 30))
      const m = yield* member(w)
      assert.deepStrictEqual((yield* m.service.assignment).map((shard) => shard.shardId), [shardId(0), shardId(1)])
      yield* m.consume()
      yield* until(Effect.map(m.delivered, (all) => all.length === 30))
      yield* putTo(w, "orders", shardId(1), names("b", 1, 5))
      yield* until(Effect.map(m.delivered, (all) => all.length === 35))
      assert.deepStrictEqual(datas((yield* m.delivered).filter((one) => one.shardId === shardId(0))), names("a", 1, 30))
      yield* pass(3)
      const stored = yield* row(w, shardId(0))
      const last = (yield* w.kinesis.records("orders", shardId(0))).at(-1)
      assert.deepStrictEqual(
        Option.flatMap(stored, (one) => one.position),
        Option.some(Position.afterSequence(last?.sequenceNumber ?? ""))
      )
      yield* m.close
      assert.deepStrictEqual(yield* w.store.listMembers("app"), [])
      assert.isTrue((yield* w.store.listCheckpoints("app", "orders")).every((one) => Option.isNone(one.owner)))
    }))

  it.scoped("goes on behind the checkpoint after a restart", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders" })
      yield* putTo(w, "orders", shardId(0), names("a", 1, 10))
      const first = yield* member(w)
      yield* first.consume()
      yield* until(Effect.map(first.delivered, (all) => all.length === 10))
      yield* pass(2)
      yield* first.close
      yield* putTo(w, "orders", shardId(0), names("a", 11, 20))
      const second = yield* member(w)
      yield* second.consume()
      yield* until(Effect.map(second.delivered, (all) => all.length === 10))
      assert.deepStrictEqual(datas(yield* second.delivered), names("a", 11, 20))
    }))

  it.scoped("follows splits and merges, parents first", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders", shards: 2 })
      yield* putTo(w, "orders", shardId(0), names("a", 1, 3))
      const m = yield* member(w)
      yield* m.consume()
      yield* until(Effect.map(m.delivered, (all) => all.length === 3))
      const [left] = yield* w.kinesis.split("orders", shardId(0))
      yield* putTo(w, "orders", left.shardId, names("b", 1, 3))
      yield* until(Effect.map(m.delivered, (all) => all.length === 6))
      assert.deepStrictEqual(datas(yield* m.delivered), [...names("a", 1, 3), ...names("b", 1, 3)])
      yield* until(
        Effect.map(row(w, shardId(0)), Option.exists((one) => Option.exists(one.position, Position.is("ShardEnd"))))
      )
    }))
})

describe("a group", () => {
  it.scoped("hands shards over to a member that joins, and loses and repeats nothing", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders", shards: 4 })
      for (const index of [0, 1, 2, 3]) yield* putTo(w, "orders", shardId(index), names(`${index}-`, 1, 10))
      const a = yield* member(w, { memberId: "a" })
      yield* a.consume()
      yield* until(Effect.map(a.delivered, (all) => all.length === 40))
      const b = yield* member(w, { memberId: "b" })
      yield* b.consume()
      yield* until(Effect.map(b.service.assignment, (shards) => shards.length === 2), 10)
      assert.strictEqual((yield* a.service.assignment).length, 2)
      for (const index of [0, 1, 2, 3]) yield* putTo(w, "orders", shardId(index), names(`${index}-`, 11, 20))
      yield* until(Effect.zipWith(a.delivered, b.delivered, (x, y) => x.length + y.length === 80))
      assert.strictEqual(new Set(datas([...(yield* a.delivered), ...(yield* b.delivered)])).size, 80)
    }))

  it.scoped("takes over from a member that died, within the liveness timeout and two syncs", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders", shards: 2 })
      const dead = {
        memberId: "a",
        incarnation: "gone",
        heartbeat: 3,
        refreshes: 0,
        streams: ["orders"],
        assignVersion: 1
      }
      yield* w.store.registerMember("app", dead)
      yield* w.store.acquireLeases(
        "app",
        dead,
        [0, 1].map((index) => ({
          stream: "orders",
          shardId: shardId(index),
          takeFrom: Option.none(),
          epochAbove: 0
        }))
      )
      const b = yield* member(w, { memberId: "b" })
      assert.deepStrictEqual(yield* b.service.assignment, [])
      yield* pass(5)
      assert.deepStrictEqual(yield* b.service.assignment, [])
      yield* pass(4)
      assert.deepStrictEqual((yield* b.service.assignment).map(({ epoch }) => epoch), [2, 2])
      // Its row stays until everybody has seen that it is dead.
      assert.deepStrictEqual((yield* w.store.listMembers("app")).map(({ memberId }) => memberId), ["a", "b"])
      yield* pass(6)
      assert.deepStrictEqual((yield* w.store.listMembers("app")).map(({ memberId }) => memberId), ["b"])
    }))
})
