/** A group that reads by enhanced fan-out does everything that one which polls does. */
import { assert, describe, it } from "@effect/vitest"
import { Position } from "@kinesumer/core"
import { Faults } from "@kinesumer/test-kit"
import { Duration, Effect, Option, Ref, TestClock } from "effect"
import {
  assertPaced,
  fanOut,
  isRunning,
  nameOf,
  rareFanOut,
  reading,
  shardHealth,
  startsOf,
  triesOf,
  troubleOf
} from "../cases/fan-out-support.js"
import {
  after,
  bothViews,
  eventsOf,
  faulty,
  type FaultyWorld,
  faultyWorld,
  leap,
  positionOf,
  reader
} from "../cases/reading-support.js"
import { names, pass, putTo, shardId, until } from "./support.js"

const [a, b] = [shardId(0), shardId(1)]

const makeWorld = (shards = 1) =>
  Effect.gen(function*() {
    const w = yield* faultyWorld()
    yield* w.kinesis.createStream({ name: "orders", shards })
    return w
  })

const subscriptionsOf = (w: FaultyWorld) =>
  Effect.map(w.kinesis.subscriptions(), (all) => all.map((subscription) => subscription.shardId).sort())

for (const view of bothViews) {
  describe(`one member, ${view}`, () => {
    it.scoped("delivers in order what is pushed, commits it, and ends its subscriptions when it closes", () =>
      Effect.gen(function*() {
        const w = yield* makeWorld(2)
        yield* putTo(w, "orders", a, names("a", 1, 30))
        const { m, ...run } = yield* reading(w, view)
        yield* until(Effect.map(run.count, (count) => count === 30), 5)
        yield* putTo(w, "orders", b, names("b", 1, 5))
        yield* Effect.yieldNow()
        // What is put is there at once, without a poll that is to come.
        yield* until(Effect.map(run.count, (count) => count === 35), 0.2)
        assert.deepStrictEqual(yield* run.datas, [...names("a", 1, 30), ...names("b", 1, 5)])
        assert.deepStrictEqual(yield* subscriptionsOf(w), [a, b])
        yield* pass(2)
        assert.deepStrictEqual(yield* positionOf(w), yield* after(w, 30))
        assert.deepStrictEqual(yield* w.kinesis.callsOf("getRecords"), [])
        assert.deepStrictEqual(yield* w.kinesis.callsOf("getShardIterator"), [])
        yield* m.close
        assert.deepStrictEqual(yield* subscriptionsOf(w), [])
        yield* leap(60)
        assert.deepStrictEqual(yield* subscriptionsOf(w), [])
        assert.isFalse(yield* isRunning(run.fiber))
      }))

    it.scoped("goes on behind the checkpoint after a restart", () =>
      Effect.gen(function*() {
        const w = yield* makeWorld()
        yield* putTo(w, "orders", a, names("a", 1, 10))
        const first = yield* reading(w, view)
        yield* until(Effect.map(first.count, (count) => count === 10), 5)
        yield* pass(2)
        yield* first.m.close
        yield* putTo(w, "orders", a, names("a", 11, 20))
        const second = yield* reading(w, view, { memberId: "b" })
        yield* until(Effect.map(second.count, (count) => count === 10), 15)
        assert.deepStrictEqual(yield* second.datas, names("a", 11, 20))
      }))

    it.scoped("follows splits and merges: a child begins when its parents' ends are committed", () =>
      Effect.gen(function*() {
        const w = yield* makeWorld(2)
        yield* putTo(w, "orders", a, names("a", 1, 3))
        const { m, ...run } = yield* reading(w, view)
        yield* until(Effect.map(run.count, (count) => count === 3), 5)
        yield* putTo(w, "orders", a, names("a", 4, 5))
        const [left, right] = yield* w.kinesis.split("orders", a)
        yield* putTo(w, "orders", left.shardId, names("l", 1, 3))
        yield* until(Effect.map(run.count, (count) => count === 8), 20)
        const merged = yield* w.kinesis.merge("orders", right.shardId, b)
        yield* putTo(w, "orders", merged.shardId, names("m", 1, 3))
        yield* until(Effect.map(run.count, (count) => count === 11), 20)
        assert.deepStrictEqual(yield* run.datas, [...names("a", 1, 5), ...names("l", 1, 3), ...names("m", 1, 3)])
        const calls = yield* w.faults.calls
        const endOf = (id: string) =>
          calls.findIndex((call) =>
            call.operation === "commitCheckpoints" && call.outcome === "success" &&
            call.args[2].some((one) => one.shardId === id && one.position._tag === "ShardEnd")
          )
        const startOf = (id: string) =>
          calls.findIndex((call) => call.operation === "subscribeToShard" && call.args[1] === id)
        for (
          const [parent, child] of [
            [a, left.shardId],
            [a, right.shardId],
            [b, merged.shardId],
            [right.shardId, merged.shardId]
          ] as const
        ) {
          assert.isAtLeast(endOf(parent), 0)
          assert.isBelow(endOf(parent), startOf(child))
        }
        assert.deepStrictEqual(yield* startsOf(w, merged.shardId), [Position.trimHorizon])
        assert.deepStrictEqual(yield* eventsOf(m, "RecordsLost"), [])
        yield* pass(1)
        assert.deepStrictEqual(yield* subscriptionsOf(w), [left.shardId, merged.shardId].sort())
      }))

    it.scoped("renews its subscriptions for hours, without a gap or a repeat", () =>
      Effect.gen(function*() {
        const w = yield* makeWorld()
        const { m, ...run } = yield* reading(w, view, rareFanOut)
        // Two hours, and half of one.
        const minutes = view === "records" ? 120 : 30
        for (let n = 1; n <= minutes; n++) {
          yield* putTo(w, "orders", a, [`a${n}`])
          yield* TestClock.adjust("1 minute")
        }
        assert.deepStrictEqual(yield* run.datas, names("a", 1, minutes))
        const tries = yield* triesOf(w)
        assert.isAtLeast(tries.length, minutes / 5 - 1)
        assert.isAtMost(tries.length, minutes / 5 + 1)
        assert.deepStrictEqual(yield* eventsOf(m, "Retrying"), [])
        // Nothing is asked for again: each goes on after the last record or behind it.
        assert.isTrue((yield* startsOf(w)).slice(1).every(Position.is("AfterSequence")))
        yield* assertPaced(w)
        assert.strictEqual((yield* w.kinesis.subscriptions()).length, 1)
      }))

    it.scoped("asks for nothing while it is paused, and goes on where it was", () =>
      Effect.gen(function*() {
        const w = yield* makeWorld()
        const { m, ...run } = yield* reading(w, view, rareFanOut)
        yield* putTo(w, "orders", a, names("a", 1, 3))
        yield* until(Effect.map(run.count, (count) => count === 3), 5)
        yield* m.service.pause("orders")
        const [before] = yield* triesOf(w)
        // Longer than a subscription lives, and than the watchdog waits.
        yield* leap(600)
        const during = yield* triesOf(w)
        assert.strictEqual(during.length, 1)
        // At most the event that was asked for before.
        assert.isAtMost((during[0]?.events ?? 0) - (before?.events ?? 0), 1)
        yield* putTo(w, "orders", a, names("a", 4, 9))
        yield* pass(3)
        assert.strictEqual(yield* run.count, 3)
        assert.deepStrictEqual(yield* eventsOf(m, "Retrying"), [])
        assert.strictEqual((yield* m.service.health).bufferedRecords, 0)
        yield* m.service.resume("orders")
        yield* until(Effect.map(run.count, (count) => count === 9), 5)
        assert.deepStrictEqual(yield* run.datas, names("a", 1, 9))
        yield* pass(10)
        assert.strictEqual(yield* run.count, 9)
        yield* assertPaced(w)
      }))

    it.scoped("gives what a handler failed at to the next run", () =>
      Effect.gen(function*() {
        const w = yield* makeWorld()
        const m = yield* faulty(w, fanOut)
        const failures = yield* Ref.make(0)
        const run = yield* reader(m, view, (record) =>
          nameOf(record) === "a5"
            ? Effect.flatMap(
              Ref.getAndUpdate(failures, (n) => n + 1),
              (n) => n < 2 ? Effect.fail("broken" as const) : Effect.void
            )
            : Effect.void)
        yield* putTo(w, "orders", a, names("a", 1, 4))
        const fiber = yield* Effect.fork(Effect.retry(run.run, { while: (error) => error === "broken" }))
        yield* until(Effect.map(run.count, (count) => count === 4), 5)
        yield* putTo(w, "orders", a, names("a", 5, 8))
        yield* until(Effect.map(run.count, (count) => count >= 10), 30)
        yield* pass(10)
        assert.isTrue(yield* isRunning(fiber))
        assert.deepStrictEqual(yield* run.datas, [...names("a", 1, 5), "a5", ...names("a", 5, 8)])
        assert.deepStrictEqual(yield* positionOf(w), yield* after(w, 8))
        yield* assertPaced(w)
      }))

    it.scoped("holds no more than the buffer and one event, however much is pushed", () =>
      Effect.gen(function*() {
        const w = yield* makeWorld()
        yield* putTo(w, "orders", a, names("a", 1, 100))
        const most = yield* Ref.make(0)
        const m = yield* faulty(w, { ...fanOut, bufferSize: 3 })
        const note = Effect.flatMap(m.service.health, ({ bufferedRecords }) =>
          Ref.update(most, (before) => Math.max(before, bufferedRecords)))
        const run = yield* reader(m, view, () =>
          Effect.zipRight(note, Effect.sleep("100 millis")))
        yield* Effect.fork(run.run)
        yield* pass(2)
        // One event was taken, of all hundred. Nothing more is asked for before it is in the buffer.
        yield* putTo(w, "orders", a, names("a", 101, 200))
        yield* until(Effect.map(run.count, (count) => count >= 90), 30)
        assert.strictEqual((yield* triesOf(w))[0]?.events, 1)
        yield* until(Effect.map(run.count, (count) => count === 200), 60)
        assert.deepStrictEqual(yield* run.datas, names("a", 1, 200))
        assert.strictEqual(yield* Ref.get(most), 3)
        assert.strictEqual((yield* triesOf(w)).length, 1)
      }))

    it.scoped("resumes a position within a record at the record itself", () =>
      Effect.gen(function*() {
        const w = yield* makeWorld()
        yield* putTo(w, "orders", a, names("a", 1, 6))
        const third = (yield* w.kinesis.records("orders", a))[2]
        assert.isDefined(third)
        const position = Position.afterSequence(third.sequenceNumber, 4)
        const before = { memberId: "before", incarnation: "gone" }
        const lease = { stream: "orders", shardId: a, epoch: 1 }
        yield* w.store.acquireLeases("app", before, [{ ...lease, takeFrom: Option.none(), epochAbove: 0 }])
        yield* w.store.commitCheckpoints("app", before, [{ ...lease, position }])
        yield* w.store.releaseLeases("app", before, [lease])
        const run = yield* reading(w, view)
        yield* until(Effect.map(run.count, (count) => count === 4), 5)
        yield* pass(3)
        assert.deepStrictEqual(yield* run.datas, names("a", 3, 6))
        assert.deepStrictEqual(yield* startsOf(w), [position])
        assert.deepStrictEqual(yield* positionOf(w), yield* after(w, 6))
      }))

    it.scoped("tells how long ago the last event came, of an idle shard too", () =>
      Effect.gen(function*() {
        const w = yield* makeWorld()
        const quiet = yield* w.faults.add({ on: "subscribeToShard", nth: 1 }, Faults.hangEvents())
        const { m } = yield* reading(w, view, { ...fanOut, fanOut: { watchdog: "20 seconds" } })
        yield* pass(3)
        assert.deepStrictEqual((yield* shardHealth(m)).millisSinceAnswer, Option.none())
        yield* quiet.heal
        yield* pass(30)
        for (let n = 0; n < 12; n++) {
          yield* pass(1)
          const { lagMillis, millisSinceAnswer, trouble } = yield* shardHealth(m)
          assert.isAtMost(Option.getOrThrow(millisSinceAnswer), 5_000)
          assert.deepStrictEqual(lagMillis, Option.some(0))
          assert.deepStrictEqual(trouble, Option.none())
        }
        yield* w.faults.add({ on: "subscribeToShard" }, Faults.hang)
        yield* w.kinesis.endSubscriptions()
        yield* pass(15)
        assert.isAtLeast(Option.getOrThrow((yield* shardHealth(m)).millisSinceAnswer), 15_000)
      }))
  })
}

