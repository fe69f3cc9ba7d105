/** Shards without records: what moves is the continuation alone. */
import { assert, describe, it } from "@effect/vitest"
import { type KinesumerConfig, Position } from "@kinesumer/core"
import { Faults } from "@kinesumer/test-kit"
import { Effect, Option, TestClock } from "effect"
import { names, putTo, shardId, until } from "../group/support.js"
import { assertPaced, rareFanOut, reading, shardHealth, startsOf, triesOf } from "./fan-out-support.js"
import {
  bothViews,
  crash,
  eventsOf,
  type FaultyWorld,
  faultyWorld,
  leap,
  positionOf,
  type View
} from "./reading-support.js"

const a = shardId(0)

const latest = { ...rareFanOut, startFrom: "Latest" } satisfies Partial<KinesumerConfig.KinesumerOptions>

/** Notes the continuation of each event that Kinesis gives, by when it came. */
const noteContinuations = (w: FaultyWorld) =>
  Effect.gen(function*() {
    const noted: Array<string> = []
    yield* w.faults.add(
      { on: "subscribeToShard", shardId: a },
      Faults.rewriteEvents((event) => {
        noted.push(...Option.toArray(event.continuation))
        return [event]
      })
    )
    return noted
  })

/** A stream whose start is a moment that no record is at. */
const idleWorld = (options?: Parameters<typeof faultyWorld>[0]) =>
  Effect.gen(function*() {
    const w = yield* faultyWorld(options)
    yield* w.kinesis.createStream({ name: "orders" })
    yield* putTo(w, "orders", a, names("old", 1, 3))
    yield* TestClock.adjust("5 seconds")
    return w
  })

const isAlive = (m: Parameters<typeof shardHealth>[0]) =>
  Effect.gen(function*() {
    const { millisSinceAnswer, trouble } = yield* shardHealth(m)
    // An event is 5 seconds in coming, and the one that would come with the end of a subscription does not come.
    assert.isAtMost(Option.getOrThrow(millisSinceAnswer), 10_100)
    assert.deepStrictEqual(trouble, Option.none())
    assert.isTrue((yield* m.service.health).healthy)
  })

/** Three subscriptions of an idle shard, each renewed after 5 minutes. */
const threeSubscriptions = (w: FaultyWorld, view: View, options: Partial<KinesumerConfig.KinesumerOptions> = latest) =>
  Effect.gen(function*() {
    const noted = yield* noteContinuations(w)
    const run = yield* reading(w, view, options)
    const lasts: Array<string | undefined> = []
    for (let n = 1; n <= 3; n++) {
      yield* leap(299)
      lasts.push(noted.at(-1))
      yield* isAlive(run.m)
      yield* TestClock.adjust("1 second")
    }
    yield* TestClock.adjust("1 second")
    const starts = yield* startsOf(w)
    assert.isTrue(starts[0] !== undefined && Position.is("AtTimestamp")(starts[0]))
    assert.deepStrictEqual(starts.slice(1), lasts.map((last) => Position.afterSequence(last ?? "")))
    yield* assertPaced(w)
    return { ...run, noted }
  })

