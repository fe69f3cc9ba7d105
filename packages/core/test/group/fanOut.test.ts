/** A group that reads by enhanced fan-out does everything that one which polls does. */
import { assert, describe, it } from "@effect/vitest"
import { Position } from "@kinesumer/core"
import { Faults } from "@kinesumer/test-kit"
import { Effect, Option, Ref, TestClock } from "effect"
import {
  assertPaced,
  fanOut,
  isRunning,
  nameOf,
  rareFanOut,
  reading,
  shardHealth,
  startsOf,
  triesOf
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
        yield* putTo(w, "orders", a, names("a", 4, 6))
        yield* pass(3)
        const [before] = yield* triesOf(w)
        assert.strictEqual(yield* run.count, 3)
        // Longer than a subscription lives, and than the watchdog waits.
        yield* leap(600)
        yield* putTo(w, "orders", a, names("a", 7, 9))
        const during = yield* triesOf(w)
        assert.strictEqual(during.length, 1)
        // At most the event that was asked for before came while it was paused, and one empty one.
        assert.isAtMost((during[0]?.events ?? 0) - (before?.events ?? 0), 1)
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
