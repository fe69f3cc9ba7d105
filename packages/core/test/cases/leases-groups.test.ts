/** Members that come, go, and see different things; shards that come back; a table that is throttled. */
import { assert, describe, it } from "@effect/vitest"
import { KinesumerError, StateStoreError } from "@kinesumer/core"
import { Faults } from "@kinesumer/test-kit"
import { Effect, Either, Option, TestClock } from "effect"
import { datas, names, pass, putTo, row, shardId, type TestMember, until, type World } from "../group/support.js"
import { after, eventsOf, faulty, faultyWorld, ids, leases, makeProcess, manual, shardsOf } from "./leases-support.js"

const calm = { polling: { idleInterval: "5 seconds" } } as const

const positionOf = (w: World, id: string) => Effect.map(row(w, id), Option.flatMap(({ position }) => position))

const total = (members: ReadonlyArray<TestMember>) =>
  Effect.map(Effect.forEach(members, shardsOf), (all) => all.map((shards) => shards.length))

const epochs = (w: World) => Effect.map(leases(w), (all) => all.reduce((sum, [, , epoch]) => sum + epoch, 0))

describe("members-ranked-by-random-id", () => {
  for (const id of ["a", "g", "z"]) {
    it.scoped(`a member joins as ${id}, and leaves: the fewest shards move, the others keep their iterators`, () =>
      Effect.gen(function*() {
        const w = yield* faultyWorld(9)
        const first = yield* faulty(w, "f", calm)
        const second = yield* faulty(w, "h", calm)
        yield* first.consume()
        yield* second.consume()
        yield* until(Effect.map(total([first, second]), (all) => Math.min(...all) === 4), 10)
        const before = yield* epochs(w)
        yield* w.kinesis.clearCalls
        const joined = yield* faulty(w, id, calm)
        yield* joined.consume()
        yield* until(Effect.map(total([first, second, joined]), (all) => Math.min(...all) === 3), 10)
        yield* pass(2)
        assert.strictEqual((yield* epochs(w)) - before, 3)
        const started = (yield* w.kinesis.callsOf("getShardIterator")).map((call) => call.shardId).sort()
        assert.deepStrictEqual(started, yield* shardsOf(joined))
        yield* w.kinesis.clearCalls
        yield* joined.close
        yield* until(Effect.map(total([first, second]), ([one = 0, two = 0]) => one + two === 9), 10)
        yield* pass(2)
        assert.strictEqual((yield* epochs(w)) - before, 6)
        assert.deepStrictEqual(
          (yield* w.kinesis.callsOf("getShardIterator")).map((call) => call.shardId).sort(),
          started
        )
      }))
  }

  it.scoped("a lease that is somebody else's when it is given back is given back", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld(2)
      const a = yield* faulty(w, "a", calm)
      yield* a.consume()
      yield* pass(1)
      // As if another one had come first: the release finds a later epoch.
      yield* w.faults.add(
        { on: "releaseLeases", member: "a", times: 1 },
        Faults.redirect<"releaseLeases">((app, owner, held) => [
          app,
          owner,
          held.map((lease) => ({ ...lease, epoch: lease.epoch - 1 }))
        ])
      )
      const b = yield* faulty(w, "b", calm)
      yield* until(Effect.map(b.service.assignment, (shards) => shards.length === 1), 10)
      assert.deepStrictEqual(yield* total([a, b]), [1, 1])
      assert.isTrue((yield* a.service.health).healthy)
    }))

  it.scoped("more members than shards: the idle ones stay idle, a join moves nothing", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld(2)
      const members = yield* Effect.forEach(["m", "n", "o"], (id) => faulty(w, id, calm))
      yield* pass(4)
      const before = yield* leases(w)
      assert.deepStrictEqual([...(yield* total(members))].sort(), [0, 1, 1])
      yield* faulty(w, "a", calm)
      yield* pass(4)
      assert.deepStrictEqual(yield* leases(w), before)
    }))
})

