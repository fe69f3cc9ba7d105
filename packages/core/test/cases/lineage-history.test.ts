/** What a group finds that was away, or has never been there, while shards were split, merged, emptied and removed. */
import { assert, describe, it } from "@effect/vitest"
import { type KinesumerConfig, Position } from "@kinesumer/core"
import { Faults } from "@kinesumer/test-kit"
import { Effect, Option } from "effect"
import { datas, member, names, pass, putTo, row, shardId, until, type World, world } from "../group/support.js"
import {
  endsOf,
  eventsOf,
  faulty,
  type FaultyWorld,
  faultyWorld,
  ids,
  isEnded,
  shardsOf,
  startsOf
} from "./lineage-support.js"

const a = shardId(0)

/** A group that read some records of the first shard, committed them, and stopped. */
const wasThere = (w: World, count: number, options: Partial<KinesumerConfig.KinesumerOptions> = {}) =>
  Effect.gen(function*() {
    yield* putTo(w, "orders", a, names("a", 1, count))
    const m = yield* member(w, options)
    yield* m.consume()
    yield* until(Effect.map(m.delivered, (all) => all.length === count))
    yield* pass(1.4)
    yield* m.close
    yield* w.kinesis.clearCalls
    return Option.getOrThrow(Option.flatMap(yield* row(w, a), ({ position }) => position))
  })

const split = (w: World, id: string, prefixes: readonly [string, string]) =>
  Effect.gen(function*() {
    const [left, right] = yield* w.kinesis.split("orders", id)
    yield* putTo(w, "orders", left.shardId, names(prefixes[0], 1, 3))
    yield* putTo(w, "orders", right.shardId, names(prefixes[1], 1, 3))
    return [left.shardId, right.shardId] as const
  })

const ofShard = (records: ReadonlyArray<Parameters<typeof datas>[0][number]>, id: string) =>
  datas(records.filter((record) => record.shardId === id))

describe("closed-before-first-seen", () => {
  for (const [title, count] of [["one member", 1], ["three members at once", 3]] as const) {
    it.scoped(`the rest of a closed shard first, then its children: ${title}`, () =>
      Effect.gen(function*() {
        const w = yield* world()
        yield* w.kinesis.createStream({ name: "orders" })
        yield* wasThere(w, 40)
        yield* putTo(w, "orders", a, names("a", 41, 100))
        const [b, c] = yield* split(w, a, ["b", "c"])
        const group = yield* Effect.forEach(["x", "y", "z"].slice(0, count), (memberId) => member(w, { memberId }), {
          concurrency: "unbounded"
        })
        yield* Effect.forEach(group, (m) => m.consume())
        const all = Effect.map(Effect.forEach(group, (m) => m.delivered), (parts) => parts.flat())
        yield* until(Effect.map(all, (records) => records.length === 66), 20)
        yield* pass(2)
        const records = yield* all
        assert.strictEqual(records.length, 66)
        assert.deepStrictEqual(ofShard(records, a), names("a", 41, 100))
        assert.deepStrictEqual(ofShard(records, b), names("b", 1, 3))
        assert.deepStrictEqual(ofShard(records, c), names("c", 1, 3))
        assert.deepStrictEqual(yield* startsOf(w, b), [Position.trimHorizon])
        // The children were opened when the parent had been read to its end, and not before.
        const order = (yield* w.kinesis.calls).flatMap((call) => "shardId" in call ? [call.shardId] : [])
        assert.isBelow(order.lastIndexOf(a), order.indexOf(b))
      }))
  }

  it.scoped("an empty store, from the beginning", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders" })
      yield* putTo(w, "orders", a, names("a", 1, 10))
      yield* split(w, a, ["b", "c"])
      const m = yield* member(w)
      yield* m.consume()
      yield* until(Effect.map(m.delivered, (all) => all.length === 16), 10)
      assert.deepStrictEqual(datas(yield* m.delivered).slice(0, 10), names("a", 1, 10))
    }))

  it.scoped("closed and empty", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders" })
      yield* split(w, a, ["b", "c"])
      const m = yield* member(w)
      yield* m.consume()
      yield* until(Effect.map(m.delivered, (all) => all.length === 6), 10)
      assert.isTrue(yield* isEnded(w, a))
    }))

  it.scoped("two generations", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders" })
      yield* wasThere(w, 4)
      yield* putTo(w, "orders", a, names("a", 5, 10))
      const [b, c] = yield* split(w, a, ["b", "c"])
      const [d, e] = yield* split(w, b, ["d", "e"])
      const m = yield* member(w)
      yield* m.consume()
      yield* until(Effect.map(m.delivered, (all) => all.length === 6 + 12), 15)
      const records = yield* m.delivered
      assert.deepStrictEqual(datas(records).slice(0, 6), names("a", 5, 10))
      assert.deepStrictEqual(ofShard(records, b), names("b", 1, 3))
      assert.deepStrictEqual(ofShard(records, c), names("c", 1, 3))
      assert.deepStrictEqual(ofShard(records, d), names("d", 1, 3))
      assert.deepStrictEqual(ofShard(records, e), names("e", 1, 3))
      const order = records.map((record) => record.shardId)
      assert.isBelow(order.lastIndexOf(b), order.indexOf(d))
    }))

  it.scoped("an empty store, from now on", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders" })
      yield* putTo(w, "orders", a, names("a", 1, 10))
      const [b, c] = yield* split(w, a, ["b", "c"])
      yield* pass(2)
      const m = yield* member(w, { startFrom: "Latest" })
      yield* m.consume()
      yield* putTo(w, "orders", b, names("b", 4, 6))
      yield* putTo(w, "orders", c, names("c", 4, 6))
      yield* until(Effect.map(m.delivered, (all) => all.length === 6), 10)
      const records = yield* m.delivered
      assert.deepStrictEqual(ofShard(records, a), [])
      assert.deepStrictEqual(ofShard(records, b), names("b", 4, 6))
      assert.deepStrictEqual(ofShard(records, c), names("c", 4, 6))
    }))
})

