/** Lists and ends that the simulation came upon: answers that are older than what is known, or that come in between. */
import { assert, describe, it } from "@effect/vitest"
import { Position } from "@kinesumer/core"
import { Faults, KinesisFaults } from "@kinesumer/test-kit"
import { Effect } from "effect"
import { datas, names, pass, putTo, shardId, until } from "../group/support.js"
import {
  consumeShards,
  endsOf,
  eventsOf,
  faulty,
  type FaultyWorld,
  faultyWorld,
  ids,
  isEnded,
  manual,
  shardsOf,
  startsOf
} from "./lineage-support.js"

const a = shardId(0)

const rowsOf = (w: FaultyWorld) =>
  Effect.map(w.store.listCheckpoints("app", "orders"), (rows) => rows.map((row) => row.shardId).sort())

const listed = (w: FaultyWorld) => Effect.map(w.kinesis.shards("orders"), (all) => all.map((shard) => shard.shardId))

describe("merged-with-an-unknown-parent", () => {
  it.scoped("a child whose other parent is younger than the list waits for it, and starts soon after", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* w.kinesis.createStream({ name: "orders", shards: 3 })
      const m = yield* faulty(w, manual)
      const { delivered } = yield* consumeShards(m)
      const of = (id: string) => Effect.map(delivered, (all) => all.filter((record) => record.shardId === id))
      const read = (id: string, count: number) => until(Effect.map(of(id), (all) => all.length === count), 3)
      const marked = (id: string) => Effect.flatMap(of(id), m.service.mark)
      yield* putTo(w, "orders", shardId(1), names("b", 1, 3))
      yield* read(shardId(1), 3)
      // From three to two: 1 is split into 3 and 4, and these are merged with their neighbours 0 and 2, into 5 and 6.
      assert.deepStrictEqual(
        yield* Effect.map(w.kinesis.reshard("orders", 2), (all) => all.map((one) => one.parents)),
        [
          ids(0, 3),
          ids(4, 2)
        ]
      )
      yield* putTo(w, "orders", shardId(5), names("e", 1, 3))
      yield* until(isEnded(w, a), 3)
      // The parent of 3 and 4 is not processed yet, and so they and their children are not read.
      yield* pass(8)
      assert.deepStrictEqual(yield* shardsOf(m), [shardId(1)])
      for (const id of ids(3, 4, 5, 6)) assert.deepStrictEqual(yield* startsOf(w, id), [])
      yield* marked(shardId(1))
      yield* read(shardId(5), 3)
      assert.deepStrictEqual(yield* shardsOf(m), ids(5, 6))
      for (const id of ids(1, 2, 3, 4)) assert.isTrue(yield* isEnded(w, id))
      for (const id of ids(3, 4, 5, 6)) assert.deepStrictEqual(yield* startsOf(w, id), [Position.trimHorizon])
    }))

  it.scoped("a child whose other parent is no more is asked for at once, and not with the next refresh", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* w.kinesis.createStream({ name: "orders", shards: 2 })
      yield* putTo(w, "orders", a, names("a", 1, 3))
      yield* w.kinesis.merge("orders", a, shardId(1))
      yield* w.kinesis.forgetShard("orders", shardId(1))
      yield* w.faults.add({ on: "listShards", times: 2 }, KinesisFaults.hideShards([shardId(2)]))
      const m = yield* faulty(w)
      // The list is asked for at the start, after a second, and six seconds after that.
      yield* pass(2)
      assert.strictEqual((yield* w.kinesis.callsOf("listShards")).length, 2)
      yield* m.consume()
      yield* until(Effect.map(shardsOf(m), (shards) => shards.join() === shardId(2)), 3)
    }))
})

