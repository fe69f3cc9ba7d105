/** A member's own life in the group: its row, its id, and what it does while it can't reach the store. */
import { assert, describe, it } from "@effect/vitest"
import { Position, StateStoreError } from "@kinesumer/core"
import { Faults } from "@kinesumer/test-kit"
import { Effect, Exit, Fiber, Option, TestClock } from "effect"
import { after, eventsOf, faulty, faultyWorld, ids, leases, rowsOf, shardsOf } from "../cases/leases-support.js"
import { datas, names, pass, putTo, row, shardId, until } from "./support.js"

describe("a member whose row vanished", () => {
  it.scoped("registers again, and delivers nothing until the new row was seen", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      const a = yield* faulty(w, "a")
      yield* a.consume()
      yield* pass(1)
      const [own] = yield* w.store.listMembers("app")
      // Syncs stand still, so that the new row is not seen yet.
      const syncs = yield* w.faults.add({ on: "listShardVersions" }, Faults.hold)
      if (own !== undefined) yield* w.store.deregisterMember("app", own)
      yield* until(Effect.map(eventsOf(a, "DeliverySuspended"), (all) => all.length === 1), 4)
      yield* putTo(w, "orders", shardId(0), names("a", 1, 3))
      yield* pass(2)
      assert.deepStrictEqual(datas(yield* a.delivered), [])
      assert.isFalse((yield* a.service.health).delivering)
      yield* syncs.heal
      yield* until(Effect.map(a.delivered, (all) => all.length === 3), 4)
      assert.deepStrictEqual((yield* w.store.listMembers("app")).map(({ incarnation }) => incarnation), [
        own?.incarnation ?? ""
      ])
      assert.deepStrictEqual(
        (yield* a.events).map(({ _tag }) => _tag).filter((tag) => tag !== "HeartbeatFailed" && tag !== "SyncFailed"),
        ["DeliverySuspended", "MemberRegisteredAgain", "LeaseRestored", "AssignmentChanged", "DeliveryResumed"]
      )
      assert.deepStrictEqual(yield* leases(w), [[shardId(0), "a", 2]])
    }))
})

describe("a restart under the same id", () => {
  it.scoped("takes over at once, under a new epoch; the older start ends and does not come back", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld(2)
      const older = yield* faulty(w, "a")
      const reading = yield* older.consume()
      yield* putTo(w, "orders", shardId(0), names("a", 1, 3))
      yield* until(Effect.map(older.delivered, (all) => all.length === 3))
      yield* pass(2)
      const newer = yield* faulty(w, "a")
      assert.deepStrictEqual((yield* newer.service.assignment).map(({ epoch }) => epoch), [2, 2])
      yield* newer.consume()
      yield* putTo(w, "orders", shardId(0), names("a", 4, 6))
      const exit = yield* Fiber.await(reading).pipe(
        Effect.zipLeft(Effect.void),
        Effect.fork,
        Effect.flatMap((fiber) => Effect.zipRight(pass(3), Fiber.join(fiber)))
      )
      assert.instanceOf(
        Option.getOrUndefined(
          Exit.causeOption(exit).pipe(
            Option.flatMap((cause) => cause._tag === "Fail" ? Option.some(cause.error) : Option.none())
          )
        ),
        StateStoreError.MemberReplaced
      )
      yield* pass(8)
      assert.deepStrictEqual(datas(yield* newer.delivered), names("a", 4, 6))
      assert.isTrue((yield* newer.service.health).healthy)
      assert.isTrue(Option.isSome((yield* older.service.health).failure))
      assert.deepStrictEqual(yield* eventsOf(newer, "HeartbeatFailed"), [])
      assert.deepStrictEqual(yield* eventsOf(older, "MemberRegisteredAgain"), [])
      assert.deepStrictEqual(yield* leases(w), [[shardId(0), "a", 2], [shardId(1), "a", 2]])
      assert.deepStrictEqual(yield* shardsOf(older), [])
    }))
})

