/** What Kinesis, or what stands in for it, can do to a reader: outages, lost positions, repeats, large records. */
import { assert, describe, it } from "@effect/vitest"
import { type KinesumerConfig, Position } from "@kinesumer/core"
import { Faults, KinesisFaults } from "@kinesumer/test-kit"
import { Effect, Option, TestClock } from "effect"
import { datas, names, pass, putTo, shardId, until } from "../group/support.js"
import {
  after,
  bothViews,
  eventsOf,
  faulty,
  faultyWorld,
  leap,
  positionOf,
  reader,
  slow,
  startsOf
} from "./reading-support.js"

const [a, b] = [shardId(0), shardId(1)]

/** Hardly any wake-ups. */
const rare = {
  ...slow,
  syncInterval: "1 minute",
  livenessTimeout: "4 minutes",
  commit: { interval: "1 minute" },
  polling: { idleInterval: "1 minute" }
} satisfies Partial<KinesumerConfig.KinesumerOptions>

describe("access-outage-looks-idle", () => {
  const reasons = [
    "AccessDenied",
    "NotFound",
    "Throttled",

    "Timeout",
    "Unknown",
    "InvalidArgument"
  ] as const

  for (const reason of reasons) {
    it.scoped(`${reason} for 20 minutes on one shard: nothing is skipped, and health says so`, () =>
      Effect.gen(function*() {
        const w = yield* faultyWorld()
        yield* w.kinesis.createStream({ name: "orders", shards: 2 })
        yield* putTo(w, "orders", a, names("a", 1, 10))
        const m = yield* faulty(w, rare)
        yield* m.consume()
        yield* leap(60)
        assert.deepStrictEqual(datas(yield* m.delivered), names("a", 1, 10))
        // A position that Kinesis refuses is another matter: see `one-lost-position-resets-all`.
        const on = reason === "InvalidArgument" || reason === "NotFound"
          ? ["getRecords"] as const
          : ["getRecords", "getShardIterator"] as const
        const rule = yield* w.faults.addKinesis({ on: [...on], shardId: a }, Faults.fail(reason))
        yield* w.faults.clearCalls
        yield* putTo(w, "orders", a, names("a", 11, 30))
        yield* leap(600)
        const during = (yield* m.service.health).shards.find((shard) => shard.shardId === a)
        assert.strictEqual(
          Option.map(during?.trouble ?? Option.none(), (error) => error.reason).pipe(Option.getOrUndefined),
          reason
        )
        assert.deepStrictEqual(during?.lagMillis, Option.none())
        assert.isFalse((yield* m.service.health).healthy)
        yield* putTo(w, "orders", a, names("a", 31, 50))
        yield* putTo(w, "orders", b, names("b", 1, 3))
        yield* leap(600)
        assert.deepStrictEqual(datas(yield* m.delivered).slice(10), names("b", 1, 3))
        const tries = (yield* w.faults.callsOf("getRecords", { shardId: a })).length +
          (yield* w.faults.callsOf("getShardIterator", { shardId: a })).length
        assert.isAtMost(tries, 2 * 1200 / 5)
        assert.isAtLeast(tries, 10)
        yield* rule.heal
        yield* leap(120)
        assert.deepStrictEqual(datas(yield* m.delivered).slice(13), names("a", 11, 50))
        assert.deepStrictEqual(yield* eventsOf(m, "LeaseLost"), [])
        assert.deepStrictEqual(yield* eventsOf(m, "RecordsLost"), [])
        assert.isTrue((yield* m.service.health).healthy)
        assert.deepStrictEqual((yield* m.service.assignment).map(({ epoch }) => epoch), [1, 1])
      }))
  }

  it.scoped("before the first record was ever read, start Latest, and a restart in the middle", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* w.kinesis.createStream({ name: "orders" })
      yield* putTo(w, "orders", a, names("old", 1, 3))
      yield* TestClock.adjust("5 seconds")
      const rule = yield* w.faults.addKinesis({ on: ["getRecords", "getShardIterator"] }, Faults.fail("AccessDenied"))
      const first = yield* faulty(w, { ...slow, startFrom: "Latest" })
      yield* first.consume()
      yield* TestClock.adjust("5 seconds")
      yield* putTo(w, "orders", a, names("a", 1, 5))
      yield* leap(300, 10)
      yield* first.close
      yield* putTo(w, "orders", a, names("a", 6, 10))
      const second = yield* faulty(w, { ...slow, startFrom: "Latest", memberId: "b" })
      yield* second.consume()
      yield* leap(300, 10)
      yield* rule.heal
      yield* leap(60)
      assert.deepStrictEqual(datas(yield* second.delivered), names("a", 1, 10))
    }))
})

