/** The step from an end to the shards that follow: it fails, comes late, or comes for many at once. */
import { assert, describe, it } from "@effect/vitest"
import { Position } from "@kinesumer/core"
import { Faults } from "@kinesumer/test-kit"
import { Chunk, Effect, Fiber, Option, Ref, Stream } from "effect"
import { datas, member, names, pass, putTo, row, shardId, until } from "../group/support.js"
import {
  commitsOf,
  crash,
  endsOf,
  eventsOf,
  faulty,
  faultyWorld,
  ids,
  isEnded,
  leap,
  shardsOf,
  showing,
  slow,
  startsOf
} from "./lineage-support.js"

const a = shardId(0)

describe("shard-end-step-fails-once", () => {
  it.scoped("20 ends at once: throttled three times, then applied without an answer, then written", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* w.kinesis.createStream({ name: "orders", shards: 20 })
      for (let index = 0; index < 20; index++) yield* w.kinesis.split("orders", shardId(index))
      yield* w.faults.add({ on: "commitCheckpoints", times: 3 }, Faults.fail("Throttled"))
      yield* w.faults.add({ on: "commitCheckpoints", nth: 4 }, Faults.dropAnswer())
      const m = yield* faulty(w)
      yield* m.consume()
      yield* until(Effect.map(shardsOf(m), (shards) => shards.length === 40), 30)
      assert.deepStrictEqual(yield* shardsOf(m), ids(...Array.from({ length: 40 }, (_, index) => 20 + index)))
      for (let index = 0; index < 20; index++) {
        const ends = yield* endsOf(w, shardId(index))
        assert.isAtMost(ends.length, 5)
        assert.strictEqual((yield* startsOf(w, shardId(index))).length, 1)
        const reads = yield* w.kinesis.callsOf("getRecords", { shardId: shardId(index) })
        assert.deepStrictEqual(reads.map(({ ended }) => ended), [true])
      }
      const ended = (yield* eventsOf(m, "ShardEnded")).map((event) => event.shardId).sort()
      assert.deepStrictEqual(ended, ids(...Array.from({ length: 20 }, (_, index) => index)))
    }))

  it.scoped("applied without an answer, and no later write gets one: the others learn of it from the list", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* w.kinesis.createStream({ name: "orders" })
      const m = yield* faulty(w, { commit: { interval: "20 seconds" } })
      const other = yield* faulty(w, { memberId: "b" })
      yield* m.consume()
      yield* other.consume()
      yield* pass(2)
      yield* w.faults.add({ on: "commitCheckpoints", member: "a", nth: 1 }, Faults.dropAnswer())
      yield* w.faults.add({ on: "commitCheckpoints", member: "a", from: 2 }, Faults.fail("Unavailable"))
      yield* w.kinesis.split("orders", a)
      yield* until(isEnded(w, a), 5)
      yield* until(
        Effect.zipWith(shardsOf(m), shardsOf(other), (x, y) => x.length === 1 && y.length === 1 && x[0] !== a),
        15
      )
      assert.deepStrictEqual([...(yield* shardsOf(m)), ...(yield* shardsOf(other))].sort(), ids(1, 2))
    }))

  it.scoped("applied without an answer, and the list shows nothing: the others learn of the children all the same", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* w.kinesis.createStream({ name: "orders" })
      const m = yield* faulty(w, { commit: { interval: "20 seconds" } })
      yield* m.consume()
      yield* pass(2)
      yield* w.faults.add(
        { on: "listShards" },
        Faults.rewrite(showing((shards) => shards.slice(0, 1).map((shard) => ({ ...shard, closed: false }))))
      )
      yield* w.faults.add({ on: "commitCheckpoints", member: "a", nth: 1 }, Faults.dropAnswer())
      yield* w.faults.add({ on: "commitCheckpoints", member: "a", from: 2 }, Faults.fail("Unavailable"))
      yield* w.kinesis.split("orders", a)
      yield* until(isEnded(w, a), 5)
      const other = yield* faulty(w, { memberId: "b" })
      yield* other.consume()
      yield* until(
        Effect.zipWith(shardsOf(m), shardsOf(other), (x, y) => x.length === 1 && y.length === 1 && x[0] !== a),
        10
      )
      assert.deepStrictEqual([...(yield* shardsOf(m)), ...(yield* shardsOf(other))].sort(), ids(1, 2))
      assert.deepStrictEqual((yield* eventsOf(m, "ShardEnded")).map(({ shardId }) => shardId), [a])
    }))

  it.scoped("closing cannot write the end and says so; the next start does, and repeats nothing", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* w.kinesis.createStream({ name: "orders" })
      yield* putTo(w, "orders", a, names("a", 1, 5))
      const first = yield* faulty(w)
      yield* first.consume()
      yield* until(Effect.map(first.delivered, (all) => all.length === 5))
      yield* pass(1.4)
      const told = yield* Ref.make<ReadonlyArray<string>>([])
      yield* Effect.fork(
        Stream.runForEach(
          first.service.events,
          (event) =>
            event._tag === "CloseIncomplete" ? Ref.update(told, (steps) => [...steps, event.step]) : Effect.void
        )
      )
      yield* Effect.yieldNow()
      yield* w.faults.add({ on: "commitCheckpoints", member: "a" }, Faults.fail("Throttled"))
      yield* w.kinesis.split("orders", a)
      yield* until(Effect.map(eventsOf(first, "CommitFailed"), (events) => events.length > 0), 5)
      yield* first.close
      yield* pass(0.2)
      assert.deepStrictEqual(yield* Ref.get(told), ["committing what was marked"])
      const second = yield* faulty(w, { memberId: "b" })
      yield* second.consume()
      yield* until(Effect.map(shardsOf(second), (shards) => shards.length === 2), 10)
      assert.deepStrictEqual(yield* second.delivered, [])
      assert.strictEqual((yield* endsOf(w, a, "b")).length, 1)
    }))

  it.scoped("closing writes the end, and tells the others of the children", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* w.kinesis.createStream({ name: "orders" })
      const m = yield* faulty(w, { commit: { interval: "20 seconds" } })
      yield* m.consume()
      yield* pass(1.4)
      const unwritten = yield* w.faults.add({ on: "commitCheckpoints" }, Faults.fail("Throttled"))
      const [left, right] = yield* w.kinesis.split("orders", a)
      yield* until(Effect.map(eventsOf(m, "CommitFailed"), (events) => events.length > 0), 5)
      yield* unwritten.heal
      const list = yield* w.store.getShards("app", "orders")
      assert.deepStrictEqual(Option.map(list, ({ shards }) => shards.map(({ shardId }) => shardId)), Option.some([a]))
      yield* m.close
      assert.isTrue(yield* isEnded(w, a))
      assert.deepStrictEqual(
        Option.map(yield* w.store.getShards("app", "orders"), ({ shards }) => shards.map(({ shardId }) => shardId)),
        Option.some([a, left.shardId, right.shardId])
      )
    }))

  it.scoped("the lease is lost exactly there: the next owner writes the end", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* w.kinesis.createStream({ name: "orders" })
      yield* putTo(w, "orders", a, names("a", 1, 5))
      const first = yield* faulty(w)
      yield* first.consume()
      yield* until(Effect.map(first.delivered, (all) => all.length === 5))
      yield* pass(1.4)
      const unwritten = yield* w.faults.add({ on: "commitCheckpoints", member: "a" }, Faults.fail("Throttled"))
      yield* w.kinesis.split("orders", a)
      yield* until(Effect.map(eventsOf(first, "CommitFailed"), (events) => events.length > 0), 5)
      // Somebody else takes the lease from the owner, as if it had been dead, and gives it back.
      const { epoch, owner } = Option.getOrThrow(yield* row(w, a))
      const thief = { memberId: "thief", incarnation: "1" }
      const takeFrom = Option.map(owner, (dead) => ({ ...dead, epoch }))
      yield* w.store.acquireLeases("app", thief, [{ stream: "orders", shardId: a, takeFrom, epochAbove: 0 }])
      yield* w.store.releaseLeases("app", thief, [{ stream: "orders", shardId: a, epoch: 2 }])
      yield* unwritten.heal
      yield* until(Effect.map(shardsOf(first), (shards) => shards.length === 2), 10)
      assert.strictEqual((yield* eventsOf(first, "LeaseLost")).length, 1)
      assert.strictEqual(Option.getOrThrow(yield* row(w, a)).epoch, 3)
      assert.deepStrictEqual(datas(yield* first.delivered), names("a", 1, 5))
    }))
})

