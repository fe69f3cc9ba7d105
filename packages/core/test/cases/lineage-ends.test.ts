/** How the end of a shard is written: once, after everything before it, whatever came first. */
import { assert, describe, it } from "@effect/vitest"
import { Position } from "@kinesumer/core"
import { Faults } from "@kinesumer/test-kit"
import { Deferred, Effect, Exit, Option } from "effect"
import { datas, member, names, pass, putTo, row, shardId, until } from "../group/support.js"
import {
  after,
  commitsOf,
  consume,
  crash,
  endsOf,
  eventsOf,
  faulty,
  type FaultyWorld,
  faultyWorld,
  ids,
  isEnded,
  manual,
  positionOf,
  shardsOf,
  startsOf,
  type View
} from "./lineage-support.js"

const views: ReadonlyArray<View> = ["records", "shards"]
const a = shardId(0)

const oneShard = (records: number) =>
  Effect.gen(function*() {
    const w = yield* faultyWorld()
    yield* w.kinesis.createStream({ name: "orders" })
    yield* putTo(w, "orders", a, names("a", 1, records))
    return w
  })

describe("end-equals-last-mark", () => {
  /** One write took the row to its end, nothing was written after it, and the children have begun. */
  const assertEnded = (w: FaultyWorld, m: Effect.Effect.Success<ReturnType<typeof faulty>>) =>
    Effect.gen(function*() {
      const commits = yield* commitsOf(w, a)
      assert.deepStrictEqual(commits.filter(({ position }) => position._tag === "ShardEnd"), [
        { position: Position.shardEnd, outcome: "success" }
      ])
      assert.deepStrictEqual(commits.at(-1)?.position, Position.shardEnd)
      yield* until(Effect.map(shardsOf(m), (shards) => shards.length === 2), 3)
      assert.deepStrictEqual(yield* shardsOf(m), ids(1, 2))
      assert.deepStrictEqual(yield* eventsOf(m, "ShardEnded"), [
        { _tag: "ShardEnded", stream: "orders", shardId: a }
      ])
    })

  for (const view of views) {
    it.scoped(`${view}: the last record was committed before the end is seen`, () =>
      Effect.gen(function*() {
        const w = yield* oneShard(10)
        const m = yield* faulty(w)
        const { delivered } = yield* consume(m, view)
        yield* until(Effect.map(delivered, (all) => all.length === 10))
        yield* pass(1.2)
        assert.deepStrictEqual(yield* positionOf(w, a), yield* after(w, a, 10))
        yield* w.kinesis.split("orders", a)
        yield* until(isEnded(w, a), 2)
        yield* assertEnded(w, m)
        assert.deepStrictEqual(yield* eventsOf(m, "CommitFailed"), [])
      }))

    it.scoped(`${view}: the end is seen first, the last record is marked after it`, () =>
      Effect.gen(function*() {
        const w = yield* oneShard(10)
        yield* w.kinesis.split("orders", a)
        const m = yield* faulty(w, manual)
        const { delivered } = yield* consume(m, view)
        yield* until(Effect.map(m.service.health, ({ shards }) => shards.some(({ ending }) => ending)), 5)
        yield* pass(2)
        assert.deepStrictEqual(yield* commitsOf(w, a), [])
        yield* m.service.mark(yield* delivered)
        yield* pass(0.4)
        assert.isTrue(yield* isEnded(w, a))
        assert.strictEqual((yield* commitsOf(w, a)).length, 1)
        yield* assertEnded(w, m)
      }))

    it.scoped(`${view}: nothing was ever read`, () =>
      Effect.gen(function*() {
        const w = yield* oneShard(0)
        yield* w.kinesis.split("orders", a)
        const m = yield* faulty(w)
        const { delivered } = yield* consume(m, view)
        yield* until(isEnded(w, a), 2)
        assert.strictEqual((yield* commitsOf(w, a)).length, 1)
        yield* assertEnded(w, m)
        assert.deepStrictEqual(yield* delivered, [])
      }))

    it.scoped(`${view}: marked and committed before and after the end, again and again`, () =>
      Effect.gen(function*() {
        const w = yield* oneShard(10)
        const m = yield* faulty(w, manual)
        const { delivered } = yield* consume(m, view)
        yield* until(Effect.map(delivered, (all) => all.length === 10))
        const all = yield* delivered
        yield* m.service.mark(all)
        yield* m.service.mark(all)
        yield* m.service.commit
        yield* m.service.commit
        assert.deepStrictEqual(yield* positionOf(w, a), yield* after(w, a, 10))
        yield* w.kinesis.split("orders", a)
        yield* until(isEnded(w, a), 3)
        yield* m.service.mark(all.slice(-1))
        yield* m.service.commit
        yield* pass(1)
        yield* m.service.mark(all)
        yield* m.service.commit
        yield* assertEnded(w, m)
        assert.strictEqual((yield* commitsOf(w, a)).length, 2)
      }))
  }

  it.scoped("marked as it is delivered, by a handler that marks", () =>
    Effect.gen(function*() {
      const w = yield* oneShard(10)
      yield* w.kinesis.split("orders", a)
      const m = yield* faulty(w, manual)
      yield* m.consume((record) => Effect.orDie(m.service.mark(record)))
      yield* until(isEnded(w, a), 3)
      yield* assertEnded(w, m)
      assert.deepStrictEqual(datas(yield* m.delivered), names("a", 1, 10))
    }))

  it.scoped("the commit of the last record failed once and comes again after the end was seen", () =>
    Effect.gen(function*() {
      const w = yield* oneShard(10)
      const m = yield* faulty(w, manual)
      yield* m.consume()
      yield* until(Effect.map(m.delivered, (all) => all.length === 10))
      yield* w.faults.add({ on: "commitCheckpoints", times: 1 }, Faults.fail("Throttled"))
      yield* m.service.mark(yield* m.delivered)
      assert.isTrue(Exit.isFailure(yield* Effect.exit(m.service.commit)))
      yield* w.kinesis.split("orders", a)
      yield* until(isEnded(w, a), 3)
      yield* assertEnded(w, m)
    }))
})