describe("closed-shard-emptied-earlier", () => {
  it.scoped("its end is written without a record, and the children start", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders" })
      yield* wasThere(w, 10)
      yield* split(w, a, ["b", "c"])
      const m = yield* member(w)
      yield* m.consume()
      yield* until(Effect.map(m.delivered, (all) => all.length === 6), 10)
      assert.isTrue(yield* isEnded(w, a))
      assert.deepStrictEqual(ofShard(yield* m.delivered, a), [])
    }))
})

describe("first-record-needed-to-begin", () => {
  it.scoped("a chain of shards without a record in between", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders", shards: 2 })
      const b = yield* w.kinesis.merge("orders", a, shardId(1))
      const [c, d] = yield* split(w, b.shardId, ["c", "d"])
      const m = yield* member(w)
      yield* m.consume()
      yield* until(Effect.map(m.delivered, (all) => all.length === 6), 10)
      assert.deepStrictEqual(yield* shardsOf(m), [c, d])
      for (const id of [a, shardId(1), b.shardId]) assert.isTrue(yield* isEnded(w, id))
    }))
})

describe("one-parent-gone-one-unread", () => {
  it.scoped("the child waits for the parent that is left, alone", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders", shards: 2 })
      const b = shardId(1)
      yield* putTo(w, "orders", b, names("b", 1, 10))
      const c = yield* w.kinesis.merge("orders", a, b)
      yield* putTo(w, "orders", c.shardId, names("c", 1, 3))
      yield* w.kinesis.forgetShard("orders", a)
      const m = yield* member(w)
      assert.deepStrictEqual(yield* shardsOf(m), [b])
      yield* m.consume()
      yield* until(Effect.map(m.delivered, (all) => all.length === 13), 10)
      assert.deepStrictEqual(datas(yield* m.delivered), [...names("b", 1, 10), ...names("c", 1, 3)])
      assert.deepStrictEqual(yield* startsOf(w, a), [])
    }))
})