describe("one-ended-shard-stops-the-others", () => {
  const three = Effect.gen(function*() {
    const w = yield* faultyWorld()
    yield* w.kinesis.createStream({ name: "orders", shards: 3 })
    return w
  })

  it.scoped("a split, drained: the others keep their iterators and miss nothing", () =>
    Effect.gen(function*() {
      const w = yield* three
      const m = yield* faulty(w)
      yield* m.consume()
      yield* pass(1)
      yield* w.kinesis.split("orders", a)
      for (let round = 0; round < 4; round++) {
        for (const index of [1, 2]) yield* putTo(w, "orders", shardId(index), [`${index}-${round}`])
        yield* pass(1)
      }
      yield* until(Effect.map(m.delivered, (all) => all.length === 8), 3)
      assert.deepStrictEqual(yield* shardsOf(m), ids(1, 2, 3, 4))
      for (const id of ids(1, 2)) {
        assert.strictEqual((yield* startsOf(w, id)).length, 1)
        const times = (yield* w.kinesis.callsOf("getRecords", { shardId: id })).map(({ at }) => at)
        times.slice(1).forEach((at, index) => assert.isAtMost(at - (times[index] ?? 0), 1200))
      }
    }))

  it.scoped("the stream of one shard is ended early: its records are not done, and the group goes on", () =>
    Effect.gen(function*() {
      const w = yield* three
      yield* putTo(w, "orders", a, names("a", 1, 10))
      const m = yield* faulty(w)
      const got = yield* Ref.make<ReadonlyArray<string>>([])
      const fiber = yield* Effect.fork(Stream.runForEach(
        Stream.flatMap(
          m.service.shards,
          (shard) => shard.shardId === a ? Stream.take(shard.records, 5) : shard.records,
          { concurrency: "unbounded" }
        ),
        (record) => Ref.update(got, (all) => [...all, ...datas([record])])
      ))
      yield* pass(2)
      assert.deepStrictEqual(yield* Ref.get(got), names("a", 1, 5))
      yield* putTo(w, "orders", shardId(1), ["b"])
      yield* putTo(w, "orders", shardId(2), ["c"])
      yield* pass(3)
      assert.deepStrictEqual([...yield* Ref.get(got)].sort(), [...names("a", 1, 5), "b", "c"])
      assert.deepStrictEqual(yield* commitsOf(w, a), [])
      yield* Fiber.interrupt(fiber)
      // The next run begins at what was not done.
      const again = yield* Effect.fork(Stream.runCollect(Stream.take(m.service.records, 10)))
      yield* pass(2)
      assert.deepStrictEqual(datas(Chunk.toReadonlyArray(yield* Fiber.join(again))), names("a", 1, 10))
    }))

  it.scoped("a handler fails: the others go on where the failure is caught, and all end where it is let out", () =>
    Effect.gen(function*() {
      const w = yield* three
      yield* putTo(w, "orders", a, ["bad"])
      const m = yield* faulty(w)
      const got = yield* Ref.make<ReadonlyArray<string>>([])
      const run = (caught: boolean) =>
        Stream.runDrain(Stream.flatMap(
          m.service.shards,
          (shard) => {
            const handled = Stream.mapEffect(shard.records, (record) =>
              datas([record])[0] === "bad"
                ? Effect.fail("bad" as const)
                : Ref.update(got, (all) => [...all, ...datas([record])]))
            return caught ? Stream.catchAll(handled, () => Stream.empty) : handled
          },
          { concurrency: "unbounded" }
        ))
      const caught = yield* Effect.fork(run(true))
      yield* pass(1)
      yield* putTo(w, "orders", shardId(1), ["b"])
      yield* pass(2)
      assert.deepStrictEqual(yield* Ref.get(got), ["b"])
      assert.isTrue(Option.isNone(yield* Fiber.poll(caught)))
      yield* Fiber.interrupt(caught)
      const letOut = yield* Effect.fork(run(false))
      yield* pass(2)
      assert.strictEqual(yield* Effect.flip(Fiber.join(letOut)), "bad")
      assert.strictEqual((yield* m.service.assignment).length, 3)
      assert.deepStrictEqual(yield* commitsOf(w, a), [])
    }))

  it.scoped("one of two streams is paused, then removed", () =>
    Effect.gen(function*() {
      const w = yield* three
      yield* w.kinesis.createStream({ name: "payments" })
      const m = yield* faulty(w, { streams: ["orders", "payments"] })
      yield* m.consume()
      yield* pass(1)
      yield* w.kinesis.clearCalls
      yield* m.service.pause("payments")
      yield* putTo(w, "payments", a, ["p"])
      yield* putTo(w, "orders", shardId(1), ["b"])
      yield* pass(2)
      yield* m.service.refresh(["orders"])
      yield* putTo(w, "orders", shardId(2), ["c"])
      yield* pass(2)
      assert.deepStrictEqual(datas(yield* m.delivered), ["b", "c"])
      assert.deepStrictEqual(yield* w.kinesis.callsOf("getShardIterator"), [])
    }))
})

