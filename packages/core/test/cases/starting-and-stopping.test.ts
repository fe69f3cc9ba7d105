/** Stopping in the middle of anything, and loops that have to outlive what happens to them. */
import { assert, describe, it } from "@effect/vitest"
import type { KinesumerConfig } from "@kinesumer/core"
import { Faults } from "@kinesumer/test-kit"
import { Deferred, Effect, Exit, Fiber, Option, Stream, TestClock } from "effect"
import { datas, names, pass, putTo, row, shardId, type TestMember, until } from "../group/support.js"
import {
  after,
  bothViews,
  eventsOf,
  faulty,
  type FaultyWorld,
  faultyWorld,
  leap,
  manual,
  positionOf,
  reader,
  slow
} from "./reading-support.js"

const a = shardId(0)

/** Closing ends within so many seconds; how long it took, in milliseconds. */
const closeWithin = (m: TestMember, seconds: number) =>
  Effect.gen(function*() {
    const closing = yield* Effect.fork(m.close)
    for (let step = 0; step <= seconds * 5; step++) {
      yield* TestClock.adjust(step === 0 ? "1 millis" : "200 millis")
      const exit = yield* Fiber.poll(closing)
      if (Option.isSome(exit)) {
        assert.deepStrictEqual(exit.value, Exit.void)
        return step * 200
      }
    }
    return yield* Effect.dieMessage(`closing took longer than ${seconds} seconds`)
  })

/** Nothing of the member is left: no row, no lease, and no call for a while. */
const assertGone = (w: FaultyWorld, streams: ReadonlyArray<string> = ["orders"]) =>
  Effect.gen(function*() {
    assert.deepStrictEqual(yield* w.store.listMembers("app"), [])
    for (const stream of streams) {
      assert.isTrue((yield* w.store.listCheckpoints("app", stream)).every(({ owner }) => Option.isNone(owner)))
    }
    yield* assertSilent(w)
  })

const assertSilent = (w: FaultyWorld) =>
  Effect.gen(function*() {
    yield* w.faults.clearCalls
    yield* leap(60)
    assert.deepStrictEqual((yield* w.faults.calls).map(({ operation }) => operation), [])
  })

