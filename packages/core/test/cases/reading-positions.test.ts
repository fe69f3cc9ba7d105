/** Where reading starts and goes on: positions that must be concrete, that age, or that belong to something else. */
import { assert, describe, it } from "@effect/vitest"
import { Position, type StateStore } from "@kinesumer/core"
import { Faults } from "@kinesumer/test-kit"
import { DateTime, Deferred, Effect, Exit, Option, TestClock } from "effect"
import { datas, member, names, pass, putTo, row, shardId, until, type World, world } from "../group/support.js"
import { faulty, faultyWorld, slow } from "./reading-support.js"

const count = (all: Effect.Effect<ReadonlyArray<unknown>>, expected: number) =>
  Effect.map(all, ({ length }) => length === expected)

describe("latest-resolved-twice", () => {
  const latest = { startFrom: "Latest" } as const

  for (const clockSkew of ["0 millis", "2 minutes"] as const) {
    it.scoped(`what is put before the first commit is not lost, Kinesis's clock ahead by ${clockSkew}`, () =>
      Effect.gen(function*() {
        const w = yield* world({ clockSkew })
        yield* w.kinesis.createStream({ name: "orders" })
        yield* putTo(w, "orders", shardId(0), names("r", 1, 3))
        yield* TestClock.adjust("5 seconds")
        const first = yield* member(w, { ...latest, memberId: "a" })
        yield* first.consume()
        yield* pass(2)
        yield* first.close
        yield* putTo(w, "orders", shardId(0), names("r", 4, 5))
        const second = yield* member(w, { ...latest, memberId: "b" })
        yield* second.consume()
        yield* until(count(second.delivered, 2))
        assert.deepStrictEqual(datas(yield* second.delivered), names("r", 4, 5))
        assert.deepStrictEqual(yield* first.delivered, [])
        // Every iterator is made from something concrete.
        const positions = (yield* w.kinesis.callsOf("getShardIterator")).map(({ position }) => position._tag)
        assert.isTrue(positions.every((tag) => tag === "AtTimestamp"))
      }))
  }

  it.scoped("the iterator expires before the first record was seen", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders" })
      yield* putTo(w, "orders", shardId(0), names("r", 1, 3))
      yield* TestClock.adjust("5 seconds")
      const m = yield* member(w, latest)
      yield* m.consume()
      yield* pass(2)
      yield* m.service.pause("orders")
      yield* putTo(w, "orders", shardId(0), names("r", 4, 5))
      yield* w.kinesis.expireIterators
      yield* m.service.resume("orders")
      yield* until(count(m.delivered, 2))
      assert.deepStrictEqual(datas(yield* m.delivered), names("r", 4, 5))
    }))

  it.scoped("GetShardIterator fails twice first", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* w.kinesis.createStream({ name: "orders" })
      yield* putTo(w, "orders", shardId(0), names("r", 1, 3))
      yield* TestClock.adjust("5 seconds")
      yield* w.faults.add({ on: "getShardIterator", times: 2 }, Faults.fail("Unavailable"))
      const m = yield* faulty(w, latest)
      yield* putTo(w, "orders", shardId(0), names("r", 4, 5))
      yield* m.consume()
      yield* until(count(m.delivered, 2))
      assert.deepStrictEqual(datas(yield* m.delivered), names("r", 4, 5))
    }))
})