describe("closed-leaf-without-children", () => {
  // 0: A -> 5,6   1,2: D,E -> 7   3: G -> 8,9   4: an open one

  it.scoped("each answer is used for what it shows", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* w.kinesis.createStream({ name: "orders", shards: 5 })
      const m = yield* faulty(w, slow)
      yield* m.consume()
      yield* leap(2)
      yield* w.kinesis.split("orders", a)
      yield* w.kinesis.merge("orders", shardId(1), shardId(2))
      yield* w.kinesis.split("orders", shardId(3))
      const [b, c, f, h, i] = ids(5, 6, 7, 8, 9)
      // No answer of a shard names its children: all is known from the list.
      yield* w.faults.add({ on: "getRecords" }, Faults.rewrite((answer) => ({ ...answer, childShards: [] })))
      const show = (hidden: ReadonlyArray<string | undefined>, open: ReadonlyArray<string | undefined> = []) =>
        w.faults.add(
          { on: "listShards" },
          Faults.rewrite(showing((shards) =>
            shards.filter((shard) => !hidden.includes(shard.shardId)).map((shard) =>
              open.includes(shard.shardId) ? { ...shard, closed: false } : shard
            )
          ))
        )
      const first = yield* show([b, c, f])
      yield* leap(130)
      assert.deepStrictEqual(yield* shardsOf(m), [shardId(4), h, i])
      yield* leap(470)
      assert.deepStrictEqual(
        (yield* m.service.health).awaitingChildren.map((shard) =>
          shard.shardId
        ).sort(),
        ids(0, 1, 2)
      )
      // Listing goes on at its normal rate, once in six syncs, and the shard that is read is not stopped.
      const lists = (yield* w.kinesis.callsOf("listShards")).length
      assert.isAtLeast(lists, 9)
      assert.isAtMost(lists, 20)
      assert.strictEqual((yield* startsOf(w, shardId(4))).length, 1)
      yield* first.heal

      const second = yield* show([c, f, shardId(4)])
      yield* leap(80)
      assert.deepStrictEqual(yield* shardsOf(m), [shardId(4), b, h, i])
      yield* second.heal

      const third = yield* show([f, b], [a, shardId(1), shardId(2)])
      yield* leap(80)
      assert.deepStrictEqual(yield* shardsOf(m), [shardId(4), b, c, h, i])
      yield* third.heal

      yield* show([], [shardId(1), shardId(2)])
      yield* leap(80)
      assert.deepStrictEqual(yield* shardsOf(m), [shardId(4), b, c, f, h, i])
      assert.deepStrictEqual((yield* m.service.health).awaitingChildren, [])
      for (const id of [b, c, f, h, i]) {
        assert.deepStrictEqual(yield* startsOf(w, id ?? ""), [Position.trimHorizon])
      }
    }))

  it.scoped("the second page of the list fails: the first one is not taken for all", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld({ pageSize: 3 })
      yield* w.kinesis.createStream({ name: "orders", shards: 5 })
      const m = yield* faulty(w)
      yield* m.consume()
      yield* w.faults.add({ on: "listShards", every: 2, times: 3 }, Faults.fail("Unavailable"))
      yield* w.kinesis.split("orders", a)
      yield* pass(20)
      assert.deepStrictEqual(yield* shardsOf(m), ids(1, 2, 3, 4, 5, 6))
      for (const id of ids(1, 2, 3, 4)) assert.strictEqual((yield* startsOf(w, id)).length, 1)
      assert.deepStrictEqual(yield* eventsOf(m, "RecordsLost"), [])
    }))

  it.scoped("the leader dies while no child is known", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* w.kinesis.createStream({ name: "orders" })
      yield* w.faults.add({ on: "getRecords" }, Faults.rewrite((answer) => ({ ...answer, childShards: [] })))
      const late = yield* w.faults.add(
        { on: "listShards" },
        Faults.rewrite(showing((shards) => shards.filter(({ parents }) => parents.length === 0)))
      )
      const leader = yield* faulty(w)
      yield* leader.consume()
      const other = yield* member(w, { memberId: "b" }, { client: w.faults.wrapKinesis(w.kinesis.client, "b") })
      yield* other.consume()
      yield* w.kinesis.split("orders", a)
      yield* until(isEnded(w, a), 10)
      yield* crash(w, leader)
      yield* pass(2)
      yield* late.heal
      yield* until(Effect.map(shardsOf(other), (shards) => shards.length === 2), 40)
      assert.deepStrictEqual(yield* shardsOf(other), ids(1, 2))
    }))
})