describe("stop-deadlocks-with-emit", () => {
  const tight = { ...manual, bufferSize: 20, closeTimeout: "4 seconds" } satisfies Partial<
    KinesumerConfig.KinesumerOptions
  >

  /** Two streams, a buffer that is full of both, two records of the first one marked. */
  const full = Effect.gen(function*() {
    const w = yield* faultyWorld()
    yield* w.kinesis.createStream({ name: "orders" })
    yield* w.kinesis.createStream({ name: "payments" })
    yield* putTo(w, "orders", a, names("a", 1, 50))
    yield* putTo(w, "payments", a, names("p", 1, 50))
    const m = yield* faulty(w, { ...tight, streams: ["orders", "payments"] })
    return { w, m }
  })

  const fullAndMarked = Effect.gen(function*() {
    const { m, w } = yield* full
    const started = yield* Deferred.make<void>()
    const run = yield* reader(
      m,
      "records",
      (record) =>
        record.stream === "orders" ? Effect.zipRight(Deferred.succeed(started, undefined), Effect.never) : Effect.void
    )
    const fiber = yield* Effect.fork(run.run)
    yield* until(Deferred.isDone(started), 5)
    yield* pass(3)
    assert.isAtLeast((yield* m.service.health).bufferedRecords, 10)
    yield* m.service.mark((yield* run.seen).filter(({ stream }) => stream === "orders"))
    return { w, m, run, fiber }
  })

  /** What was marked is written; what was not comes again, in order. */
  const assertMarked = (w: FaultyWorld) =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* positionOf(w), yield* after(w, 1))
      const again = yield* faulty(w, { memberId: "again", streams: ["orders"] })
      yield* again.consume()
      yield* until(Effect.map(again.delivered, (all) => all.length >= 49), 5)
      assert.deepStrictEqual(datas(yield* again.delivered), names("a", 2, 50))
    })

  it.scoped("nobody pulls, and the buffer is full", () =>
    Effect.gen(function*() {
      const { m, w } = yield* full
      yield* pass(5)
      assert.strictEqual((yield* m.service.health).bufferedRecords, 20)
      assert.strictEqual(yield* closeWithin(m, 1), 0)
      assert.isTrue((yield* w.faults.callsOf("commitCheckpoints")).length === 0)
      yield* assertGone(w, ["orders", "payments"])
    }))

  it.scoped("a handler that never returns", () =>
    Effect.gen(function*() {
      const { fiber, m, w } = yield* fullAndMarked
      assert.strictEqual(yield* closeWithin(m, 1), 0)
      assert.deepStrictEqual(yield* Fiber.poll(fiber), Option.none())
      yield* assertGone(w, ["orders", "payments"])
      yield* assertMarked(w)
    }))

  it.scoped("closed from within the handler", () =>
    Effect.gen(function*() {
      const { m, w } = yield* full
      const run = yield* reader(m, "records", (record) =>
        datas([record]).includes("a1")
          ? Effect.zipRight(Effect.orDie(m.service.mark(record)), m.close)
          : Effect.void)
      const fiber = yield* Effect.fork(run.run)
      yield* until(Effect.map(Fiber.poll(fiber), Option.isSome), 4)
      // The rest of the slice was in hand already.
      assert.deepStrictEqual(yield* Fiber.await(fiber), Exit.void)
      assert.deepStrictEqual(yield* positionOf(w), yield* after(w, 1))
      yield* assertGone(w, ["orders", "payments"])
    }))

  it.scoped("in the middle of a sync that starts and stops workers", () =>
    Effect.gen(function*() {
      const { m, w } = yield* fullAndMarked
      yield* w.kinesis.createStream({ name: "refunds" })
      const held = yield* w.faults.add({ on: "acquireLeases" }, Faults.delay("30 seconds", "after"))
      const refreshing = yield* Effect.fork(Effect.exit(m.service.refresh(["payments", "refunds"])))
      yield* until(Effect.map(held.fired, (fired) => fired > 0), 3)
      assert.isAtMost(yield* closeWithin(m, 4), 2_000)
      yield* held.heal
      const exit = yield* Fiber.join(refreshing)
      assert.isTrue(Exit.isInterrupted(exit))
      yield* pass(3)
      yield* assertGone(w, ["orders", "payments", "refunds"])
      yield* assertMarked(w)
    }))

  it.scoped("while a stream whose worker waits is handed over", () =>
    Effect.gen(function*() {
      const { m, w } = yield* fullAndMarked
      yield* m.service.refresh(["payments"])
      assert.isAtMost(yield* closeWithin(m, 4), 0)
      yield* assertGone(w, ["orders", "payments"])
      yield* assertMarked(w)
    }))

  it.scoped("refresh removes the stream whose worker waits", () =>
    Effect.gen(function*() {
      const { m, w } = yield* fullAndMarked
      const refreshing = yield* Effect.fork(m.service.refresh(["payments"]))
      yield* TestClock.adjust("1 millis")
      assert.deepStrictEqual(yield* Fiber.poll(refreshing), Option.some(Exit.void))
      // A stuck handler keeps its shard for one sync interval, no longer.
      yield* pass(1.4)
      assert.deepStrictEqual(Option.flatMap(yield* row(w, a), ({ owner }) => owner), Option.none())
      yield* assertMarked(w)
    }))

  it.scoped("while a commit hangs", () =>
    Effect.gen(function*() {
      const { m, w } = yield* fullAndMarked
      const held = yield* w.faults.add({ on: "commitCheckpoints" }, Faults.hang)
      yield* m.service.commit.pipe(Effect.fork)
      yield* until(Effect.map(held.fired, (fired) => fired > 0), 3)
      assert.isAtMost(yield* closeWithin(m, 4), 4_000)
      assert.deepStrictEqual(yield* w.store.listMembers("app"), [])
      yield* held.heal
      yield* assertGone(w, ["orders", "payments"])
    }))

  it.scoped("every call of the store hangs: closing ends in time, and says what is incomplete", () =>
    Effect.gen(function*() {
      const { m, w } = yield* fullAndMarked
      const incomplete = yield* Effect.fork(
        m.service.events.pipe(
          Stream.filterMap((event) => event._tag === "CloseIncomplete" ? Option.some(event.step) : Option.none()),
          Stream.take(3),
          Stream.runCollect
        )
      )
      yield* pass(0.2)
      yield* w.faults.addStore({}, Faults.hang)
      assert.isAtMost(yield* closeWithin(m, 5), 4_000)
      assert.deepStrictEqual([...(yield* Fiber.join(incomplete))], [
        "committing what was marked",
        "releasing the leases",
        "leaving the group"
      ])
      yield* w.faults.healAll
      yield* assertSilent(w)
    }))

  it.scoped("two closes at once, and one whose fiber is interrupted", () =>
    Effect.gen(function*() {
      const { m, w } = yield* fullAndMarked
      const held = yield* w.faults.add({ on: "releaseLeases" }, Faults.delay("1 second"))
      const first = yield* Effect.fork(m.close)
      const second = yield* Effect.fork(m.close)
      yield* TestClock.adjust("200 millis")
      yield* Effect.fork(Fiber.interrupt(first))
      yield* pass(2)
      assert.isTrue(Option.isSome(yield* Fiber.poll(first)))
      assert.isTrue(Option.isSome(yield* Fiber.poll(second)))
      yield* held.heal
      assert.strictEqual((yield* w.faults.callsOf("deregisterMember")).length, 1)
      yield* assertGone(w, ["orders", "payments"])
      yield* assertMarked(w)
    }))
})