describe("a member that can't reach the store", () => {
  for (const how of ["fail", "hold"] as const) {
    it.scoped(`delivers nothing after the liveness timeout, and goes on when its leases are verified (${how})`, () =>
      Effect.gen(function*() {
        const w = yield* faultyWorld()
        const a = yield* faulty(w, "a")
        yield* a.consume()
        yield* pass(1)
        const partition = yield* w.faults.partition("a", how)
        yield* putTo(w, "orders", shardId(0), names("a", 1, 3))
        yield* pass(3)
        // Shorter than the timeout: it goes on.
        assert.deepStrictEqual(datas(yield* a.delivered), names("a", 1, 3))
        yield* pass(4)
        yield* putTo(w, "orders", shardId(0), names("a", 4, 6))
        yield* pass(3)
        assert.deepStrictEqual(datas(yield* a.delivered), names("a", 1, 3))
        assert.strictEqual((yield* eventsOf(a, "DeliverySuspended")).length, 1)
        yield* partition.heal
        yield* until(Effect.map(a.delivered, (all) => all.length === 6), 5)
        assert.deepStrictEqual(datas(yield* a.delivered), names("a", 1, 6))
        yield* pass(2)
        assert.deepStrictEqual(
          Option.flatMap(yield* row(w, shardId(0)), ({ position }) => position),
          yield* after(w, shardId(0), 6)
        )
        // Nobody has taken it, but somebody could have; so it goes on under a later epoch.
        assert.deepStrictEqual(yield* leases(w), [[shardId(0), "a", 2]])
        assert.deepStrictEqual(yield* eventsOf(a, "LeaseLost"), [])
      }))
  }

  it.scoped("does not go on with a shard that was taken meanwhile", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      const a = yield* faulty(w, "a")
      yield* a.consume()
      yield* pass(1)
      yield* w.faults.partition("a")
      yield* putTo(w, "orders", shardId(0), names("a", 1, 3))
      yield* pass(2)
      const b = yield* faulty(w, "b")
      yield* b.consume()
      yield* until(Effect.map(b.delivered, (all) => all.length === 3), 12)
      yield* putTo(w, "orders", shardId(0), names("a", 4, 6))
      yield* pass(2)
      yield* w.faults.healAll
      yield* pass(4)
      assert.deepStrictEqual(datas(yield* a.delivered), names("a", 1, 3))
      assert.deepStrictEqual(datas(yield* b.delivered), names("a", 1, 6))
      assert.deepStrictEqual(yield* leases(w), [[shardId(0), "b", 2]])
      assert.deepStrictEqual((yield* eventsOf(a, "LeaseLost")).map(({ epoch }) => epoch), [1])
      assert.isTrue((yield* a.service.health).delivering)
    }))
})

describe("an answer that was lost", () => {
  it.scoped("of acquireLeases: the shards are run all the same, by one member", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld(2)
      const a = yield* faulty(w, "a")
      yield* a.consume()
      yield* w.faults.add({ on: "acquireLeases", member: "b", times: 2 }, Faults.dropAnswer())
      const b = yield* Effect.fork(faulty(w, "b"))
      yield* pass(4)
      const joined = yield* Fiber.join(b)
      yield* joined.consume()
      yield* until(Effect.map(joined.service.assignment, (shards) => shards.length === 1), 5)
      for (const index of [0, 1]) yield* putTo(w, "orders", shardId(index), names(`${index}-`, 1, 3))
      yield* pass(3)
      const all = datas([...(yield* a.delivered), ...(yield* joined.delivered)])
      assert.deepStrictEqual([...all].sort(), [...names("0-", 1, 3), ...names("1-", 1, 3)])
      assert.deepStrictEqual([...(yield* shardsOf(a)), ...(yield* shardsOf(joined))].sort(), ids(0, 1))
      assert.deepStrictEqual((yield* leases(w)).map(([, owner]) => owner).sort(), ["a", "b"])
    }))

  it.scoped("of a commit: nothing is repeated, and the position is the right one", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      const a = yield* faulty(w, "a")
      yield* a.consume()
      yield* w.faults.add({ on: "commitCheckpoints", times: 2 }, Faults.dropAnswer())
      yield* putTo(w, "orders", shardId(0), names("a", 1, 3))
      yield* pass(5)
      assert.strictEqual((yield* eventsOf(a, "CommitFailed")).length, 2)
      assert.deepStrictEqual(datas(yield* a.delivered), names("a", 1, 3))
      assert.deepStrictEqual((yield* a.service.health).shards.map(({ committed }) => Option.some(committed)), [
        yield* after(w, shardId(0), 3)
      ])
      assert.deepStrictEqual(yield* leases(w), [[shardId(0), "a", 1]])
    }))

  it.scoped("of heartbeats, for less than the liveness timeout: nothing stops", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      const a = yield* faulty(w, "a")
      const b = yield* faulty(w, "b")
      yield* a.consume()
      yield* w.faults.add({ on: "heartbeat", member: "a", times: 6 }, Faults.dropAnswer())
      yield* putTo(w, "orders", shardId(0), names("a", 1, 3))
      yield* pass(10)
      assert.deepStrictEqual(yield* eventsOf(a, "DeliverySuspended"), [])
      assert.deepStrictEqual(datas(yield* a.delivered), names("a", 1, 3))
      assert.deepStrictEqual(yield* leases(w), [[shardId(0), "a", 1]])
      assert.deepStrictEqual(yield* shardsOf(b), [])
    }))

  it.scoped("of a release: the shard has one owner, soon", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld(2)
      const a = yield* faulty(w, "a")
      yield* w.faults.add({ on: "releaseLeases", member: "a" }, Faults.dropAnswer())
      const b = yield* faulty(w, "b")
      yield* until(Effect.map(b.service.assignment, (shards) => shards.length === 1), 5)
      yield* pass(3)
      assert.strictEqual((yield* shardsOf(a)).length, 1)
      assert.deepStrictEqual((yield* leases(w)).map(([, , epoch]) => epoch).sort(), [1, 2])
      yield* b.close
      yield* a.close
      assert.isTrue((yield* rowsOf(w)).every(({ owner }) => Option.isNone(owner)))
    }))

  it.scoped("of updateShards, at the start and after a split: the children are read", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* w.faults.add({ on: "updateShards", times: 1 }, Faults.dropAnswer())
      const starting = yield* Effect.fork(faulty(w, "a"))
      yield* pass(2)
      const a = yield* Fiber.join(starting)
      yield* a.consume()
      yield* w.faults.add({ on: "updateShards", times: 2 }, Faults.dropAnswer())
      yield* w.kinesis.split("orders", shardId(0))
      for (const index of [1, 2]) yield* putTo(w, "orders", shardId(index), names(`${index}-`, 1, 2))
      yield* until(Effect.map(a.delivered, (all) => all.length === 4), 15)
      yield* TestClock.adjust("2 seconds")
      assert.isTrue(
        Option.exists(yield* row(w, shardId(0)), ({ position }) => Option.exists(position, Position.is("ShardEnd")))
      )
      assert.deepStrictEqual(yield* shardsOf(a), ids(1, 2))
    }))
})