describe("timestamp-start-meets-new-child", () => {
  const split = (startFrom: "Latest" | { readonly timestamp: DateTime.Utc }) =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders" })
      yield* TestClock.adjust("10 seconds")
      const m = yield* member(w, { startFrom })
      yield* m.consume()
      yield* putTo(w, "orders", shardId(0), names("a", 1, 3))
      yield* until(count(m.delivered, 3))
      const [left, right] = yield* w.kinesis.split("orders", shardId(0))
      yield* putTo(w, "orders", left.shardId, names("b", 1, 3))
      yield* putTo(w, "orders", right.shardId, names("c", 1, 3))
      yield* until(count(m.delivered, 9))
      assert.deepStrictEqual(datas(yield* m.delivered).filter((name) => name.startsWith("b")), names("b", 1, 3))
      assert.deepStrictEqual(datas(yield* m.delivered).filter((name) => name.startsWith("c")), names("c", 1, 3))
    })

  it.scoped("Latest: the children are read from their first record", () => split("Latest"))
  it.scoped("a moment before: the children are read from their first record", () =>
    split({ timestamp: DateTime.unsafeMake(5_000) }))

  it.scoped("a moment in the life of a child: its parent is drained, it is read from there", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders" })
      yield* putTo(w, "orders", shardId(0), names("a", 1, 3))
      const [left] = yield* w.kinesis.split("orders", shardId(0))
      yield* putTo(w, "orders", left.shardId, names("b", 1, 3))
      yield* TestClock.adjust("10 seconds")
      yield* putTo(w, "orders", left.shardId, names("b", 4, 6))
      yield* TestClock.adjust("1 seconds")
      const m = yield* member(w, { startFrom: { timestamp: DateTime.unsafeMake(5_000) } })
      yield* m.consume()
      yield* until(count(m.delivered, 3))
      yield* pass(3)
      assert.deepStrictEqual(datas(yield* m.delivered), names("b", 4, 6))
    }))

  it.scoped("a moment that is still to come is waited for", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders" })
      const m = yield* member(w, { ...slow, startFrom: { timestamp: DateTime.unsafeMake(60_000) } })
      yield* m.consume()
      yield* putTo(w, "orders", shardId(0), names("a", 1, 3))
      yield* Effect.repeatN(TestClock.adjust("20 seconds"), 3)
      yield* putTo(w, "orders", shardId(0), names("a", 4, 6))
      yield* Effect.repeatN(TestClock.adjust("20 seconds"), 3)
      assert.deepStrictEqual(datas(yield* m.delivered), names("a", 4, 6))
      assert.isFalse((yield* m.events).some(({ _tag }) => _tag === "RecordsLost"))
    }))
})

describe("quiet-longer-than-retention", () => {
  const quiet = {
    ...slow,
    syncInterval: "1 hours",
    livenessTimeout: "6 hours",
    commit: { interval: "1 hours" },
    polling: { idleInterval: "1 hours" }
  } as const

  for (const trimmedPosition of ["horizon", "refuse"] as const) {
    it.scoped(`a restart after the position has left the stream (${trimmedPosition}) delivers what comes, once`, () =>
      Effect.gen(function*() {
        const w = yield* world({ trimmedPosition })
        yield* w.kinesis.createStream({ name: "orders", retention: "24 hours" })
        yield* putTo(w, "orders", shardId(0), ["a1"])
        const first = yield* member(w, { startFrom: "TrimHorizon" })
        yield* first.consume()
        yield* until(count(first.delivered, 1))
        yield* pass(2)
        yield* first.close
        yield* TestClock.adjust("30 hours")
        yield* w.kinesis.clearCalls
        const second = yield* member(w, { startFrom: "Latest" })
        yield* second.consume()
        yield* pass(2)
        yield* putTo(w, "orders", shardId(0), ["a2"])
        yield* until(count(second.delivered, 1))
        yield* pass(5)
        assert.deepStrictEqual(datas(yield* second.delivered), ["a2"])
        const asked = (yield* w.kinesis.callsOf("getShardIterator")).map(({ position }) => position._tag)
        assert.deepStrictEqual(
          asked,
          trimmedPosition === "refuse" ? ["AfterSequence", "TrimHorizon"] : ["AfterSequence"]
        )
        const lost = (yield* second.events).filter(({ _tag }) => _tag === "RecordsLost")
        assert.isAtMost(lost.length, trimmedPosition === "refuse" ? 1 : 0)
      }))
  }

  it.scoped("one process all the time", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders", retention: "24 hours" })
      const m = yield* member(w, quiet)
      yield* m.consume()
      yield* putTo(w, "orders", shardId(0), ["a1"])
      yield* Effect.repeatN(TestClock.adjust("1 hours"), 30)
      yield* putTo(w, "orders", shardId(0), ["a2"])
      yield* Effect.repeatN(TestClock.adjust("1 hours"), 2)
      assert.deepStrictEqual(datas(yield* m.delivered), ["a1", "a2"])
    }))
})