describe("background-loop-ends-on-an-expected-error", () => {
  for (const view of bothViews) {
    it.scoped(`${view}: a commit fails its condition, and the row is as it was again`, () =>
      Effect.gen(function*() {
        const w = yield* faultyWorld()
        yield* w.kinesis.createStream({ name: "orders", shards: 3 })
        const m = yield* faulty(w)
        const run = yield* reader(m, view)
        yield* Effect.fork(run.run)
        yield* putTo(w, "orders", a, names("a", 1, 3))
        // The row as the condition saw it is another's; by the time it is read again it is ours.
        const fault = yield* w.faults.add(
          { on: "commitCheckpoints", shardId: a, times: 1 },
          Faults.loseItems({ memberId: "tool", incarnation: "x" }, { shardIds: [a] })
        )
        yield* until(Effect.map(fault.fired, (fired) => fired > 0), 5)
        yield* putTo(w, "orders", a, names("a", 4, 6))
        yield* pass(2.2)
        assert.isTrue((yield* m.service.assignment).some((shard) => shard.shardId === a))
        yield* until(Effect.map(run.datas, (all) => all.includes("a6")), 5)
        assert.deepStrictEqual([...new Set(yield* run.datas)], names("a", 1, 6))
        yield* pass(1.4)
        assert.deepStrictEqual(yield* positionOf(w), yield* after(w, 6))
        assert.isTrue((yield* m.service.health).healthy)
      }))
  }

  it.scoped("a slow heartbeat keeps its interval while shards come and go", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* w.kinesis.createStream({ name: "orders", shards: 3 })
      yield* w.kinesis.createStream({ name: "payments" })
      const m = yield* faulty(w, slow)
      yield* w.faults.add({ on: "heartbeat" }, Faults.delay("2 seconds"))
      yield* w.faults.clearCalls
      for (let change = 0; change < 50; change++) {
        const refreshing = yield* Effect.fork(m.service.refresh(change % 2 === 0 ? ["orders", "payments"] : ["orders"]))
        yield* TestClock.adjust("4 seconds")
        yield* Fiber.join(refreshing)
      }
      const beats = (yield* w.faults.callsOf("heartbeat")).map(({ at }) => at)
      // Every 20 seconds for 200.
      assert.isAtLeast(beats.length, 9)
      assert.isTrue(beats.slice(1).every((at, index) => at - (beats[index] ?? 0) === 20_000), beats.join())
      assert.isTrue((yield* m.service.health).delivering)
    }))

  const calls = [
    ["heartbeat", "heartbeat"],
    ["listMembers", "sync"],
    ["listShardVersions", "sync"],
    ["commitCheckpoints", "commit"],
    ["listShards", "refresh"],
    ["describeStream", "refresh"],
    ["getRecords", "reader of orders/shardId-000000000000"],
    ["getShardIterator", "reader of orders/shardId-000000000000"]
  ] as const

  for (const [operation, loop] of calls) {
    it.scoped(`${operation} dies with a defect: it is told, and its loop goes on`, () =>
      Effect.gen(function*() {
        const w = yield* faultyWorld()
        yield* w.kinesis.createStream({ name: "orders" })
        const m = yield* faulty(w, slow)
        yield* m.consume()
        yield* putTo(w, "orders", a, names("a", 1, 3))
        yield* leap(12)
        yield* w.kinesis.expireIterators
        yield* putTo(w, "orders", a, names("a", 4, 6))
        const fault = yield* operation === "getRecords" || operation === "getShardIterator" ||
            operation === "listShards" || operation === "describeStream"
          ? w.faults.addKinesis({ on: [operation], times: 1 }, Faults.die("a defect"))
          : w.faults.addStore({ on: [operation], times: 1 }, Faults.die("a defect"))
        for (let step = 0; step < 80 && (yield* fault.fired) === 0; step++) yield* TestClock.adjust("1 second")
        assert.strictEqual(yield* fault.fired, 1)
        yield* TestClock.adjust("1 millis")
        assert.isFalse((yield* m.service.health).healthy)
        assert.deepStrictEqual((yield* m.service.health).failingLoops, [loop])
        yield* leap(100)
        yield* putTo(w, "orders", a, names("a", 7, 9))
        yield* leap(300, 6)
        assert.deepStrictEqual(datas(yield* m.delivered), names("a", 1, 9))
        assert.deepStrictEqual(yield* positionOf(w), yield* after(w, 9))
        assert.deepStrictEqual((yield* eventsOf(m, "LoopFailed")).map((event) => event.loop), [loop])
        assert.deepStrictEqual((yield* m.service.health).failingLoops, [])
        assert.isTrue((yield* m.service.health).healthy)
      }))
  }
})

