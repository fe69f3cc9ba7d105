/** Subscriptions that are refused, cut or silent: what comes of the shard, and what is told of it. */
import { assert, describe, it } from "@effect/vitest"
import { type KinesisError, Position } from "@kinesumer/core"
import { Faults } from "@kinesumer/test-kit"
import { Duration, Effect, Option, TestClock } from "effect"
import { names, pass, putTo, shardId, until } from "../group/support.js"
import {
  assertPaced,
  nameOf,
  rareFanOut,
  reading,
  shardHealth,
  startsOf,
  triesOf,
  troubleOf
} from "./fan-out-support.js"
import { bothViews, eventsOf, type FaultyWorld, faultyWorld, leap, positionOf } from "./reading-support.js"

const [a, b] = [shardId(0), shardId(1)]

const makeWorld = (shards = 1) =>
  Effect.gen(function*() {
    const w = yield* faultyWorld()
    yield* w.kinesis.createStream({ name: "orders", shards })
    return w
  })

interface Variant {
  readonly what: string
  /** What shows in health and events. */
  readonly reason: KinesisError.KinesisErrorReason
  readonly action: Faults.Action<"subscribeToShard">
  /** The next subscription brings an event at once, so that health tells of it for a moment only. */
  readonly isShort?: boolean | undefined
  /** How many subscriptions it is about; by default all of 60 seconds. */
  readonly times?: number | undefined
  /** Within how many seconds after that records flow again. */
  readonly within: number
}

const variants: ReadonlyArray<Variant> = [
  { what: "refused three times", reason: "ResourceInUse", action: Faults.fail("ResourceInUse"), times: 3, within: 8 },
  { what: "never answered", reason: "Timeout", action: Faults.hang, within: 41 },
  { what: "taken over at once", reason: "ResourceInUse", action: Faults.failEvents("ResourceInUse"), within: 8 },
  {
    what: "reset after the first frame",
    reason: "Unavailable",
    action: Faults.failEvents("Unavailable", { after: 1 }),
    isShort: true,
    within: 12
  },
  { what: "reset before the first frame", reason: "Unavailable", action: Faults.failEvents("Unavailable"), within: 12 },
  { what: "accepted, and silent", reason: "Timeout", action: Faults.hangEvents(), within: 41 },
  {
    what: "silent after an event",
    reason: "Timeout",
    action: Faults.hangEvents({ after: 1 }),
    isShort: true,
    within: 41
  },
  { what: "over before the first event", reason: "Unavailable", action: Faults.endEvents(), within: 12 },
  { what: "throttled", reason: "Throttled", action: Faults.fail("Throttled"), within: 12 },
  {
    what: "refused for credentials that ran out",
    reason: "AccessDenied",
    action: Faults.fail("AccessDenied"),
    within: 32
  },
  {
    what: "cut with a frame that nobody understands",
    reason: "Unknown",
    action: Faults.failEvents("Unknown", { after: 2 }),
    isShort: true,
    within: 12
  }
]

/** Puts a record a second into both shards, and looks at them each time. */
const putting = <E>(w: FaultyWorld, from: number, to: number, look: Effect.Effect<void, E>) =>
  Effect.gen(function*() {
    for (let n = from; n <= to; n++) {
      yield* putTo(w, "orders", a, [`a${n}`])
      yield* putTo(w, "orders", b, [`b${n}`])
      yield* TestClock.adjust("1 second")
      yield* look
    }
  })