describe("one-lost-position-resets-all", () => {
  for (const view of bothViews) {
    it.scoped(`${view}: of five shards one loses its position, and the others keep theirs`, () =>
      Effect.gen(function*() {
        const w = yield* faultyWorld({ trimmedPosition: "refuse" })
        yield* w.kinesis.createStream({ name: "orders", shards: 5 })
        for (const index of [0, 1, 2, 3, 4]) yield* putTo(w, "orders", shardId(index), names(`${index}-`, 1, 3))
        const first = yield* faulty(w)
        yield* first.consume()
        yield* until(Effect.map(first.delivered, (all) => all.length === 15), 5)
        yield* first.close
        for (const index of [0, 1, 2, 3, 4]) yield* putTo(w, "orders", shardId(index), names(`${index}-`, 4, 5))
        const records = yield* w.kinesis.records("orders", a)
        const lost = yield* positionOf(w)
        yield* w.kinesis.trim({ stream: "orders", shardId: a, through: records[3]?.sequenceNumber })
        yield* w.kinesis.clearCalls
        const m = yield* faulty(w)
        const run = yield* reader(m, view)
        yield* Effect.fork(run.run)
        yield* until(Effect.map(run.count, (count) => count >= 9), 10)
        yield* pass(3)
        assert.deepStrictEqual(
          [...(yield* run.datas)].sort(),
          ["0-5", ...[1, 2, 3, 4].flatMap((index) => names(`${index}-`, 4, 5))]
        )
        for (const index of [1, 2, 3, 4]) {
          assert.strictEqual((yield* startsOf(w, shardId(index))).length, 1)
        }
        assert.deepStrictEqual(yield* startsOf(w, a), [...Option.toArray(lost), Position.trimHorizon])
        assert.deepStrictEqual(
          (yield* eventsOf(m, "RecordsLost")).map(({ position, reason, shardId }) => ({ position, reason, shardId })),
          [{ position: Option.getOrThrow(lost), reason: "Refused", shardId: a }]
        )
      }))
  }
})

describe("stand-in-hands-out-old-records", () => {
  /** Records are put in threes; each page after the first is answered as the fault has it. */
  const run = (
    fault: (w: Effect.Effect.Success<ReturnType<typeof faultyWorld>>) => Effect.Effect<unknown>,
    view: "records" | "shards"
  ) =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* w.kinesis.createStream({ name: "orders" })
      const m = yield* faulty(w)
      const r = yield* reader(m, view)
      yield* Effect.fork(r.run)
      yield* putTo(w, "orders", a, names("a", 1, 5))
      yield* until(Effect.map(r.count, (count) => count === 5), 5)
      yield* fault(w)
      for (const from of [6, 9, 12]) {
        yield* putTo(w, "orders", a, names("a", from, from + 2))
        yield* pass(1.4)
      }
      yield* w.kinesis.expireIterators
      yield* putTo(w, "orders", a, names("a", 15, 17))
      yield* pass(3)
      assert.deepStrictEqual(yield* r.datas, names("a", 1, 17))
      assert.deepStrictEqual(yield* positionOf(w), yield* after(w, 17))
      yield* m.close
      yield* putTo(w, "orders", a, names("a", 18, 20))
      const next = yield* faulty(w, { memberId: "b" })
      const rest = yield* reader(next, view)
      yield* Effect.fork(rest.run)
      yield* pass(3)
      assert.deepStrictEqual(yield* rest.datas, names("a", 18, 20))
      assert.deepStrictEqual(yield* eventsOf(m, "RecordsLost"), [])
    })

  for (const view of bothViews) {
    for (const count of [1, 2, 3]) {
      it.scoped(`${view}: (a) a page begins with the last ${count} of the one before`, () =>
        run((w) => w.faults.add({ on: "getRecords" }, KinesisFaults.repeatRecords(count)), view))
    }
    it.scoped(`${view}: (b) an iterator after a record stands at it`, () =>
      run((w) => w.faults.add({ on: "getShardIterator" }, KinesisFaults.iteratorAtRecord), view))
    it.scoped(`${view}: (c) the same page twice`, () =>
      run((w) =>
        w.faults.add(
          { on: "getRecords", every: 2 },
          Faults.rewrite((answer, { previous }) => ({
            ...answer,
            records: [
              ...Option.match(previous, {
                onNone: () => [],
                onSome: ({ records }) => records
              }),
              ...answer.records,
              ...answer.records
            ]
          }))
        ), view))
    it.scoped(`${view}: (d) a page in reverse order is delivered sorted`, () =>
      run((w) => w.faults.add({ on: "getRecords" }, KinesisFaults.reverseRecords), view))
  }
})