describe("fanout-idle-shard-pinned-to-timestamp", () => {
  for (const view of bothViews) {
    it.scoped(`${view}: each subscription begins after the last continuation, and a record is delivered once`, () =>
      Effect.gen(function*() {
        const w = yield* idleWorld()
        const { m, ...run } = yield* threeSubscriptions(w, view)
        yield* putTo(w, "orders", a, ["a1"])
        yield* TestClock.adjust("1 second")
        assert.deepStrictEqual(yield* run.datas, ["a1"])
        yield* leap(301)
        assert.deepStrictEqual(yield* run.datas, ["a1"])
        // Nothing was committed that no record stands for.
        const [first] = (yield* run.seen).map(({ sequenceNumber }) => sequenceNumber)
        assert.deepStrictEqual(yield* positionOf(w), Option.some(Position.afterSequence(first ?? "")))
        assert.deepStrictEqual(yield* eventsOf(m, "Retrying"), [])
        assert.deepStrictEqual(yield* eventsOf(m, "RecordsLost"), [])
      }))

    it.scoped(`${view}: the shard is closed with no record at all, and its children follow`, () =>
      Effect.gen(function*() {
        const w = yield* faultyWorld()
        yield* w.kinesis.createStream({ name: "orders" })
        yield* TestClock.adjust("5 seconds")
        const { m, ...run } = yield* threeSubscriptions(w, view)
        const [left, right] = yield* w.kinesis.split("orders", a)
        yield* putTo(w, "orders", left.shardId, names("l", 1, 3))
        yield* putTo(w, "orders", right.shardId, names("r", 1, 3))
        yield* until(Effect.map(run.count, (count) => count === 6), 130)
        assert.deepStrictEqual([...(yield* run.datas)].sort(), [...names("l", 1, 3), ...names("r", 1, 3)])
        assert.deepStrictEqual(yield* positionOf(w), Option.some(Position.shardEnd))
        assert.deepStrictEqual((yield* eventsOf(m, "ShardEnded")).map((event) => event.shardId), [a])
      }))

    it.scoped(`${view}: after a crash the moment of the start counts once more, and nothing is missed`, () =>
      Effect.gen(function*() {
        const w = yield* idleWorld()
        const { m, ...first } = yield* threeSubscriptions(w, view)
        yield* crash(w, m)
        yield* putTo(w, "orders", a, ["a1"])
        yield* TestClock.adjust("1 second")
        const second = yield* reading(w, view, { ...latest, memberId: "b" })
        yield* until(Effect.map(second.count, (count) => count === 1), 400)
        yield* leap(30)
        assert.deepStrictEqual(yield* first.datas, [])
        assert.deepStrictEqual(yield* second.datas, ["a1"])
        const own = (yield* triesOf(w)).filter(({ member }) => member === "b")
        assert.isTrue(own.slice(0, 1).every(({ args: [, , { position }] }) => position._tag === "AtTimestamp"))
      }))
  }

  for (const trimmedPosition of ["horizon", "refuse"] as const) {
    it.scoped(`retention passes the moment of the start (a vanished position: ${trimmedPosition})`, () =>
      Effect.gen(function*() {
        const w = yield* idleWorld({ trimmedPosition })
        yield* w.kinesis.setRetention("orders", "4 minutes")
        const { m, ...run } = yield* threeSubscriptions(w, "records")
        yield* putTo(w, "orders", a, ["a1"])
        yield* leap(2)
        assert.deepStrictEqual(yield* run.datas, ["a1"])
        assert.deepStrictEqual(yield* eventsOf(m, "RecordsLost"), [])
      }))
  }

  it.scoped("empty events that say they are behind the tip", () =>
    Effect.gen(function*() {
      const w = yield* idleWorld()
      yield* w.faults.add(
        { on: "subscribeToShard" },
        Faults.rewriteEvents((event) => [{ ...event, millisBehindLatest: Option.some(1_234) }])
      )
      const { m, ...run } = yield* threeSubscriptions(w, "records")
      assert.deepStrictEqual((yield* shardHealth(m)).lagMillis, Option.some(1_234))
      yield* putTo(w, "orders", a, ["a1"])
      yield* leap(302)
      assert.deepStrictEqual(yield* run.datas, ["a1"])
    }))

  it.scoped("events that say nothing at all: neither records nor a continuation, nor how far behind", () =>
    Effect.gen(function*() {
      const w = yield* idleWorld()
      const rule = yield* w.faults.add(
        { on: "subscribeToShard" },
        Faults.rewriteEvents((event) => [{
          records: [],
          continuation: Option.none(),
          childShards: [],
          millisBehindLatest: Option.none(),
          ...(event.records.length > 0 ? event : {})
        }])
      )
      const { m, ...run } = yield* reading(w, "records", latest)
      yield* leap(120)
      // It looks like an end that nothing agrees with: the shard is open.
      assert.deepStrictEqual(yield* eventsOf(m, "ShardEnded"), [])
      assert.isAtMost((yield* triesOf(w)).length, 20)
      assert.isAtLeast((yield* triesOf(w)).length, 4)
      yield* assertPaced(w)
      yield* putTo(w, "orders", a, names("a", 1, 3))
      yield* until(Effect.map(run.count, (count) => count === 3), 60)
      yield* rule.heal
      yield* putTo(w, "orders", a, names("a", 4, 5))
      yield* until(Effect.map(run.count, (count) => count === 5), 60)
      assert.deepStrictEqual(yield* run.datas, names("a", 1, 5))
      assert.deepStrictEqual(yield* eventsOf(m, "RecordsLost"), [])
    }))

  it.scoped("a continuation that Kinesis refuses: the next one begins where reading stands", () =>
    Effect.gen(function*() {
      const w = yield* idleWorld()
      const { m, ...run } = yield* reading(w, "records", latest)
      yield* putTo(w, "orders", a, names("a", 1, 3))
      yield* leap(30)
      const [, , third] = yield* run.seen
      yield* w.faults.add({ on: "subscribeToShard", nth: 1 }, Faults.fail("InvalidArgument"))
      yield* w.kinesis.endSubscriptions()
      yield* leap(5)
      yield* putTo(w, "orders", a, names("a", 4, 6))
      yield* leap(20)
      assert.deepStrictEqual(yield* run.datas, names("a", 1, 6))
      const [, continued, stands] = yield* startsOf(w)
      assert.notDeepEqual(continued, stands)
      assert.deepStrictEqual(stands, Position.afterSequence(third?.sequenceNumber ?? ""))
      assert.deepStrictEqual(yield* eventsOf(m, "RecordsLost"), [])
    }))
})