describe("older-list-after-a-newer-one", () => {
  /** The shards 0 to 4: 0 was split into 1 and 2, and 1 into 3 and 4. Everything is read, and two have ended. */
  const twice = (w: FaultyWorld) =>
    Effect.gen(function*() {
      const m = yield* faulty(w)
      yield* m.consume()
      yield* putTo(w, "orders", a, names("a", 1, 3))
      yield* pass(1)
      for (const id of ids(0, 1)) {
        yield* w.kinesis.split("orders", id)
        yield* until(isEnded(w, id), 10)
        yield* putTo(w, "orders", shardId(id === a ? 1 : 3), names(id === a ? "b" : "d", 1, 3))
      }
      yield* until(Effect.map(m.delivered, (all) => all.length === 9), 10)
      yield* until(Effect.map(shardsOf(m), (shards) => shards.length === 3), 10)
      return m
    })

  for (const how of ["stale", "without what is younger"] as const) {
    it.scoped(`removes no rows and begins nothing anew; a newer one does (${how})`, () =>
      Effect.gen(function*() {
        const w = yield* faultyWorld()
        yield* w.kinesis.createStream({ name: "orders" })
        const isStale = how === "stale"
        if (isStale) yield* w.faults.add({ on: "listShards", from: 2 }, Faults.stale)
        const m = yield* twice(w)
        if (!isStale) yield* w.faults.add({ on: "listShards" }, KinesisFaults.hideShards(ids(1, 2, 3, 4)))
        const refreshes = (yield* w.faults.callsOf("listShards")).length
        yield* pass(20)
        assert.isAtLeast((yield* w.faults.callsOf("listShards")).length, refreshes + 2)
        assert.deepStrictEqual(yield* rowsOf(w), ids(0, 1, 2, 3, 4))
        yield* w.faults.healAll
        yield* pass(14)
        assert.deepStrictEqual(yield* rowsOf(w), ids(0, 1, 2, 3, 4))
        assert.deepStrictEqual(datas(yield* m.delivered), [
          ...names("a", 1, 3),
          ...names("b", 1, 3),
          ...names("d", 1, 3)
        ])
        for (const id of ids(0, 1, 2, 3, 4)) assert.strictEqual((yield* startsOf(w, id)).length, 1)
        assert.deepStrictEqual(yield* shardsOf(m), ids(2, 3, 4))

        for (const id of ids(0, 1)) yield* w.kinesis.forgetShard("orders", id)
        assert.deepStrictEqual(yield* listed(w), ids(2, 3, 4))
        yield* pass(8)
        assert.deepStrictEqual(yield* rowsOf(w), ids(2, 3, 4))
        assert.deepStrictEqual(yield* eventsOf(m, "RecordsLost"), [])
        assert.strictEqual((yield* m.delivered).length, 9)
      }))
  }

  for (
    const [sign, fault] of [
      ["an end", { on: "getRecords", action: KinesisFaults.falseEnd }],
      ["a page that is not found", { on: "getRecords", action: Faults.fail("NotFound") }]
    ] as const
  ) {
    it.scoped(`is no second sign for ${sign} of a shard that it lacks`, () =>
      Effect.gen(function*() {
        const w = yield* faultyWorld()
        yield* w.kinesis.createStream({ name: "orders" })
        const m = yield* faulty(w)
        yield* m.consume()
        yield* w.kinesis.split("orders", a)
        yield* until(Effect.map(shardsOf(m), (shards) => shards.length === 2), 10)
        yield* putTo(w, "orders", shardId(1), names("b", 1, 3))
        yield* until(Effect.map(m.delivered, (all) => all.length === 3), 3)
        yield* w.faults.add({ on: "listShards" }, KinesisFaults.hideShards(ids(1, 2)))
        const wrong = yield* w.faults.add({ on: fault.on, shardId: shardId(1) }, fault.action)
        yield* pass(20)
        assert.deepStrictEqual(yield* endsOf(w, shardId(1)), [])
        assert.deepStrictEqual(yield* eventsOf(m, "RecordsLost"), [])
        assert.isAtLeast(yield* wrong.fired, 3)
        yield* w.faults.healAll
        yield* putTo(w, "orders", shardId(1), names("b", 4, 6))
        yield* until(Effect.map(m.delivered, (all) => all.length === 6), 40)
        assert.deepStrictEqual(datas(yield* m.delivered), names("b", 1, 6))
      }))
  }
})

describe("closed-between-a-false-end-and-the-list", () => {
  it.scoped("what was put in between is read before the end is written", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* w.kinesis.createStream({ name: "orders" })
      yield* putTo(w, "orders", a, names("a", 1, 3))
      const m = yield* faulty(w)
      yield* m.consume()
      yield* until(Effect.map(m.delivered, (all) => all.length === 3))
      // The page is from before, and arrives two seconds later.
      yield* w.faults.add({ on: "getRecords", shardId: a, times: 1 }, Faults.delay("2 seconds", "after"))
      const end = yield* w.faults.add({ on: "getRecords", shardId: a, times: 1 }, KinesisFaults.falseEnd)
      yield* until(Effect.map(end.matched, (matched) => matched === 1), 3)
      assert.isTrue(
        (yield* w.faults.callsOf("getRecords", { shardId: a })).some(({ outcome }) => outcome === "pending")
      )
      yield* putTo(w, "orders", a, names("a", 4, 6))
      const [b] = yield* w.kinesis.split("orders", a)
      yield* putTo(w, "orders", b.shardId, names("b", 1, 3))
      yield* until(Effect.map(m.delivered, (all) => all.some((record) => record.shardId === b.shardId)), 15)
      yield* pass(2)
      assert.deepStrictEqual(datas(yield* m.delivered), [...names("a", 1, 6), ...names("b", 1, 3)])
      assert.strictEqual((yield* endsOf(w, a)).length, 1)
    }))
})