describe("empty-shard-hot-poll", () => {
  it.scoped("ten empty shards for an hour: one call each idle interval, and after throttles no more", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* w.kinesis.createStream({ name: "orders", shards: 10 })
      const m = yield* faulty(w, { ...slow, polling: { idleInterval: "60 seconds" } })
      yield* m.consume()
      yield* w.faults.add({ on: "getRecords", every: 3 }, Faults.fail("Throttled"))
      yield* leap(1200, 10)
      yield* w.faults.healAll
      for (let index = 0; index < 10; index++) {
        const times = (yield* w.kinesis.callsOf("getRecords", { shardId: shardId(index) })).map(({ at }) => at)
        assert.isAtMost(times.length, 22)
        assert.isTrue(times.slice(1).every((at, i) => at - (times[i] ?? 0) >= 60_000), times.join())
      }
    }))

  it.scoped("behind the tip without records: no idle pause, and never above five a second", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* w.kinesis.createStream({ name: "orders" })
      yield* putTo(w, "orders", a, names("a", 1, 1))
      yield* w.kinesis.emptyPages({ stream: "orders", shardId: a, count: 30 })
      const m = yield* faulty(w, slow)
      yield* m.consume()
      yield* leap(8, 4)
      assert.deepStrictEqual(datas(yield* m.delivered), ["a1"])
      const times = (yield* w.kinesis.callsOf("getRecords")).map(({ at }) => at)
      assert.isTrue(times.slice(1, 31).every((at, i) => at - (times[i] ?? 0) === 200), times.join())
    }))
})

describe("credentials-resolved-once", () => {
  it.scoped("a refresh of the credentials fails now and then, for Kinesis and for the store: nothing stops", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* w.kinesis.createStream({ name: "orders" })
      const m = yield* faulty(w)
      yield* m.consume()
      for (let hour = 0; hour < 3; hour++) {
        const from = hour * 3 + 1
        const kinesis = yield* w.faults.addKinesis({}, Faults.fail("AccessDenied"))
        const store = yield* w.faults.addStore({}, Faults.fail("AccessDenied"))
        yield* putTo(w, "orders", a, names("a", from, from + 2))
        // One try of each loop meets it.
        yield* pass(3)
        yield* kinesis.heal
        yield* store.heal
        yield* until(Effect.map(m.delivered, (all) => all.length === from + 2), 30)
        // Every loop has got through again, as it has long before the next hour.
        yield* pass(3)
      }
      assert.deepStrictEqual(datas(yield* m.delivered), names("a", 1, 9))
      yield* until(
        Effect.zipWith(positionOf(w), after(w, 9), (x, y) =>
          Option.getOrUndefined(x) !== undefined &&
          JSON.stringify(x) === JSON.stringify(y)),
        5
      )
      assert.deepStrictEqual((yield* m.service.health).failure, Option.none())
      assert.isTrue((yield* m.service.health).healthy)
    }))
})

describe("big-records-in-a-count-bounded-buffer", () => {
  it.scoped("bytes bound the buffer, a record larger than the bound gets through, and nothing is read meanwhile", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* w.kinesis.createStream({ name: "orders", shards: 4 })
      const data = new Uint8Array(100_000)
      for (let index = 0; index < 4; index++) {
        for (let n = 0; n < 6; n++) yield* w.kinesis.putTo({ stream: "orders", shardId: shardId(index), data })
      }
      yield* w.kinesis.putTo({ stream: "orders", shardId: a, data: new Uint8Array(900_000) })
      const m = yield* faulty(w, { ...slow, bufferSize: 10_000, bufferBytes: 400_000 })
      yield* leap(10)
      const { bufferedBytes } = yield* m.service.health
      assert.isAtLeast(bufferedBytes, 400_000)
      // Where each shard asks before the bound is met, one answer each can come on top.
      assert.isAtMost(bufferedBytes, 4 * 600_100 + 900_100)
      const read = new Set((yield* w.kinesis.callsOf("getRecords")).map(({ shardId }) => shardId))
      assert.isAbove(read.size, 0)
      yield* w.kinesis.clearCalls
      yield* leap(300, 10)
      assert.deepStrictEqual(yield* w.kinesis.callsOf("getRecords"), [])
      const r = yield* reader(m, "records")
      yield* Effect.fork(r.run)
      yield* leap(60, 12)
      const seen = yield* r.seen
      assert.strictEqual(seen.length, 25)
      for (let index = 0; index < 4; index++) {
        assert.deepStrictEqual(
          seen.filter((record) => record.shardId === shardId(index)).map(({ sequenceNumber }) => sequenceNumber),
          (yield* w.kinesis.records("orders", shardId(index))).map(({ sequenceNumber }) => sequenceNumber)
        )
      }
      const starts = (yield* w.kinesis.callsOf("getShardIterator")).filter(({ shardId }) => read.has(shardId))
      assert.isFalse(starts.some(({ position }) => Position.is("TrimHorizon")(position)))
      assert.strictEqual((yield* m.service.health).bufferedBytes, 0)
    }))
})