describe("fanout-refused-subscribe-goes-silent", () => {
  for (const view of bothViews) {
    for (
      const { action, isShort = false, reason, times, what, within } of view === "records"
        ? variants
        : variants.slice(0, 5)
    ) {
      it.scoped(`${view}: ${what}`, () =>
        Effect.gen(function*() {
          const w = yield* makeWorld(2)
          const { m, ...run } = yield* reading(w, view, rareFanOut)
          const of = (shard: string) => Effect.map(run.datas, (all) => all.filter((name) => name.startsWith(shard)))
          const told = new Set<KinesisError.KinesisErrorReason>()
          let silent = 0
          const look = Effect.gen(function*() {
            const health = yield* m.service.health
            const { lagMillis, millisSinceAnswer, trouble } = yield* shardHealth(m, a)
            if (Option.isSome(trouble)) {
              told.add(trouble.value.reason)
              assert.isFalse(health.healthy)
              assert.deepStrictEqual(lagMillis, Option.none())
            }
            const isSilent = Option.getOrElse(millisSinceAnswer, () => Infinity) > 1_100
            silent = isSilent && Option.isNone(trouble) ? silent + 1 : 0
            // A watchdog's time without an event, and there is trouble.
            assert.isAtMost(silent, 31)
            assert.isUndefined(yield* troubleOf(m, b))
          })
          yield* putting(w, 1, 20, look)
          assert.strictEqual(yield* run.count, 40)
          const rule = yield* w.faults.add({ on: "subscribeToShard", shardId: a, times }, action)
          yield* w.kinesis.endSubscriptions({ shardId: a })
          yield* putting(w, 21, 80, look)
          // The other shard kept its pace.
          assert.deepStrictEqual(yield* of("b"), names("b", 1, 80))
          if (!isShort) assert.isTrue(told.has(reason), [...told].join())
          yield* rule.heal
          if (times === undefined) yield* putting(w, 81, 80 + within, look)
          const last = times === undefined ? 80 + within : 80
          assert.deepStrictEqual(yield* of("a"), names("a", 1, last))
          assert.deepStrictEqual(yield* of("b"), names("b", 1, last))
          yield* pass(1)
          assert.isTrue((yield* m.service.health).healthy)
          yield* assertPaced(w, [a, b])
          const retries = yield* eventsOf(m, "Retrying")
          assert.isAtLeast(retries.length, 1)
          assert.isTrue(retries.every(({ operation, shardId }) => operation === "subscribeToShard" && shardId === a))
          assert.isTrue(retries.some(({ error }) => error.reason === reason))
          assert.isTrue(retries.every(({ delay }) => Duration.lessThanOrEqualTo(delay, "30 seconds")))
          assert.deepStrictEqual(yield* eventsOf(m, "RecordsLost"), [])
          assert.deepStrictEqual(yield* eventsOf(m, "LoopFailed"), [])
        }))
    }

    it.scoped(`${view}: the watchdog does not count the time in which nothing is asked for`, () =>
      Effect.gen(function*() {
        const w = yield* makeWorld()
        const { m, ...run } = yield* reading(
          w,
          view,
          { ...rareFanOut, bufferSize: 5 },
          (record) => nameOf(record) === "a3" ? Effect.sleep("4 minutes") : Effect.void
        )
        yield* pass(1)
        yield* putTo(w, "orders", a, names("a", 1, 30))
        yield* leap(238)
        assert.deepStrictEqual(yield* run.datas, names("a", 1, 3))
        yield* leap(3)
        assert.deepStrictEqual(yield* run.datas, names("a", 1, 30))
        assert.deepStrictEqual(yield* eventsOf(m, "Retrying"), [])
        assert.strictEqual((yield* triesOf(w)).length, 1)
        yield* putTo(w, "orders", a, names("a", 31, 40))
        yield* leap(90)
        assert.deepStrictEqual(yield* run.datas, names("a", 1, 40))
        assert.deepStrictEqual(yield* eventsOf(m, "Retrying"), [])
      }))

    it.scoped(`${view}: the subscription of an owner that crashed is too young to be replaced`, () =>
      Effect.gen(function*() {
        const w = yield* makeWorld()
        const before = yield* reading(w, view)
        yield* putTo(w, "orders", a, names("a", 1, 5))
        yield* until(Effect.map(before.count, (count) => count === 5), 5)
        yield* before.m.close
        assert.deepStrictEqual(
          yield* positionOf(w),
          Option.some(Position.afterSequence(
            (yield* before.seen)[4]?.sequenceNumber ?? ""
          ))
        )
        const startedAt = (yield* triesOf(w))[0]?.at ?? 0
        const { m, ...run } = yield* reading(w, view, { memberId: "b" })
        yield* putTo(w, "orders", a, names("a", 6, 10))
        yield* until(Effect.map(run.count, (count) => count === 5), 10)
        assert.deepStrictEqual(yield* run.datas, names("a", 6, 10))
        const tries = (yield* triesOf(w)).filter(({ member }) => member === "b")
        assert.isAtLeast(tries.length, 2)
        assert.isAtLeast((tries.at(-1)?.at ?? 0) - startedAt, 5_000)
        const reasons = (yield* eventsOf(m, "Retrying")).map(({ error }) => error.reason)
        assert.isTrue(reasons.every((reason) => reason === "ResourceInUse" || reason === "Throttled"), reasons.join())
        yield* assertPaced(w)
      }))
  }

  it.scoped("the calls about one shard stay a second apart where its reader meets a defect", () =>
    Effect.gen(function*() {
      const w = yield* makeWorld()
      yield* w.faults.add({ on: "subscribeToShard", times: 10 }, Faults.die("a defect"))
      const { m, ...run } = yield* reading(w, "records", { syncInterval: "200 millis" })
      yield* putTo(w, "orders", a, names("a", 1, 3))
      yield* pass(9)
      assert.isAtLeast((yield* eventsOf(m, "LoopFailed")).length, 8)
      yield* until(Effect.map(run.count, (count) => count === 3), 5)
      yield* assertPaced(w)
      assert.deepStrictEqual((yield* m.service.health).failingLoops, [])
    }))

  it.scoped("the calls about one shard stay a second apart where its lease is acquired anew", () =>
    Effect.gen(function*() {
      const w = yield* makeWorld()
      const { m, ...run } = yield* reading(w, "records", {
        syncInterval: "200 millis",
        commit: { interval: "200 millis" }
      })
      yield* pass(0.2)
      const [checkpoint] = yield* w.store.listCheckpoints("app", "orders")
      const owner = Option.getOrThrow(checkpoint?.owner ?? Option.none())
      yield* w.store.releaseLeases("app", owner, [{ stream: "orders", shardId: a, epoch: 1 }])
      yield* w.store.removeCheckpoints("app", "orders", [a])
      yield* putTo(w, "orders", a, names("a", 1, 3))
      yield* until(Effect.map(eventsOf(m, "LeaseRestored"), (events) => events.length > 0), 10)
      yield* putTo(w, "orders", a, names("a", 4, 6))
      yield* until(Effect.map(run.datas, (all) => all.includes("a6")), 10)
      yield* assertPaced(w)
    }))

  it.scoped("an answer that nothing is there, once among other faults, gives no position up", () =>
    Effect.gen(function*() {
      const w = yield* makeWorld()
      const { m, ...run } = yield* reading(w, "records")
      yield* putTo(w, "orders", a, names("a", 1, 5))
      yield* until(Effect.map(run.count, (count) => count === 5), 5)
      yield* w.faults.add({ on: "subscribeToShard", nth: 9 }, Faults.fail("NotFound"))
      yield* w.faults.add({ on: "subscribeToShard", times: 8 }, Faults.fail("Unavailable"))
      yield* w.kinesis.endSubscriptions()
      yield* putTo(w, "orders", a, names("a", 6, 10))
      yield* until(Effect.map(run.count, (count) => count >= 10), 120)
      yield* pass(10)
      assert.deepStrictEqual(yield* run.datas, names("a", 1, 10))
      assert.deepStrictEqual(yield* eventsOf(m, "RecordsLost"), [])
      assert.isTrue((yield* startsOf(w)).slice(1).every(Position.is("AfterSequence")))
    }))
})