describe("same-name-new-stream", () => {
  for (const overlap of [false, true]) {
    it.scoped(`made again while the group is stopped, numbers ${overlap ? "that overlap" : "that are refused"}`, () =>
      Effect.gen(function*() {
        const w = yield* world()
        const create = w.kinesis.createStream({
          name: "orders",
          shards: 2,
          ...(overlap ? { firstSequenceNumber: "1000" } : {})
        })
        yield* create
        yield* putTo(w, "orders", shardId(0), names("old", 1, 30))
        const first = yield* member(w)
        yield* first.consume()
        yield* until(count(first.delivered, 30))
        yield* pass(2)
        yield* first.close
        yield* w.kinesis.deleteStream("orders")
        yield* TestClock.adjust("5 seconds")
        yield* create
        yield* putTo(w, "orders", shardId(0), names("a", 1, 10))
        yield* putTo(w, "orders", shardId(1), names("b", 1, 10))
        const second = yield* member(w)
        yield* second.consume()
        yield* until(count(second.delivered, 20))
        assert.deepStrictEqual(
          new Set(datas(yield* second.delivered)),
          new Set([...names("a", 1, 10), ...names("b", 1, 10)])
        )
        yield* pass(2)
        // The old rows prove nothing, and are not touched.
        assert.isTrue((yield* w.store.listCheckpoints("app", "orders")).every(({ owner }) => Option.isNone(owner)))
      }))
  }

  it.scoped("made again while the group runs: the other stream goes on, one event tells it", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders" })
      yield* w.kinesis.createStream({ name: "payments" })
      const m = yield* member(w, { streams: ["orders", "payments"] })
      yield* m.consume()
      yield* putTo(w, "orders", shardId(0), names("old", 1, 3))
      yield* until(count(m.delivered, 3))
      yield* w.kinesis.deleteStream("orders")
      yield* pass(3)
      yield* putTo(w, "payments", shardId(0), names("p", 1, 3))
      yield* until(count(m.delivered, 6), 5)
      yield* w.kinesis.createStream({ name: "orders" })
      yield* putTo(w, "orders", shardId(0), names("a", 1, 3))
      yield* until(count(m.delivered, 9), 90)
      assert.deepStrictEqual(datas(yield* m.delivered).slice(6), names("a", 1, 3))
      assert.strictEqual((yield* m.events).filter(({ _tag }) => _tag === "StreamRecreated").length, 1)
    }))
})

describe("checkpoint-without-sub-sequence", () => {
  it.scoped("a row without one is a whole record that is done; one with it begins at its record", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders", shards: 2 })
      const whole = yield* putTo(w, "orders", shardId(0), names("a", 1, 3))
      const parts = yield* putTo(w, "orders", shardId(1), names("b", 1, 3))
      const old = { memberId: "old", incarnation: "1" }
      const requests = [0, 1].map((index) => ({
        stream: "orders",
        shardId: shardId(index),
        takeFrom: Option.none<StateStore.Owner & Pick<StateStore.Checkpoint, "epoch">>(),
        epochAbove: 0
      }))
      yield* w.store.acquireLeases("app", old, requests)
      const after = (puts: typeof whole, subSequenceNumber?: number) =>
        Position.afterSequence(puts[1]?.sequenceNumber ?? "", subSequenceNumber)
      yield* w.store.commitCheckpoints("app", old, [
        { stream: "orders", shardId: shardId(0), epoch: 1, position: after(whole) },
        { stream: "orders", shardId: shardId(1), epoch: 1, position: after(parts, 2) }
      ])
      yield* w.store.releaseLeases(
        "app",
        old,
        [0, 1].map((index) => ({ stream: "orders", shardId: shardId(index), epoch: 1 }))
      )
      const m = yield* member(w)
      yield* m.consume()
      yield* until(count(m.delivered, 3))
      assert.deepStrictEqual(new Set(datas(yield* m.delivered)), new Set(["a3", "b2", "b3"]))
    }))
})