describe("cancelled-call-is-retried-for-ever", () => {
  const [throttled, hanging, offering, committing, idle] = [0, 1, 2, 3, 4].map(shardId) as [
    string,
    string,
    string,
    string,
    string
  ]

  /** A member with a shard in each state that a stop can find it in. */
  const busy = Effect.gen(function*() {
    const w = yield* faultyWorld()
    yield* w.kinesis.createStream({ name: "orders", shards: 5 })
    const m = yield* faulty(w, {
      bufferSize: 60,
      closeTimeout: "8 seconds",
      commit: { mode: "manual", interval: "1 second", timeout: "30 seconds" },
      polling: { timeout: "3 minutes", idleInterval: "10 seconds" }
    })
    const run = yield* reader(m, "shards", (record) => record.shardId === offering ? Effect.never : Effect.void)
    const fiber = yield* Effect.fork(run.run)
    yield* w.faults.add({ on: "getRecords", shardId: throttled }, Faults.fail("Throttled"))
    yield* w.faults.add({ on: "getRecords", shardId: hanging }, Faults.hang)
    yield* putTo(w, "orders", offering, names("o", 1, 200))
    yield* putTo(w, "orders", committing, names("c", 1, 3))
    yield* until(Effect.map(run.datas, (all) => all.includes("c3")), 20)
    const held = yield* w.faults.add({ on: "commitCheckpoints" }, Faults.hang)
    yield* m.service.mark((yield* run.seen).filter((record) => record.shardId === committing))
    yield* until(Effect.map(held.fired, (fired) => fired > 0), 5)
    return { w, m, run, fiber, held }
  })

  const isKinesis = (operation: string) => operation === "getRecords" || operation === "getShardIterator"

  it.scoped("closing: no state keeps it, and nothing is called again", () =>
    Effect.gen(function*() {
      const { held, m, w } = yield* busy
      yield* held.heal
      const problems = (yield* m.events).length
      yield* w.faults.clearCalls
      assert.strictEqual(yield* closeWithin(m, 8), 0)
      yield* leap(200)
      const calls = (yield* w.faults.calls).map(({ operation }) => operation)
      assert.deepStrictEqual(calls.filter(isKinesis), [])
      assert.deepStrictEqual([...new Set(calls)], ["commitCheckpoints", "releaseLeases", "deregisterMember"])
      assert.isAtMost((yield* m.events).length, problems)
      assert.deepStrictEqual(yield* positionOf(w, committing), yield* after(w, 3, committing))
    }))

  it.scoped("closing while the store does not answer commits: within the time for closing", () =>
    Effect.gen(function*() {
      const { m, w } = yield* busy
      yield* w.faults.clearCalls
      assert.isAtMost(yield* closeWithin(m, 9), 8_000)
      yield* leap(200)
      const calls = (yield* w.faults.calls).map(({ operation }) => operation)
      assert.deepStrictEqual(calls.filter(isKinesis), [])
      assert.deepStrictEqual(calls.filter((one) => one !== "commitCheckpoints"), ["releaseLeases", "deregisterMember"])
      assert.deepStrictEqual(yield* w.store.listMembers("app"), [])
    }))

  for (const taken of [throttled, hanging, offering, committing, idle]) {
    it.scoped(`a rebalance takes ${taken}: the others are not disturbed`, () =>
      Effect.gen(function*() {
        const w = yield* faultyWorld()
        yield* w.kinesis.createStream({ name: "orders", shards: 5 })
        const m = yield* faulty(w)
        const run = yield* reader(m, "shards", (record) => record.shardId === offering ? Effect.never : Effect.void)
        yield* Effect.fork(run.run)
        yield* w.faults.add({ on: "getRecords", shardId: throttled, member: "a" }, Faults.fail("Throttled"))
        yield* w.faults.add({ on: "getRecords", shardId: hanging, member: "a" }, Faults.hang)
        yield* putTo(w, "orders", offering, names("o", 1, 200))
        yield* putTo(w, "orders", committing, names("c", 1, 3))
        yield* pass(2)
        const tool = { memberId: "z", incarnation: "tool" }
        yield* w.kinesis.clearCalls
        const before = (yield* m.service.assignment).filter((shard) => shard.shardId !== taken)
        // Another member has the lease: the row says so, and the next look finds it.
        const epoch = Option.match(yield* row(w, taken), { onNone: () => 0, onSome: (one) => one.epoch })
        const mine = Option.getOrThrow(Option.flatMap(yield* row(w, taken), ({ owner }) => owner))
        yield* w.store.registerMember("app", {
          ...tool,
          heartbeat: 1,
          refreshes: 0,
          streams: [],
          assignVersion: 1
        })
        yield* w.store.acquireLeases("app", tool, [
          { stream: "orders", shardId: taken, takeFrom: Option.some({ ...mine, epoch }), epochAbove: epoch }
        ])
        yield* until(Effect.map(eventsOf(m, "LeaseLost"), (all) => all.length > 0), 5)
        yield* w.faults.clearCalls
        yield* pass(3)
        const calls = yield* w.faults.calls
        assert.deepStrictEqual(
          calls.filter((call) => call.operation === "getRecords" && call.args[1] === taken).length,
          0
        )
        assert.deepStrictEqual(yield* m.service.assignment, before)
        assert.deepStrictEqual(yield* w.kinesis.callsOf("getShardIterator"), [])
        assert.deepStrictEqual((yield* m.service.health).failingLoops, [])
        assert.deepStrictEqual(yield* eventsOf(m, "LoopFailed"), [])
      }))
  }
})
