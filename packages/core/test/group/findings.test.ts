/**
 * The two findings that this project exists to get right: a checkpoint lookup that fails must not start workers, and a
 * full buffer must not keep anything from starting, changing or closing.
 */
import { assert, describe, it } from "@effect/vitest"
import { Position, StateStoreError } from "@kinesumer/core"
import type { StateStore } from "@kinesumer/core"
import { Cause, Chunk, Deferred, Effect, Exit, Fiber, Option, Ref, Stream, TestClock } from "effect"
import { datas, member, names, pass, putTo, row, shardId, until, type World, world } from "./support.js"

type Store = StateStore.StateStore["Type"]
type Step = "listMembers" | "listShardVersions" | "getShards" | "listCheckpoints" | "acquireLeases"

const steps: ReadonlyArray<Step> = ["listMembers", "listShardVersions", "getShards", "listCheckpoints", "acquireLeases"]

/** Known by its words: a span on the way may wrap the object. */
const theError = new StateStoreError.StateStoreError({
  reason: "AccessDenied",
  operation: "any",
  detail: "the sentinel"
})

const assertTheError = <A, E>(exit: Exit.Exit<A, E>) => {
  const error = failureOf(exit)
  assert.instanceOf(error, StateStoreError.StateStoreError)
  assert.strictEqual(error.message, theError.message)
}

const failureOf = <A, E>(exit: Exit.Exit<A, E>): E | undefined =>
  Option.getOrUndefined(Option.flatMap(Exit.causeOption(exit), Cause.failureOption))

/** A store of which one operation does `fault` instead, while it is switched on. */
const faulty = (
  store: Store,
  step: Step,
  fault: Effect.Effect<never, StateStoreError.StateStoreError>
) =>
  Effect.map(Ref.make(false), (on) => {
    const guard = <A>(operation: Step, effect: Effect.Effect<A, StateStoreError.StateStoreError>) =>
      Effect.flatMap(Ref.get(on), (active) => active && operation === step ? fault : effect)
    const wrapped: Store = {
      ...store,
      listMembers: (app) => guard("listMembers", store.listMembers(app)),
      listShardVersions: (app) => guard("listShardVersions", store.listShardVersions(app)),
      getShards: (app, stream) => guard("getShards", store.getShards(app, stream)),
      listCheckpoints: (app, stream) => guard("listCheckpoints", store.listCheckpoints(app, stream)),
      acquireLeases: (app, owner, requests) => guard("acquireLeases", store.acquireLeases(app, owner, requests))
    }
    return { store: wrapped, set: (value: boolean) => Ref.set(on, value) }
  })

const owners = (w: World, stream: string) =>
  Effect.map(w.store.listCheckpoints("app", stream), (rows) => rows.flatMap((one) => Option.toArray(one.owner)))

describe("finding 1: first start, listCheckpoints fails", () => {
  it.scoped("fails with that very error and leaves nothing behind", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders", shards: 2 })
      yield* putTo(w, "orders", shardId(0), names("a", 1, 5))
      const fault = yield* faulty(w.store, "listCheckpoints", Effect.fail(theError))
      yield* fault.set(true)
      const exit = yield* Effect.exit(member(w, {}, { store: fault.store }))
      assertTheError(exit)
      yield* pass(10)
      assert.deepStrictEqual(yield* w.kinesis.callsOf("getShardIterator"), [])
      assert.deepStrictEqual(yield* w.kinesis.callsOf("getRecords"), [])
      assert.deepStrictEqual(yield* owners(w, "orders"), [])
      assert.deepStrictEqual(yield* w.store.listMembers("app"), [])
    }))
})