describe("mark-after-empty-pages", () => {
  it.scoped("the last record is marked minutes after it was delivered: the mark is committed", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders" })
      yield* putTo(w, "orders", shardId(0), names("a", 1, 3))
      const m = yield* member(w, { ...slow, commit: { mode: "manual", interval: "10 seconds" } })
      yield* m.consume()
      yield* until(count(m.delivered, 3))
      yield* Effect.repeatN(TestClock.adjust("30 seconds"), 9)
      yield* m.service.mark(yield* m.delivered)
      yield* TestClock.adjust("20 seconds")
      const last = (yield* m.delivered).at(-1)
      assert.deepStrictEqual(
        Option.flatMap(yield* row(w, shardId(0)), ({ position }) => position),
        Option.some(Position.afterSequence(last?.sequenceNumber ?? ""))
      )
    }))
})

describe("acknowledged-out-of-order", () => {
  it.scoped("the position stays before the record that was rejected", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders" })
      yield* putTo(w, "orders", shardId(0), names("a", 1, 6))
      const m = yield* member(w, { commit: { mode: "manual" } })
      yield* m.consume()
      yield* until(count(m.delivered, 6))
      const all = yield* m.delivered
      for (const index of [5, 0, 3, 1]) yield* m.service.mark(all[index] ?? [])
      yield* m.service.commit
      assert.deepStrictEqual(
        Option.flatMap(yield* row(w, shardId(0)), ({ position }) => position),
        Option.some(Position.afterSequence(all[1]?.sequenceNumber ?? ""))
      )
      yield* m.service.mark(all)
      yield* m.service.commit
      assert.deepStrictEqual(
        Option.flatMap(yield* row(w, shardId(0)), ({ position }) => position),
        Option.some(Position.afterSequence(all[5]?.sequenceNumber ?? ""))
      )
    }))
})

describe("closed-right-after-start", () => {
  const steps = [
    "registerMember",
    "listMembers",
    "listShardVersions",
    "getShards",
    "updateShards",
    "listCheckpoints",
    "acquireLeases"
  ] as const

  for (const step of steps) {
    it.scoped(`interrupted in ${step}: it ends, and leaves nothing behind`, () =>
      Effect.gen(function*() {
        const w = yield* world()
        yield* w.kinesis.createStream({ name: "orders" })
        const reached = yield* Deferred.make<void>()
        const hang = <A, E>(operation: string, effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
          operation === step ? Effect.zipRight(Deferred.succeed(reached, undefined), Effect.never) : effect
        const store: World["store"] = {
          ...w.store,
          registerMember: (...args) => hang("registerMember", w.store.registerMember(...args)),
          listMembers: (...args) => hang("listMembers", w.store.listMembers(...args)),
          listShardVersions: (...args) => hang("listShardVersions", w.store.listShardVersions(...args)),
          getShards: (...args) => hang("getShards", w.store.getShards(...args)),
          updateShards: (...args) => hang("updateShards", w.store.updateShards(...args)),
          listCheckpoints: (...args) => hang("listCheckpoints", w.store.listCheckpoints(...args)),
          acquireLeases: (...args) => hang("acquireLeases", w.store.acquireLeases(...args))
        }
        const starting = yield* Effect.fork(Effect.scoped(member(w, { closeTimeout: "5 seconds" }, { store })))
        yield* Deferred.await(reached)
        const interrupting = yield* Effect.fork(
          starting.interruptAsFork(starting.id()).pipe(Effect.zipRight(starting.await))
        )
        yield* Effect.repeatN(TestClock.adjust("1 seconds"), 6)
        const exit = yield* interrupting.await.pipe(Effect.flatten)
        assert.isTrue(Exit.isInterrupted(exit))
        assert.deepStrictEqual(yield* w.store.listMembers("app"), [])
        assert.isTrue((yield* w.store.listCheckpoints("app", "orders")).every(({ owner }) => Option.isNone(owner)))
      }))
  }
})