describe("a call to the store that is never answered", () => {
  it.scoped("to give a lease back: it is asked again, and the next owner reads on", () =>
    Effect.gen(function*() {
      for (const hang of [Faults.hang, Faults.hangAfter]) {
        const w = yield* faultyWorld(2)
        const a = yield* faulty(w, "a")
        yield* w.faults.add({ on: "releaseLeases", member: "a", nth: 1 }, hang)
        const b = yield* faulty(w, "b")
        yield* b.consume()
        yield* until(Effect.map(b.service.assignment, (shards) => shards.length === 1), 40)
        for (const index of [0, 1]) yield* putTo(w, "orders", shardId(index), names(`${index}-`, 1, 2))
        yield* until(Effect.map(b.delivered, (all) => all.length === 2), 5)
        assert.strictEqual((yield* shardsOf(a)).length, 1)
        yield* b.close
        yield* a.close
      }
    }))

  it.scoped("to tell of a shard's end: it is told again, and both members read a child", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      const a = yield* faulty(w, "a")
      yield* a.consume()
      yield* pass(2)
      const b = yield* faulty(w, "b")
      yield* b.consume()
      yield* pass(2)
      yield* w.faults.add({ on: "updateShards", nth: 1 }, Faults.hang)
      yield* w.kinesis.split("orders", shardId(0))
      for (const index of [1, 2]) yield* putTo(w, "orders", shardId(index), names(`${index}-`, 1, 2))
      // A refresh finds the children meanwhile, but not that this shard has ended.
      yield* until(Effect.map(eventsOf(a, "SyncFailed"), (all) => all.length === 1), 30)
      assert.deepStrictEqual((yield* eventsOf(a, "SyncFailed")).map(({ error }) => error.message), [
        "noteEnd: Timeout: not done within 24s (four times livenessTimeout)"
      ])
      yield* until(Effect.zipWith(a.delivered, b.delivered, (ofA, ofB) => ofA.length + ofB.length === 4), 5)
      assert.strictEqual((yield* shardsOf(a)).length, 1)
      assert.strictEqual((yield* shardsOf(b)).length, 1)
    }))

  it.scoped("to load a shard list: refresh fails in the end, and changes nothing", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* w.kinesis.createStream({ name: "payments" })
      const a = yield* faulty(w, "a")
      yield* a.consume()
      yield* pass(2)
      yield* w.faults.add({ on: "getShards", nth: 1 }, Faults.hang)
      const refreshing = yield* Effect.fork(Effect.flip(a.service.refresh(["orders", "payments"])))
      yield* TestClock.adjust("23 seconds")
      assert.isTrue(Option.isNone(yield* Fiber.poll(refreshing)))
      yield* TestClock.adjust("1 second")
      assert.strictEqual(
        (yield* Fiber.join(refreshing)).message,
        "refresh: Timeout: not done within 24s (four times livenessTimeout)"
      )
      yield* pass(2)
      assert.deepStrictEqual((yield* a.service.assignment).map(({ stream }) => stream), ["orders"])
      yield* a.service.refresh(["orders", "payments"])
      yield* pass(2)
      assert.deepStrictEqual((yield* a.service.assignment).map(({ stream }) => stream), ["orders", "payments"])
    }))
})