describe("finding 2: a changed target, and a step of preparing fails", () => {
  const refreshed = (step: Step, end: "fails" | "is interrupted") =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders", shards: 2 })
      yield* w.kinesis.createStream({ name: "payments", shards: 2 })
      const hanging = yield* Deferred.make<void>()
      const fault = yield* faulty(
        w.store,
        step,
        end === "fails"
          ? Effect.fail(theError)
          : Effect.zipRight(Deferred.succeed(hanging, undefined), Effect.never)
      )
      const m = yield* member(w, { commit: { mode: "manual", interval: "1 second" } }, { store: fault.store })
      yield* m.consume()
      yield* putTo(w, "orders", shardId(0), names("a", 1, 3))
      yield* until(Effect.map(m.delivered, (all) => all.length === 3))
      yield* m.service.mark((yield* m.delivered).slice(0, 2))
      const before = yield* m.service.assignment
      yield* w.kinesis.clearCalls
      yield* fault.set(true)
      const refreshing = yield* Effect.fork(m.service.refresh(["orders", "payments"]))
      if (end === "fails") {
        const exit = yield* Fiber.await(refreshing)
        assertTheError(exit)
      } else {
        yield* Deferred.await(hanging)
        yield* Fiber.interrupt(refreshing)
      }
      yield* fault.set(false)
      yield* putTo(w, "orders", shardId(0), names("a", 4, 6))
      yield* putTo(w, "payments", shardId(0), names("p", 1, 3))
      yield* pass(10)
      assert.deepStrictEqual(yield* m.service.assignment, before)
      assert.deepStrictEqual(datas(yield* m.delivered), names("a", 1, 6))
      // Cursors and iterators: the shards went on with those that they had, and no rejected shard was asked for.
      assert.deepStrictEqual(yield* w.kinesis.callsOf("getShardIterator"), [])
      assert.isTrue((yield* w.kinesis.callsOf("getRecords")).every((call) => call.stream === "orders"))
      assert.deepStrictEqual(yield* owners(w, "payments"), [])
      // Marks: what was marked before is committed after.
      const second = (yield* m.delivered)[1]
      assert.deepStrictEqual(
        Option.flatMap(yield* row(w, shardId(0)), (one) => one.position),
        Option.some(Position.afterSequence(second?.sequenceNumber ?? ""))
      )
    })

  for (const step of steps) {
    it.scoped(`${step} fails: the previous assignment goes on`, () => refreshed(step, "fails"))
    it.scoped(`interrupted in ${step}: the previous assignment goes on`, () => refreshed(step, "is interrupted"))
  }

  it.scoped("acquireLeases answers, but for one shard it failed: the others are given back", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders" })
      yield* w.kinesis.createStream({ name: "payments", shards: 3 })
      const store: Store = {
        ...w.store,
        acquireLeases: (app, owner, requests) =>
          Effect.map(
            w.store.acquireLeases(app, owner, requests),
            (results) =>
              results.map((result, index) =>
                requests[index]?.stream === "payments" && index === 1
                  ? { _tag: "Failed" as const, error: theError }
                  : result
              )
          )
      }
      const m = yield* member(w, {}, { store })
      const before = yield* m.service.assignment
      const exit = yield* Effect.exit(m.service.refresh(["orders", "payments"]))
      assertTheError(exit)
      assert.deepStrictEqual(yield* m.service.assignment, before)
      assert.deepStrictEqual(yield* owners(w, "payments"), [])
    }))
})

describe("finding 3: a buffer of 20, more in the first batch, nobody reads", () => {
  const full = Effect.gen(function*() {
    const w = yield* world()
    yield* w.kinesis.createStream({ name: "orders" })
    yield* w.kinesis.createStream({ name: "payments" })
    yield* w.kinesis.createStream({ name: "refunds" })
    yield* putTo(w, "orders", shardId(0), names("a", 1, 50))
    yield* putTo(w, "payments", shardId(0), names("p", 1, 50))
    const m = yield* member(w, { streams: ["orders", "payments"], bufferSize: 20 })
    yield* pass(5)
    return { w, m }
  })

  it.scoped("start-up completes, and at most 20 records are held", () =>
    Effect.gen(function*() {
      const { m, w } = yield* full
      assert.strictEqual((yield* m.service.assignment).length, 2)
      assert.isAtMost((yield* m.service.health).bufferedRecords, 20)
      assert.isAtLeast((yield* m.service.health).bufferedRecords, 20)
      const read = (yield* w.kinesis.callsOf("getRecords")).flatMap((call) => call.sequenceNumbers)
      assert.isAtMost(read.length, 20)
    }))

  it.scoped("an assignment change completes", () =>
    Effect.gen(function*() {
      const { m } = yield* full
      yield* m.service.refresh(["payments", "refunds"])
      assert.deepStrictEqual((yield* m.service.assignment).map(({ stream }) => stream).sort(), ["payments", "refunds"])
    }))

  it.scoped("a member that joins gets its share", () =>
    Effect.gen(function*() {
      const { m, w } = yield* full
      const other = yield* member(w, { memberId: "other", streams: ["orders", "payments"] })
      yield* until(Effect.map(other.service.assignment, (shards) => shards.length === 1), 5)
      assert.strictEqual((yield* m.service.assignment).length, 1)
    }))

  it.scoped("closing completes without a wait, and commits nothing that was not read", () =>
    Effect.gen(function*() {
      const { m, w } = yield* full
      const closing = yield* Effect.fork(m.close)
      yield* TestClock.adjust("1 millis")
      assert.isTrue(Option.isSome(yield* Fiber.poll(closing)))
      const rows = [
        ...(yield* w.store.listCheckpoints("app", "orders")),
        ...(yield* w.store.listCheckpoints("app", "payments"))
      ]
      assert.isTrue(rows.every((one) => Option.isNone(one.position) && Option.isNone(one.owner)))
    }))
})