describe("end-marker-leaks-from-stopping-worker", () => {
  /** Read to the end, of 20 records the last 10 not yet delivered. */
  const undelivered = (w: FaultyWorld, options = {}) =>
    Effect.gen(function*() {
      yield* w.kinesis.split("orders", a)
      // Slices of five, so that a delivery can stop between two of them.
      yield* w.faults.add(
        { on: "getRecords", shardId: a },
        Faults.redirect((stream, id, { iterator }) => [
          stream,
          id,
          { iterator, limit: 5 }
        ])
      )
      const m = yield* faulty(w, { memberId: "b", ...options })
      const gate = yield* Deferred.make<void>()
      yield* m.consume((record) => datas([record])[0] === "a11" ? Deferred.await(gate) : Effect.void)
      yield* until(Effect.map(m.service.health, ({ shards }) => shards.some(({ ending }) => ending)), 10)
      yield* pass(1.2)
      assert.deepStrictEqual(datas(yield* m.delivered), names("a", 1, 11))
      assert.deepStrictEqual(yield* positionOf(w, a), yield* after(w, a, 10))
      return { m, gate }
    })

  /** The rest is delivered, in order; then the shard ends and its children start. */
  const assertTakenUp = (w: FaultyWorld, options = {}) =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* endsOf(w, a), [])
      const next = yield* member(w, { memberId: "c", ...options })
      yield* next.consume()
      yield* until(Effect.map(next.delivered, (all) => all.length === 10), 30)
      assert.deepStrictEqual(datas(yield* next.delivered), names("a", 11, 20))
      yield* until(isEnded(w, a), 3)
      yield* until(Effect.map(shardsOf(next), (shards) => shards.length === 2), 5)
      assert.deepStrictEqual(yield* shardsOf(next), ids(1, 2))
    })

  it.scoped("the shard moves to another member", () =>
    Effect.gen(function*() {
      const w = yield* oneShard(20)
      const { m } = yield* undelivered(w)
      // The owner gives the stream up, so the shard goes to whoever still reads it.
      yield* w.kinesis.createStream({ name: "payments" })
      yield* m.service.refresh(["payments"])
      yield* pass(2)
      assert.deepStrictEqual(yield* positionOf(w, a), yield* after(w, a, 10))
      assert.isTrue(Option.isNone(Option.flatMap(yield* row(w, a), ({ owner }) => owner)))
      yield* assertTakenUp(w)
    }))

  it.scoped("the process dies", () =>
    Effect.gen(function*() {
      const w = yield* oneShard(20)
      const { m } = yield* undelivered(w)
      yield* crash(w, m)
      yield* assertTakenUp(w)
    }))

  it.scoped("the scope is closed while nobody pulls any more", () =>
    Effect.gen(function*() {
      const w = yield* oneShard(20)
      const { m } = yield* undelivered(w)
      yield* m.close
      assert.deepStrictEqual(yield* positionOf(w, a), yield* after(w, a, 10))
      yield* assertTakenUp(w)
    }))

  it.scoped("the set of streams changes, and changes back", () =>
    Effect.gen(function*() {
      const w = yield* oneShard(20)
      yield* w.kinesis.createStream({ name: "payments" })
      const { gate, m } = yield* undelivered(w)
      yield* m.service.refresh(["payments"])
      yield* pass(2)
      assert.deepStrictEqual(yield* endsOf(w, a), [])
      yield* Deferred.succeed(gate, undefined)
      yield* m.service.refresh(["payments", "orders"])
      yield* until(isEnded(w, a), 10)
      // The record in hand was not marked in time, so it comes again.
      assert.deepStrictEqual(datas(yield* m.delivered), [...names("a", 1, 15), ...names("a", 11, 20)])
      assert.strictEqual((yield* endsOf(w, a)).length, 1)
    }))

  it.scoped("manual: one delivered record is unmarked", () =>
    Effect.gen(function*() {
      const w = yield* oneShard(10)
      yield* w.kinesis.split("orders", a)
      const m = yield* faulty(w, { ...manual, memberId: "b" })
      yield* m.consume()
      yield* until(Effect.map(m.service.health, ({ shards }) => shards.some(({ ending }) => ending)), 5)
      yield* until(Effect.map(m.delivered, (records) => records.length === 10), 1)
      const all = yield* m.delivered
      yield* m.service.mark(all.filter((record) => datas([record])[0] !== "a5"))
      yield* m.service.commit
      yield* m.close
      assert.deepStrictEqual(yield* positionOf(w, a), yield* after(w, a, 4))
      assert.deepStrictEqual(yield* endsOf(w, a), [])
    }))

  it.scoped("health answers for ends, untouched starts and vanished shards, and asks Kinesis for nothing", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* w.kinesis.createStream({ name: "orders", shards: 3 })
      yield* putTo(w, "orders", a, names("a", 1, 3))
      yield* w.kinesis.split("orders", a)
      yield* w.kinesis.split("orders", shardId(2))
      yield* w.faults.add(
        { on: "getShardIterator", shardId: shardId(2) },
        Faults.fail("NotFound")
      )
      const m = yield* faulty(w)
      yield* m.consume()
      yield* until(isEnded(w, a), 5)
      yield* pass(1)
      const before = (yield* w.faults.calls).length
      const health = yield* m.service.health
      assert.strictEqual((yield* w.faults.calls).length, before)
      const untouched = health.shards.find((shard) => shard.shardId === shardId(1))
      assert.deepStrictEqual(untouched?.committed, Position.trimHorizon)
      assert.deepStrictEqual(untouched?.lagMillis, Option.some(0))
      assert.isUndefined(health.shards.find((shard) => shard.shardId === a))
      assert.isTrue(
        (yield* w.kinesis.callsOf("getShardIterator")).every(({ position }) => position._tag === "TrimHorizon")
      )
    }))
})

