/** A member that is busy, frozen or slow: what it keeps, what it loses, and what it may not do any more. */
import { assert, describe, it } from "@effect/vitest"
import { Faults } from "@kinesumer/test-kit"
import { Clock, Effect, Option, TestClock } from "effect"
import { datas, names, pass, putTo, row, shardId, type TestMember, until, type World } from "../group/support.js"
import {
  after,
  defaults,
  eventsOf,
  faulty,
  faultyWorld,
  leases,
  makeProcess,
  seconds,
  shardsOf
} from "./leases-support.js"

const two = { bufferSize: 8, polling: { idleInterval: "1 second" } } as const

/** Two members with one shard each; a's is the first in the answer. */
const pair = Effect.gen(function*() {
  const w = yield* faultyWorld(2)
  const process = yield* makeProcess
  const a = yield* process.run(faulty(w, "a", two))
  const b = yield* faulty(w, "b", two)
  yield* until(Effect.map(b.service.assignment, (shards) => shards.length === 1), 10)
  const [ofA = ""] = yield* shardsOf(a)
  const [ofB = ""] = yield* shardsOf(b)
  return { w, process, a, b, ofA, ofB }
})

const datasOf = (m: TestMember, id: string) =>
  Effect.map(m.delivered, (all) => datas(all.filter((record) => record.shardId === id)))

const committedAt = (w: World, id: string) => Effect.map(row(w, id), Option.flatMap(({ position }) => position))

/** Wall clocks differ; the time between two looks is the same. */
const skewed = (minutes: number) =>
  Effect.map(Effect.clock, (clock): Clock.Clock => {
    const skew = minutes * 60_000
    return {
      ...clock,
      [Clock.ClockTypeId]: Clock.ClockTypeId,
      sleep: (duration) => clock.sleep(duration),
      unsafeCurrentTimeMillis: () => clock.unsafeCurrentTimeMillis() + skew,
      unsafeCurrentTimeNanos: () => clock.unsafeCurrentTimeNanos() + BigInt(skew) * 1_000_000n,
      currentTimeMillis: Effect.map(clock.currentTimeMillis, (now) => now + skew),
      currentTimeNanos: Effect.map(clock.currentTimeNanos, (now) => now + BigInt(skew) * 1_000_000n)
    }
  })