describe("aged-out-shard-blocks-restart", () => {
  /**
   * `A#3` is committed and there is more. Then, with nobody there, `A -> B,C` and `B,D -> E`; D has records. The shards
   * are 0: A, 1: D, 2: B, 3: C, 4: E.
   */
  const away = (w: FaultyWorld) =>
    Effect.gen(function*() {
      yield* w.kinesis.createStream({ name: "orders", shards: 2 })
      const position = yield* wasThere(w, 3)
      yield* putTo(w, "orders", a, names("a", 4, 9))
      yield* putTo(w, "orders", shardId(1), names("d", 1, 3))
      // Hash keys decide which of the children is D's neighbour.
      const [c, b] = yield* w.kinesis.split("orders", a)
      yield* putTo(w, "orders", b.shardId, names("b", 1, 3))
      yield* putTo(w, "orders", c.shardId, names("c", 1, 3))
      const e = yield* w.kinesis.merge("orders", b.shardId, shardId(1))
      yield* putTo(w, "orders", e.shardId, names("e", 1, 3))
      return { position, b: b.shardId, c: c.shardId, d: shardId(1), e: e.shardId }
    })

  it.scoped("the list that the store keeps still has it, Kinesis does not", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      const { b, c, d, e, position } = yield* away(w)
      yield* w.kinesis.forgetShard("orders", a)
      yield* w.kinesis.forgetShard("orders", b)
      const m = yield* faulty(w)
      yield* m.consume()
      yield* until(Effect.map(m.delivered, (all) => all.length === 9), 20)
      const records = yield* m.delivered
      assert.deepStrictEqual(ofShard(records, c), names("c", 1, 3))
      assert.deepStrictEqual(ofShard(records, d), names("d", 1, 3))
      assert.deepStrictEqual(ofShard(records, e), names("e", 1, 3))
      assert.deepStrictEqual(yield* startsOf(w, c), [Position.trimHorizon])
      yield* pass(14)
      assert.deepStrictEqual(yield* eventsOf(m, "RecordsLost"), [
        { _tag: "RecordsLost", stream: "orders", shardId: a, position, reason: "ShardGone" }
      ])
      // Nothing of it is left to be read, or to be asked for.
      assert.deepStrictEqual(yield* shardsOf(m), [c, e])
      assert.isTrue(Option.isNone(yield* row(w, a)))
      assert.deepStrictEqual((yield* m.service.health).awaitingChildren, [])
      assert.strictEqual((yield* startsOf(w, a)).length, 1)
      assert.strictEqual((yield* startsOf(w, d)).length, 1)
    }))

  it.scoped("everything but the youngest is gone", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      const { b, c, d, e, position } = yield* away(w)
      for (const id of [a, b, d]) yield* w.kinesis.forgetShard("orders", id)
      yield* w.faults.add(
        { on: "listShards" },
        Faults.rewrite((page) => ({ ...page, shards: page.shards.filter(({ shardId }) => shardId !== c) }))
      )
      const m = yield* faulty(w)
      yield* m.consume()
      yield* until(Effect.map(m.delivered, (all) => all.length === 3), 20)
      assert.deepStrictEqual(datas(yield* m.delivered), names("e", 1, 3))
      yield* pass(14)
      assert.deepStrictEqual(
        (yield* eventsOf(m, "RecordsLost")).map((event) => [event.shardId, event.position]),
        [[a, position], [d, Position.trimHorizon]]
      )
      assert.deepStrictEqual(yield* shardsOf(m), [e])
      assert.deepStrictEqual((yield* m.service.health).awaitingChildren, [])
    }))

  it.scoped("it is listed still, but not found", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      const { c, position } = yield* away(w)
      yield* w.faults.add({ on: "getShardIterator", shardId: a }, Faults.fail("NotFound"))
      const m = yield* faulty(w)
      yield* m.consume()
      yield* until(Effect.map(m.delivered, (all) => all.length === 12), 60)
      assert.deepStrictEqual(ofShard(yield* m.delivered, c), names("c", 1, 3))
      assert.deepStrictEqual(ofShard(yield* m.delivered, a), [])
      const lost = yield* eventsOf(m, "RecordsLost")
      assert.deepStrictEqual(lost.map((event) => [event.shardId, event.position]), [[a, position]])
    }))

  it.scoped("it is listed still, and its position is refused as older than the horizon", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld({ trimmedPosition: "refuse" })
      const { position } = yield* away(w)
      const [first] = yield* w.kinesis.records("orders", a).pipe(Effect.map((records) => records.slice(5)))
      yield* w.kinesis.trim({ stream: "orders", shardId: a, through: first?.sequenceNumber })
      const m = yield* faulty(w)
      yield* m.consume()
      yield* until(Effect.map(m.delivered, (all) => all.length === 3 + 12), 20)
      assert.deepStrictEqual(ofShard(yield* m.delivered, a), names("a", 7, 9))
      assert.deepStrictEqual(yield* eventsOf(m, "RecordsLost"), [
        { _tag: "RecordsLost", stream: "orders", shardId: a, position, reason: "Refused" }
      ])
      assert.strictEqual((yield* endsOf(w, a)).length, 1)
    }))

  it.scoped("shards whose end was committed are no loss", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* w.kinesis.createStream({ name: "orders" })
      yield* wasThere(w, 3)
      yield* split(w, a, ["b", "c"])
      const first = yield* faulty(w, { memberId: "first" })
      yield* first.consume()
      yield* until(Effect.map(first.delivered, (all) => all.length === 6), 10)
      yield* pass(1.2)
      yield* first.close
      yield* w.kinesis.forgetShard("orders", a)
      const m = yield* faulty(w)
      yield* m.consume()
      yield* pass(14)
      assert.deepStrictEqual(yield* m.delivered, [])
      assert.deepStrictEqual(yield* eventsOf(m, "RecordsLost"), [])
      assert.deepStrictEqual(yield* shardsOf(m), ids(1, 2))
      assert.isTrue(Option.isNone(yield* row(w, a)))
    }))
})