describe("end-of-shard-as-a-missing-field", () => {
  // That an absent, a null and an empty iterator are one and the same is the client's business, and tested there.

  it.scoped("with records in the same answer", () =>
    Effect.gen(function*() {
      const w = yield* oneShard(10)
      yield* w.kinesis.split("orders", a)
      const m = yield* faulty(w)
      yield* m.consume()
      yield* until(isEnded(w, a), 3)
      const calls = yield* w.kinesis.callsOf("getRecords", { shardId: a })
      assert.deepStrictEqual(calls.map((call) => [call.sequenceNumbers.length, call.ended]), [[10, true]])
      assert.deepStrictEqual(datas(yield* m.delivered), names("a", 1, 10))
    }))

  it.scoped("without records, while the answer claims to be behind the tip", () =>
    Effect.gen(function*() {
      const w = yield* oneShard(10)
      yield* w.faults.add(
        { on: "getRecords", shardId: a },
        Faults.rewrite((answer) => ({ ...answer, millisBehindLatest: Option.some(90_000) }))
      )
      const m = yield* faulty(w)
      yield* m.consume()
      yield* until(Effect.map(m.delivered, (all) => all.length === 10))
      yield* w.kinesis.split("orders", a)
      yield* until(isEnded(w, a), 3)
      assert.deepStrictEqual((yield* startsOf(w, a)).length, 1)
      assert.strictEqual((yield* endsOf(w, a)).length, 1)
      assert.deepStrictEqual(yield* eventsOf(m, "Retrying"), [])
    }))

  it.scoped("twelve shards end in one minute, and the open ones go on", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* w.kinesis.createStream({ name: "orders", shards: 14 })
      const m = yield* faulty(w)
      yield* m.consume()
      yield* pass(1)
      for (let index = 0; index < 12; index++) yield* w.kinesis.split("orders", shardId(index))
      yield* putTo(w, "orders", shardId(12), names("m", 1, 3))
      yield* until(Effect.map(shardsOf(m), (shards) => shards.length === 26), 10)
      yield* putTo(w, "orders", shardId(13), names("n", 1, 3))
      yield* until(Effect.map(m.delivered, (all) => all.length === 6), 5)
      for (let index = 0; index < 12; index++) assert.strictEqual((yield* endsOf(w, shardId(index))).length, 1)
      for (const open of ids(12, 13)) assert.strictEqual((yield* startsOf(w, open)).length, 1)
      assert.deepStrictEqual(yield* eventsOf(m, "Retrying"), [])
      assert.isTrue((yield* m.service.health).healthy)
    }))

  it.scoped("a restart between the end that was read and the end that is written, and one after it", () =>
    Effect.gen(function*() {
      const w = yield* oneShard(10)
      const first = yield* faulty(w, { memberId: "m1" })
      yield* first.consume()
      yield* until(Effect.map(first.delivered, (all) => all.length === 10))
      yield* pass(1.2)
      const [b] = yield* w.kinesis.split("orders", a)
      yield* w.faults.add({ on: "commitCheckpoints", member: "m1" }, Faults.fail("Unavailable"))
      yield* until(Effect.map(eventsOf(first, "CommitFailed"), (events) => events.length > 0), 5)
      yield* crash(w, first)
      yield* w.kinesis.clearCalls

      const second = yield* faulty(w, { memberId: "m1b" })
      yield* second.consume()
      yield* until(isEnded(w, a), 20)
      assert.deepStrictEqual(yield* startsOf(w, a), Option.toArray(yield* after(w, a, 10)))
      assert.deepStrictEqual(datas(yield* second.delivered), [])
      yield* second.close

      yield* w.kinesis.clearCalls
      yield* putTo(w, "orders", b.shardId, names("b", 1, 3))
      const third = yield* faulty(w, { memberId: "m1c" })
      yield* third.consume()
      yield* until(Effect.map(third.delivered, (all) => all.length === 3))
      yield* pass(3)
      assert.deepStrictEqual(yield* startsOf(w, a), [])
    }))
})
