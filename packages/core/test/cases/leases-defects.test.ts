/** Parts of a member that die or hang, and a consumer that is stuck: the member never keeps what it does not work on. */
import { assert, describe, it } from "@effect/vitest"
import { Position } from "@kinesumer/core"
import { Faults } from "@kinesumer/test-kit"
import { Deferred, Effect, Exit, Fiber, Option, TestClock } from "effect"
import { datas, names, pass, putTo, row, shardId, until, type World } from "../group/support.js"
import {
  after,
  eventsOf,
  faulty,
  faultyWorld,
  ids,
  leases,
  rowsOf,
  seconds,
  shardsOf,
  watch
} from "./leases-support.js"

const theDefect = new Error("a defect of the test")

const positionOf = (w: World, id: string) => Effect.map(row(w, id), Option.flatMap(({ position }) => position))

describe("heartbeat-without-a-reader", () => {
  const parts = [
    ["heartbeat", "heartbeat"],
    ["sync", "listMembers"],
    ["commit", "commitCheckpoints"],
    ["refresh", "describeStream"]
  ] as const

  for (const [loop, operation] of parts) {
    it.scoped(`the ${loop} loop dies: it is told once, and goes on`, () =>
      Effect.gen(function*() {
        const w = yield* faultyWorld(2)
        const a = yield* faulty(w, "a")
        yield* a.consume()
        yield* pass(1)
        yield* w.faults.add({ on: operation, times: 1 }, Faults.die(theDefect))
        for (const index of [0, 1]) yield* putTo(w, "orders", shardId(index), names(`${index}-`, 1, 3))
        yield* until(Effect.map(eventsOf(a, "LoopFailed"), (all) => all.length > 0), 10)
        assert.deepStrictEqual((yield* a.service.health).failingLoops, [loop])
        yield* pass(loop === "refresh" ? 8 : 4)
        assert.deepStrictEqual((yield* eventsOf(a, "LoopFailed")).map((event) => event.loop), [loop])
        assert.strictEqual((yield* a.delivered).length, 6)
        for (const index of [0, 1]) {
          assert.deepStrictEqual(yield* positionOf(w, shardId(index)), yield* after(w, shardId(index), 3))
        }
        assert.isTrue((yield* a.service.health).healthy)
      }))
  }

  it.scoped("a reader dies, at its calls and over what it is answered: the others go on, and it comes back", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld(2)
      const a = yield* faulty(w, "a", { bufferSize: 20 })
      yield* a.consume()
      yield* pass(1)
      const broken = { shardId: shardId(0), times: 4 }
      yield* w.faults.add({ on: "getRecords", ...broken, times: 1 }, Faults.die(theDefect))
      yield* w.faults.add({ on: "getShardIterator", ...broken, times: 1 }, Faults.die(theDefect))
      yield* w.faults.add(
        { on: "getRecords", ...broken },
        Faults.rewrite<"getRecords">((answer) => ({
          ...answer,
          get records(): never {
            throw theDefect
          }
        }))
      )
      for (const index of [0, 1]) yield* putTo(w, "orders", shardId(index), names(`${index}-`, 1, 3))
      yield* pass(3)
      assert.deepStrictEqual(datas(yield* a.delivered), names("1-", 1, 3))
      assert.isFalse((yield* a.service.health).healthy)
      yield* until(Effect.map(a.delivered, (all) => all.length === 6), 15)
      yield* pass(2)
      assert.deepStrictEqual(datas((yield* a.delivered).slice(3)), names("0-", 1, 3))
      const health = yield* a.service.health
      assert.isTrue(health.healthy)
      // What it had reserved was given back.
      assert.strictEqual(health.bufferedRecords, 0)
    }))

  it.scoped("a hand-over dies: the shard goes to the other member all the same", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld(2)
      const a = yield* faulty(w, "a")
      yield* a.consume()
      yield* w.faults.add({ on: "releaseLeases", member: "a", times: 1 }, Faults.die(theDefect))
      const b = yield* faulty(w, "b")
      yield* until(Effect.map(b.service.assignment, (shards) => shards.length === 1), 8)
      assert.strictEqual((yield* eventsOf(a, "LoopFailed")).length, 1)
      assert.deepStrictEqual([...(yield* shardsOf(a)), ...(yield* shardsOf(b))].sort(), ids(0, 1))
    }))

  it.scoped("writing the end of a shard into the list dies: the children start", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      const a = yield* faulty(w, "a", { syncInterval: "1 second" })
      yield* a.consume()
      yield* pass(1)
      // The list has the children already when the parent ends.
      yield* w.faults.add({ on: "getRecords", shardId: shardId(0) }, Faults.fail("Unavailable"))
      yield* w.kinesis.split("orders", shardId(0))
      yield* pass(8)
      yield* w.faults.healAll
      yield* w.faults.add({ on: "updateShards", times: 1 }, Faults.die(theDefect))
      yield* until(Effect.map(shardsOf(a), (shards) => shards.length === 2), 20)
      assert.deepStrictEqual(yield* shardsOf(a), ids(1, 2))
    }))

  it.scoped("a store call of a sync is never answered: the next sync comes all the same", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld(2)
      const a = yield* faulty(w, "a")
      yield* a.consume()
      yield* pass(1)
      yield* w.faults.add({ on: "listShardVersions", member: "a", times: 1 }, Faults.hang)
      yield* pass(1)
      const b = yield* faulty(w, "b")
      yield* until(Effect.map(b.service.assignment, (shards) => shards.length === 1), 30)
      assert.isAtLeast((yield* eventsOf(a, "SyncFailed")).length, 1)
    }))

  it.scoped("the consumer dies and the layer stays: it is told by health, and the next run goes on", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      const a = yield* faulty(w, "a")
      yield* putTo(w, "orders", shardId(0), names("a", 1, 3))
      const dying = yield* a.consume((record) => datas([record])[0] === "a2" ? Effect.die(theDefect) : Effect.void)
      yield* pass(1)
      const exit = yield* Fiber.await(dying)
      assert.isTrue(Exit.isFailure(exit) && exit.cause._tag === "Die" && exit.cause.defect === theDefect)
      yield* pass(9)
      assert.isAtLeast((yield* a.service.health).millisSincePull, 9_000)
      assert.deepStrictEqual(yield* leases(w), [[shardId(0), "a", 1]])
      yield* a.consume()
      yield* pass(2)
      assert.deepStrictEqual(datas(yield* a.delivered), ["a1", "a2", "a1", "a2", "a3"])
      assert.deepStrictEqual(yield* positionOf(w, shardId(0)), yield* after(w, shardId(0), 3))
    }))

  it.scoped("the consumer dies and the layer with it: the leases go free at once, the others need no timeout", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld(2)
      const a = yield* faulty(w, "a")
      const b = yield* faulty(w, "b")
      yield* b.consume()
      yield* until(Effect.map(b.service.assignment, (shards) => shards.length === 1), 5)
      for (const index of [0, 1]) yield* putTo(w, "orders", shardId(index), names(`${index}-`, 1, 2))
      const dying = yield* a.consume(() => Effect.die(theDefect))
      yield* pass(2)
      yield* Effect.zipRight(Fiber.await(dying), a.close)
      yield* pass(2)
      assert.deepStrictEqual(yield* shardsOf(b), ids(0, 1))
      yield* pass(1)
      assert.deepStrictEqual([...datas(yield* b.delivered)].sort(), [...names("0-", 1, 2), ...names("1-", 1, 2)])
    }))
})