describe("two-assign-functions-in-one-group", () => {
  it.scoped("a member of a later version joins and leaves: nothing flies to and fro, nothing is orphaned", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld(4)
      const a = yield* faulty(w, "a", calm)
      const b = yield* faulty(w, "b", calm)
      yield* until(Effect.map(total([a, b]), (all) => Math.min(...all) === 2), 10)
      // It says what it could compute with; while an older version is present, it uses that one.
      yield* w.faults.add(
        { on: "registerMember", member: "c" },
        Faults.redirect<"registerMember">((app, member) => [app, { ...member, assignVersion: 2 }])
      )
      yield* w.faults.add(
        { on: "heartbeat", member: "c" },
        Faults.redirect<"heartbeat">((app, member) => [app, { ...member, assignVersion: 2 }])
      )
      const before = yield* epochs(w)
      const c = yield* faulty(w, "c", calm)
      yield* until(Effect.map(total([a, b, c]), (all) => Math.min(...all) === 1), 10)
      yield* pass(2)
      const half = yield* leases(w)
      assert.strictEqual((yield* epochs(w)) - before, 1)
      yield* Effect.repeatN(TestClock.adjust("3 seconds"), 9)
      assert.deepStrictEqual(yield* leases(w), half)
      yield* c.close
      yield* until(Effect.map(total([a, b]), ([one = 0, two = 0]) => one + two === 4), 10)
      yield* pass(2)
      assert.strictEqual((yield* epochs(w)) - before, 2)
    }))

  it.scoped("members that see old lists for two syncs: each shard changes hands once, none is without an owner", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld(4)
      const a = yield* faulty(w, "a", calm)
      yield* pass(2)
      yield* w.faults.add({ on: "listMembers", member: "a", times: 2 }, Faults.stale)
      yield* w.faults.add({ on: "listCheckpoints", member: "a", times: 1 }, Faults.stale)
      yield* w.faults.add({ on: "listShardVersions", member: "a", times: 2 }, Faults.stale)
      const b = yield* faulty(w, "b", calm)
      yield* until(Effect.map(total([a, b]), (all) => Math.min(...all) === 2), 10)
      yield* pass(3)
      // The old rows lack the shards that a runs, so it has asked for each of them again.
      assert.deepStrictEqual((yield* leases(w)).map(([, , epoch]) => epoch).sort(), [2, 2, 3, 3])
      assert.deepStrictEqual([...(yield* shardsOf(a)), ...(yield* shardsOf(b))].sort(), ids(0, 1, 2, 3))
    }))
})

describe("lease-bounces-back", () => {
  it.scoped("marks of the first time move nothing of the second; they end as LeaseLost, and the rest goes on", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld(2)
      const process = yield* makeProcess
      const a = yield* process.run(faulty(w, "a", manual))
      yield* process.run(a.consume())
      yield* putTo(w, "orders", shardId(0), names("x", 1, 3))
      yield* until(Effect.map(a.delivered, (all) => all.length === 3))
      const early = (yield* a.delivered).slice()
      yield* process.freeze
      const b = yield* faulty(w, "b", manual)
      yield* until(Effect.map(shardsOf(b), (shards) => shards.length === 2), 15)
      yield* process.thaw("first")
      yield* pass(2)
      yield* b.close
      yield* until(Effect.map(shardsOf(a), (shards) => shards.length === 2), 10)
      yield* until(Effect.map(a.delivered, (all) => all.length === 6), 5)
      const late = (yield* a.delivered).slice(3)
      assert.deepStrictEqual(datas(late), names("x", 1, 3))
      assert.isAbove(late[0]?.epoch ?? 0, early[0]?.epoch ?? 0)
      const marked = yield* Effect.either(a.service.mark(early))
      assert.instanceOf(Option.getOrUndefined(Either.getLeft(marked)), KinesumerError.LeaseLost)
      yield* pass(2)
      assert.deepStrictEqual(yield* positionOf(w, shardId(0)), Option.none())
      yield* a.service.mark(late.slice(0, 2))
      yield* pass(2)
      assert.deepStrictEqual(yield* positionOf(w, shardId(0)), yield* after(w, shardId(0), 2))
      yield* putTo(w, "orders", shardId(1), ["y"])
      yield* pass(2)
      assert.deepStrictEqual(datas(yield* a.delivered).at(-1), "y")
    }))
})

describe("throttled-table-repeats-records", () => {
  for (const mode of ["auto", "manual"] as const) {
    it.scoped(`for less than the liveness timeout: no shard stops, nothing is repeated (${mode})`, () =>
      Effect.gen(function*() {
        const w = yield* faultyWorld(2)
        const options = { commit: { interval: "1 second", mode } } as const
        const members = yield* Effect.forEach(["a", "b"], (id) => faulty(w, id, options))
        for (const m of members) {
          yield* m.consume((record) => mode === "manual" ? Effect.orDie(m.service.mark(record)) : Effect.void)
        }
        yield* until(Effect.map(total(members), (all) => Math.min(...all) === 1), 10)
        const before = yield* leases(w)
        const rules = yield* Effect.forEach(
          ["heartbeat", "commitCheckpoints", "listMembers"] as const,
          (on) => w.faults.addStore({ on: [on] }, Faults.fail("Throttled"))
        )
        for (const index of [0, 1]) yield* putTo(w, "orders", shardId(index), names(`${index}-`, 1, 10))
        yield* pass(4.4)
        const during = yield* Effect.forEach(members, (m) => m.delivered)
        assert.strictEqual(during.flat().length, 20)
        yield* Effect.forEach(rules, (rule) => rule.heal)
        yield* pass(4)
        assert.deepStrictEqual(yield* leases(w), before)
        assert.strictEqual((yield* Effect.forEach(members, (m) => m.delivered)).flat().length, 20)
        for (const index of [0, 1]) {
          assert.deepStrictEqual(yield* positionOf(w, shardId(index)), yield* after(w, shardId(index), 10))
        }
        for (const m of members) {
          assert.deepStrictEqual(yield* eventsOf(m, "DeliverySuspended"), [])
          assert.isTrue(
            (yield* eventsOf(m, "CommitFailed")).every(({ error }) =>
              error instanceof StateStoreError.StateStoreError && error.reason === "Throttled"
            )
          )
        }
      }))
  }
})