describe("finding 4: a shard is interrupted in the middle of a batch", () => {
  it.scoped("and resumed by the same member: the undelivered tail comes, in order, nothing twice", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders" })
      yield* w.kinesis.createStream({ name: "payments" })
      yield* putTo(w, "orders", shardId(0), names("a", 1, 50))
      const m = yield* member(w, { bufferSize: 20 })
      // Whole slices are taken and marked, the rest of the batch waits in the buffer or is still to be read.
      const first = yield* Ref.make<ReadonlyArray<string>>([])
      const gate = yield* Deferred.make<void>()
      const reading = yield* Effect.fork(Stream.runForEachChunk(m.service.records, (chunk) =>
        Effect.zipRight(
          Ref.update(first, (all) => [...all, ...datas(Chunk.toReadonlyArray(chunk))]),
          Effect.flatMap(Ref.get(first), (all) => all.length > 20 ? Deferred.await(gate) : Effect.void)
        )))
      yield* until(Effect.map(Ref.get(first), (all) => all.length > 20))
      // The stream is given up with its batch half delivered, and taken up again.
      yield* Effect.fork(m.service.refresh(["payments"]))
      yield* pass(0.4)
      const delivered = yield* Ref.get(first)
      yield* Deferred.succeed(gate, undefined)
      yield* pass(2)
      const committed = yield* row(w, shardId(0))
      const known = yield* w.kinesis.records("orders", shardId(0))
      const last = known[delivered.length - 1]
      assert.deepStrictEqual(
        Option.flatMap(committed, (one) => one.position),
        Option.some(Position.afterSequence(last?.sequenceNumber ?? ""))
      )
      yield* m.service.refresh(["payments", "orders"])
      yield* until(Effect.map(Ref.get(first), (all) => all.length >= 50))
      assert.deepStrictEqual(yield* Ref.get(first), names("a", 1, 50))
      yield* Fiber.interrupt(reading)
    }))

  it.scoped("a commit in between never covers the tail", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders" })
      yield* putTo(w, "orders", shardId(0), names("a", 1, 50))
      const m = yield* member(w, { bufferSize: 20 })
      const taking = yield* Effect.fork(Stream.runCollect(Stream.take(m.service.records, 7)))
      yield* pass(2)
      const taken = yield* Fiber.join(taking)
      yield* m.service.commit
      assert.deepStrictEqual(datas(Chunk.toReadonlyArray(taken)), names("a", 1, 7))
      // Room for 20 is granted by quarters: the first slice of 5 was done when the second was asked for, no more.
      const fifth = (yield* w.kinesis.records("orders", shardId(0)))[4]
      assert.deepStrictEqual(
        Option.flatMap(yield* row(w, shardId(0)), (one) => one.position),
        Option.some(Position.afterSequence(fifth?.sequenceNumber ?? ""))
      )
      // What was taken without coming back for more is delivered again, and then everything else.
      yield* m.consume()
      yield* until(Effect.map(m.delivered, (all) => all.length === 45))
      assert.deepStrictEqual(datas(yield* m.delivered), names("a", 6, 50))
    }))
})