describe("blocked-consumer-claims-its-own-shard", () => {
  it.scoped("a handler that is stuck for many liveness timeouts: beats go on, no lease moves, nothing is repeated", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld(4)
      for (const index of [0, 1, 2, 3]) yield* putTo(w, "orders", shardId(index), names(`${index}-`, 1, 60))
      const a = yield* faulty(w, "a", { bufferSize: 100 })
      const gate = yield* Deferred.make<void>()
      yield* a.consume((record) => datas([record])[0] === "0-1" ? Deferred.await(gate) : Effect.void)
      yield* pass(2)
      const before = yield* leases(w)
      yield* w.faults.clearCalls
      const seen = yield* watch(
        Effect.all([Effect.map(a.service.health, ({ bufferedRecords }) => bufferedRecords), leases(w)]),
        10,
        TestClock.adjust("2 seconds")
      )
      // The store fails in the middle, for less than the timeout.
      const outage = yield* w.faults.partition("a")
      yield* seconds(4)
      yield* outage.heal
      seen.push(
        ...(yield* watch(
          Effect.all([Effect.map(a.service.health, ({ bufferedRecords }) => bufferedRecords), leases(w)]),
          10,
          TestClock.adjust("2 seconds")
        ))
      )
      assert.isTrue(seen.every(([buffered]) => buffered <= 100))
      for (const [, held] of seen) assert.deepStrictEqual(held, before)
      assert.deepStrictEqual(yield* w.faults.callsOf("acquireLeases"), [])
      assert.isAtLeast((yield* w.faults.callsOf("heartbeat")).length, 20)
      assert.deepStrictEqual(yield* eventsOf(a, "DeliverySuspended"), [])
      yield* Deferred.succeed(gate, undefined)
      yield* until(Effect.map(a.delivered, (all) => all.length >= 240), 60)
      const all = yield* a.delivered
      for (const index of [0, 1, 2, 3]) {
        assert.deepStrictEqual(
          datas(all.filter((record) => record.shardId === shardId(index))),
          names(`${index}-`, 1, 60)
        )
      }
    }))

  it.scoped("a member joins while the handler is stuck: what moves does not wait for it", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld(4)
      for (const index of [0, 1, 2, 3]) yield* putTo(w, "orders", shardId(index), names(`${index}-`, 1, 10))
      const a = yield* faulty(w, "a", { bufferSize: 20 })
      const gate = yield* Deferred.make<void>()
      yield* a.consume(() => Deferred.await(gate))
      yield* pass(2)
      const b = yield* faulty(w, "b")
      yield* b.consume()
      yield* until(Effect.map(b.service.assignment, (shards) => shards.length === 2), 4)
      yield* pass(2)
      const moved = yield* shardsOf(b)
      const expected = moved.flatMap((id) => names(`${Number(id.slice(-1))}-`, 1, 10))
      assert.deepStrictEqual([...datas(yield* b.delivered)].sort(), [...expected].sort())
      yield* Deferred.succeed(gate, undefined)
      yield* pass(4)
      const kept = yield* shardsOf(a)
      const all = yield* a.delivered
      for (const id of kept) {
        assert.deepStrictEqual(datas(all.filter((one) => one.shardId === id)), names(`${Number(id.slice(-1))}-`, 1, 10))
      }
      assert.deepStrictEqual((yield* leases(w)).map(([, , epoch]) => epoch).sort(), [1, 1, 2, 2])
      assert.isTrue((yield* rowsOf(w)).every(({ position }) => Option.exists(position, Position.is("AfterSequence"))))
    }))
})