describe("a group", () => {
  for (const view of bothViews) {
    it.scoped(`${view}: hands shards over; what is refused meanwhile is asked for again, at an even pace`, () =>
      Effect.gen(function*() {
        const w = yield* makeWorld(4)
        const shards = [0, 1, 2, 3].map(shardId)
        for (const [index, id] of shards.entries()) yield* putTo(w, "orders", id, names(`${index}-`, 1, 10))
        const first = yield* reading(w, view)
        yield* until(Effect.map(first.count, (count) => count === 40), 5)
        const second = yield* reading(w, view, { memberId: "b" })
        yield* until(Effect.map(second.m.service.assignment, (owned) => owned.length === 2), 10)
        for (const [index, id] of shards.entries()) yield* putTo(w, "orders", id, names(`${index}-`, 11, 20))
        yield* until(Effect.zipWith(first.count, second.count, (x, y) => x + y === 80), 15)
        const all = [...(yield* first.datas), ...(yield* second.datas)]
        for (const [index] of shards.entries()) {
          assert.deepStrictEqual(all.filter((name) => name.startsWith(`${index}-`)), names(`${index}-`, 1, 20))
        }
        yield* assertPaced(w, shards)
        // Only for as long as the subscription of the member before is too young to be replaced.
        const retries = yield* eventsOf(second.m, "Retrying")
        assert.isTrue(retries.every(({ error }) => error.reason === "ResourceInUse"))
        assert.isTrue(
          retries.every(({ delay }) => Duration.between(delay, { minimum: "1 second", maximum: "2 seconds" }))
        )
        assert.isAtMost(Math.max(0, ...retries.map(({ attempt }) => attempt)), 5)
        yield* pass(10)
        assert.isTrue((yield* second.m.service.health).healthy)
        assert.strictEqual((yield* w.kinesis.subscriptions()).length, 4)
      }))
  }

  it.scoped("a subscription that does not go away is asked for once in a second or two, however long that takes", () =>
    Effect.gen(function*() {
      const w = yield* makeWorld()
      yield* w.faults.add({ on: "subscribeToShard", times: 60 }, Faults.fail("ResourceInUse"))
      const { m, ...run } = yield* reading(w, "records")
      yield* putTo(w, "orders", a, names("a", 1, 3))
      yield* pass(50)
      const times = (yield* triesOf(w)).map(({ at }) => at)
      assert.isAtLeast(times.length, 25)
      yield* assertPaced(w)
      assert.isTrue(times.slice(1).every((at, index) => at - (times[index] ?? 0) <= 2_200))
      assert.strictEqual(yield* troubleOf(m), "ResourceInUse")
      yield* until(Effect.map(run.count, (count) => count === 3), 80)
      assert.isUndefined(yield* troubleOf(m))
    }))
})