describe("controls", () => {
  it.scoped("an unchanged assignment touches nothing and costs two reads a sync", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders", shards: 3 })
      const calls = yield* Ref.make<ReadonlyArray<string>>([])
      const noted = <A, E>(name: string, effect: Effect.Effect<A, E>) =>
        Effect.zipRight(Ref.update(calls, (all) => [...all, name]), effect)
      const store: Store = {
        registerMember: (...args) => noted("registerMember", w.store.registerMember(...args)),
        heartbeat: (...args) => noted("heartbeat", w.store.heartbeat(...args)),
        deregisterMember: (...args) => noted("deregisterMember", w.store.deregisterMember(...args)),
        listMembers: (...args) => noted("listMembers", w.store.listMembers(...args)),
        pruneMembers: (...args) => noted("pruneMembers", w.store.pruneMembers(...args)),
        listShardVersions: (...args) => noted("listShardVersions", w.store.listShardVersions(...args)),
        getShards: (...args) => noted("getShards", w.store.getShards(...args)),
        updateShards: (...args) => noted("updateShards", w.store.updateShards(...args)),
        listCheckpoints: (...args) => noted("listCheckpoints", w.store.listCheckpoints(...args)),
        acquireLeases: (...args) => noted("acquireLeases", w.store.acquireLeases(...args)),
        releaseLeases: (...args) => noted("releaseLeases", w.store.releaseLeases(...args)),
        commitCheckpoints: (...args) => noted("commitCheckpoints", w.store.commitCheckpoints(...args)),
        removeCheckpoints: (...args) => noted("removeCheckpoints", w.store.removeCheckpoints(...args))
      }
      const m = yield* member(w, { syncInterval: "2 seconds" }, { store })
      yield* m.consume()
      yield* pass(5)
      yield* Ref.set(calls, [])
      yield* w.kinesis.clearCalls
      yield* pass(60)
      const counts = (yield* Ref.get(calls)).reduce<Record<string, number>>(
        (all, name) => ({ ...all, [name]: (all[name] ?? 0) + 1 }),
        {}
      )
      const { getShards = 0, heartbeat, listMembers, listShardVersions, ...others } = counts
      assert.deepStrictEqual(others, {})
      assert.deepStrictEqual([listMembers, listShardVersions, heartbeat], [30, 30, 30])
      // The leader's refresh of the list reads it, as rarely as it lists.
      assert.isAtMost(getShards, 2 * 6)
      assert.deepStrictEqual(yield* w.kinesis.callsOf("getShardIterator"), [])
      assert.isAtMost((yield* w.kinesis.callsOf("listShards")).length, 6)
    }))

  it.scoped("manual marks of received records are committed", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders" })
      yield* putTo(w, "orders", shardId(0), names("a", 1, 5))
      const m = yield* member(w, { commit: { mode: "manual" } })
      yield* m.consume((record) => Effect.orDie(m.service.mark(record)))
      yield* until(Effect.map(m.delivered, (all) => all.length === 5))
      yield* m.service.commit
      const last = (yield* m.delivered).at(-1)
      assert.deepStrictEqual(
        Option.flatMap(yield* row(w, shardId(0)), (one) => one.position),
        Option.some(Position.afterSequence(last?.sequenceNumber ?? ""))
      )
    }))

  it.scoped("a successful change of streams starts the new ones and leaves the kept ones alone", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders" })
      yield* w.kinesis.createStream({ name: "payments" })
      const m = yield* member(w)
      yield* m.consume()
      yield* putTo(w, "orders", shardId(0), names("a", 1, 3))
      yield* until(Effect.map(m.delivered, (all) => all.length === 3))
      yield* w.kinesis.clearCalls
      yield* m.service.refresh(["orders", "payments"])
      yield* putTo(w, "orders", shardId(0), names("a", 4, 6))
      yield* putTo(w, "payments", shardId(0), names("p", 1, 3))
      yield* until(Effect.map(m.delivered, (all) => all.length === 9))
      assert.deepStrictEqual(yield* w.kinesis.callsOf("getShardIterator", { stream: "orders" }), [])
    }))
})