describe("long-handler-or-frozen-loop-loses-the-lease", () => {
  it.scoped("a handler that takes four liveness timeouts for one slice: nothing moves, nothing is repeated", () =>
    Effect.gen(function*() {
      const { a, b, ofA, ofB, w } = yield* pair
      yield* putTo(w, "orders", ofA, names("a", 1, 6))
      yield* putTo(w, "orders", ofB, names("b", 1, 3))
      const before = yield* leases(w)
      yield* a.consume((record) => datas([record])[0] === "a1" ? Effect.sleep("24 seconds") : Effect.void)
      yield* b.consume()
      yield* seconds(3)
      yield* Effect.repeatN(TestClock.adjust("6 seconds"), 4)
      assert.deepStrictEqual(yield* leases(w), before)
      assert.deepStrictEqual(datas(yield* a.delivered), names("a", 1, 6))
      assert.deepStrictEqual(datas(yield* b.delivered), names("b", 1, 3))
      assert.deepStrictEqual(yield* committedAt(w, ofA), yield* after(w, ofA, 6))
      assert.deepStrictEqual(yield* eventsOf(a, "DeliverySuspended"), [])
    }))

  it.scoped("a wall clock that is minutes ahead or behind: nothing moves, nothing is repeated", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(3_600_000)
      const w = yield* faultyWorld(4)
      const a = yield* faulty(w, "a")
      const ahead = Effect.withClock(yield* skewed(5))
      const behind = Effect.withClock(yield* skewed(-5))
      const b = yield* ahead(faulty(w, "b"))
      const c = yield* behind(faulty(w, "c"))
      const members = [a, b, c]
      yield* a.consume()
      yield* ahead(b.consume())
      yield* behind(c.consume())
      yield* seconds(6)
      const before = yield* leases(w)
      assert.deepStrictEqual(new Set(before.map(([, owner]) => owner)), new Set(["a", "b", "c"]))
      for (const index of [0, 1, 2, 3]) yield* putTo(w, "orders", shardId(index), names(`${index}-`, 1, 3))
      yield* Effect.repeatN(TestClock.adjust("2 seconds"), 9)
      assert.deepStrictEqual(yield* leases(w), before)
      const all = yield* Effect.forEach(members, (m) => m.delivered)
      assert.strictEqual(all.flat().length, 12)
      assert.strictEqual((yield* w.store.listMembers("app")).length, 3)
    }))

  it.scoped("every write takes 6 seconds: nothing moves, nothing stops, everything is committed", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld(2)
      const slowly = { ...defaults, commit: { interval: "5 seconds", timeout: "10 seconds" } } as const
      const a = yield* faulty(w, "a", slowly)
      const b = yield* faulty(w, "b", slowly)
      yield* seconds(12)
      const before = yield* leases(w)
      assert.deepStrictEqual(before.map(([, owner]) => owner).sort(), ["a", "b"])
      const writes = ["heartbeat", "commitCheckpoints", "acquireLeases", "releaseLeases", "updateShards"] as const
      yield* w.faults.addStore({ on: writes }, Faults.delay("6 seconds"))
      yield* a.consume()
      yield* b.consume()
      for (const index of [0, 1]) yield* putTo(w, "orders", shardId(index), names(`${index}-`, 1, 3))
      yield* Effect.repeatN(TestClock.adjust("2 seconds"), 29)
      assert.deepStrictEqual(yield* leases(w), before)
      for (const index of [0, 1]) {
        assert.deepStrictEqual(yield* committedAt(w, shardId(index)), yield* after(w, shardId(index), 3))
      }
      for (const m of [a, b]) {
        assert.strictEqual((yield* m.delivered).length, 3)
        assert.deepStrictEqual(yield* eventsOf(m, "DeliverySuspended"), [])
      }
      yield* w.faults.healAll
    }))

  it.scoped("an answer about the members that comes late, or to a process that froze, makes nobody dead", () =>
    Effect.gen(function*() {
      const { a, b, w } = yield* pair
      const before = yield* leases(w)
      // A beat comes with every second sync: one of the two answers is the one that shows no new beat.
      for (const nth of [1, 2, 1, 2]) {
        yield* w.faults.add({ on: "listMembers", member: "b", nth }, Faults.delay("8 seconds", "after"))
        yield* seconds(12)
      }
      assert.deepStrictEqual(yield* leases(w), before)
      assert.deepStrictEqual((yield* w.store.listMembers("app")).map(({ memberId }) => memberId), ["a", "b"])
      assert.deepStrictEqual(yield* eventsOf(a, "LeaseLost"), [])
      assert.deepStrictEqual(yield* eventsOf(b, "LeaseLost"), [])
    }))

  for (const order of ["first", "last"] as const) {
    for (const mode of ["auto", "manual"] as const) {
      it.scoped(`frozen for longer than the liveness timeout, ${mode}, what was due ${order} goes first`, () =>
        Effect.gen(function*() {
          const { a, b, ofA, process, w } = yield* pairIn(mode)
          yield* putTo(w, "orders", ofA, names("a", 1, 12))
          yield* b.consume((record) => mode === "manual" ? Effect.ignore(b.service.mark(record)) : Effect.void)
          // Slices of two records; the member freezes in the middle of the second one, with more in its buffer.
          yield* process.run(a.consume((record) =>
            Effect.zipRight(
              datas([record])[0] === "a3" ? Effect.sleep("2 seconds") : Effect.void,
              mode === "manual" ? Effect.ignore(a.service.mark(record)) : Effect.void
            )
          ))
          yield* until(Effect.map(a.delivered, (all) => all.length === 3))
          yield* pass(1.4)
          assert.deepStrictEqual(yield* committedAt(w, ofA), yield* after(w, ofA, 2))
          assert.isAbove((yield* a.service.health).bufferedRecords, 0)
          yield* process.freeze
          yield* until(Effect.map(b.service.assignment, (shards) => shards.length === 2), 20)
          yield* until(Effect.map(b.delivered, (all) => all.length === 10), 5)
          const taken = yield* leases(w)
          yield* pass(2)
          const commits = (yield* w.faults.callsOf("commitCheckpoints", { member: "a", shardId: ofA })).length
          yield* process.thaw(order)
          yield* Effect.repeatN(Effect.yieldNow(), 200)
          yield* pass(0.2)
          // The slice that it had in hand runs to its end; nothing that waited is delivered, and its mark moves nothing.
          assert.deepStrictEqual(yield* datasOf(a, ofA), names("a", 1, 4))
          assert.deepStrictEqual(yield* datasOf(b, ofA), names("a", 3, 12))
          assert.deepStrictEqual(yield* committedAt(w, ofA), yield* after(w, ofA, 12))
          assert.deepStrictEqual(
            taken.map(([id, owner]) => [id, owner]),
            [[shardId(0), "b"], [shardId(1), "b"]]
          )
          assert.isAtMost(
            (yield* w.faults.callsOf("commitCheckpoints", { member: "a", shardId: ofA })).length,
            commits + 1
          )
          // It is a member again, and gets a share again. What moves for that moves once.
          yield* until(
            Effect.zipWith(a.service.assignment, b.service.assignment, (x, y) => x.length === 1 && y.length === 1),
            10
          )
          yield* pass(3)
          const end = yield* leases(w)
          assert.deepStrictEqual(
            end.map(([, , epoch], index) => epoch - (taken[index]?.[2] ?? 0)).reduce((sum, step) => sum + step),
            1
          )
          assert.isTrue((yield* a.service.health).healthy)
          yield* putTo(w, "orders", shardId(0), ["x"])
          yield* putTo(w, "orders", shardId(1), ["y"])
          yield* pass(2)
          const all = datas([...(yield* a.delivered), ...(yield* b.delivered)])
          assert.deepStrictEqual(all.filter((data) => data === "x" || data === "y").sort(), ["x", "y"])
        }))
    }
  }
})

const pairIn = (mode: "auto" | "manual") =>
  Effect.gen(function*() {
    const w = yield* faultyWorld(2)
    const process = yield* makeProcess
    const options = { ...two, commit: { interval: "1 second", mode } } as const
    const a = yield* process.run(faulty(w, "a", options))
    const b = yield* faulty(w, "b", options)
    yield* until(Effect.map(b.service.assignment, (shards) => shards.length === 1), 10)
    const [ofA = ""] = yield* shardsOf(a)
    return { w, process, a, b, ofA }
  })