describe("many shards", () => {
  it.scoped("subscriptions of 300 shards neither begin nor are renewed at once", () =>
    Effect.gen(function*() {
      const w = yield* makeWorld(300)
      const shards = Array.from({ length: 300 }, (_, index) => shardId(index))
      yield* w.faults.add({ on: "subscribeToShard", times: 300 }, Faults.endEvents({ after: 2 }))
      const { m, ...run } = yield* reading(w, "records", rareFanOut)
      /** How many subscriptions are asked for in the busiest tenth of a second, from some time on. */
      const busiest = (from: number) =>
        Effect.map(w.kinesis.callsOf("subscribeToShard"), (calls) => {
          const tenths = calls.slice(from).map(({ at }) => Math.floor(at / 100))
          return Math.max(...tenths.map((tenth) => tenths.filter((other) => other === tenth).length))
        })
      yield* TestClock.adjust("8 seconds")
      assert.strictEqual((yield* w.kinesis.subscriptions()).length, 300)
      // 2 ms apart for each shard, so about 50 in a tenth of a second.
      assert.isAtMost(yield* busiest(0), 100)
      // The second event of all of them comes at one moment, and is the last one.
      for (const id of shards) yield* putTo(w, "orders", id, [id])
      yield* TestClock.adjust("2 seconds")
      assert.strictEqual(yield* run.count, 300)
      assert.strictEqual((yield* w.kinesis.callsOf("subscribeToShard")).length, 600)
      assert.strictEqual((yield* w.kinesis.subscriptions()).length, 300)
      assert.isAtMost(yield* busiest(300), 100)
      assert.deepStrictEqual(yield* eventsOf(m, "Retrying"), [])
      yield* assertPaced(w, shards)
      yield* m.close
      assert.deepStrictEqual(yield* w.kinesis.subscriptions(), [])
    }))

  it.scoped("shards: a consumer that never comes back keeps no other one waiting", () =>
    Effect.gen(function*() {
      const w = yield* makeWorld(2)
      const m = yield* faulty(w, { ...fanOut, bufferSize: 20 })
      const gate = yield* Effect.makeLatch()
      const run = yield* reader(m, "shards", (record) => {
        switch (nameOf(record)) {
          case "a3":
            return gate.await
          case "a6":
            return Effect.never
          default:
            return Effect.void
        }
      })
      yield* Effect.fork(run.run)
      yield* putTo(w, "orders", a, names("a", 1, 3))
      yield* until(Effect.map(run.count, (count) => count === 3), 5)
      yield* putTo(w, "orders", a, names("a", 4, 6))
      yield* pass(1)
      // Of this there is room for seven, and for three more when those before it are handed out.
      yield* putTo(w, "orders", a, names("a", 7, 100))
      yield* pass(1)
      yield* gate.open
      yield* pass(1)
      assert.strictEqual(yield* run.count, 6)
      assert.isAtMost((yield* shardHealth(m, a)).bufferedRecords, 10)
      yield* putTo(w, "orders", b, names("b", 1, 200))
      yield* until(Effect.map(run.count, (count) => count === 206), 20)
      yield* putTo(w, "orders", b, names("b", 201, 400))
      yield* until(Effect.map(run.count, (count) => count === 406), 20)
    }))
})
