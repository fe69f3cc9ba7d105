/** Take-overs that are under way while the owner comes to life again: the simulation found that both went on reading. */
import { assert, describe, it } from "@effect/vitest"
import { KinesumerError } from "@kinesumer/core"
import { Faults } from "@kinesumer/test-kit"
import { Effect, Exit, Option } from "effect"
import { datas, names, pass, putTo, row, shardId, type TestMember, until, type World } from "../group/support.js"
import {
  after,
  eventsOf,
  faulty,
  type FaultyWorld,
  faultyWorld,
  leases,
  makeProcess,
  manual,
  shardsOf
} from "./leases-support.js"

/** Two members with one shard each. */
const pair = Effect.gen(function*() {
  const w = yield* faultyWorld(2)
  const process = yield* makeProcess
  const a = yield* process.run(faulty(w, "a"))
  const b = yield* faulty(w, "b")
  yield* process.run(a.consume())
  yield* b.consume()
  yield* until(Effect.map(b.service.assignment, (shards) => shards.length === 1), 10)
  const [ofA = ""] = yield* shardsOf(a)
  yield* putTo(w, "orders", ofA, names("a", 1, 3))
  yield* until(Effect.map(a.delivered, (all) => all.length === 3), 3)
  yield* pass(2)
  const { epoch } = Option.getOrThrow(yield* row(w, ofA))
  return { w, process, a, b, ofA, epoch }
})

/** What a member was answered when it asked for a lease, oldest first. */
const answers = (w: FaultyWorld, member: string, id: string) =>
  Effect.map(
    w.faults.callsOf("acquireLeases", { member, shardId: id }),
    (calls) =>
      calls.flatMap(({ args: [, , requests], exit }) => {
        const results = Option.isSome(exit) && Exit.isSuccess(exit.value) ? exit.value.value : []
        return results.filter((_, index) => requests[index]?.shardId === id).map(({ _tag }) => _tag)
      })
  )

/** The records of a shard that a member delivered, with the epochs that it read them under. */
const deliveredOf = (m: TestMember, id: string) =>
  Effect.map(
    m.delivered,
    (all) => all.filter((record) => record.shardId === id).map((record) => [...datas([record]), record.epoch])
  )

const under = (epoch: number, datas: ReadonlyArray<string>) => datas.map((data) => [data, epoch])

const holderOf = (w: World, id: string) =>
  Effect.map(leases(w), (all) => all.filter(([shard]) => shard === id).map(([, owner, epoch]) => [owner, epoch]))

describe("heartbeat-that-took-effect-late", () => {
  /**
   * A heartbeat of a is sent in time and takes effect late: b has seen the counter stand still for the liveness timeout,
   * and its request for a's shard is under way. So is a's own, once it has had its answer.
   */
  const late = Effect.gen(function*() {
    const { a, b, epoch, ofA, w } = yield* pair
    const takeover = yield* w.faults.add({ on: "acquireLeases", member: "b", shardId: ofA }, Faults.hold)
    const renewal = yield* w.faults.add({ on: "acquireLeases", member: "a", shardId: ofA }, Faults.hold)
    const beats = w.faults.callsOf("heartbeat", { member: "a" })
    const failing = yield* w.faults.add({ on: "heartbeat", member: "a" }, Faults.fail("Unavailable"))
    yield* until(Effect.map(a.service.health, ({ millisSinceHeartbeat }) => millisSinceHeartbeat >= 5_400), 10)
    yield* failing.heal
    yield* w.faults.add({ on: "heartbeat", member: "a", times: 1 }, Faults.delay("2800 millis"))
    yield* until(Effect.map(takeover.fired, (fired) => fired === 1), 4)
    assert.strictEqual((yield* beats).at(-1)?.outcome, "pending")
    yield* until(Effect.map(beats, (calls) => calls.at(-1)?.outcome === "success"), 2)
    // Nobody has asked a for anything meanwhile: that it was silent for too long shows with the answer, or not at all.
    yield* putTo(w, "orders", ofA, names("a", 4, 6))
    yield* until(Effect.map(renewal.fired, (fired) => fired > 0), 2)
    yield* pass(1)
    assert.deepStrictEqual(yield* deliveredOf(a, ofA), under(epoch, names("a", 1, 3)))
    assert.strictEqual((yield* eventsOf(a, "DeliverySuspended")).length, 1)
    return { a, b, epoch, ofA, renewal, takeover, w }
  })

  it.scoped("the owner asks for its lease again before it delivers, and then the take-over is refused", () =>
    Effect.gen(function*() {
      const { a, b, epoch, ofA, renewal, takeover, w } = yield* late
      yield* renewal.heal
      yield* until(Effect.map(a.delivered, (all) => all.length === 6), 3)
      yield* takeover.heal
      yield* pass(3)
      assert.deepStrictEqual(yield* answers(w, "b", ofA), ["Held"])
      assert.deepStrictEqual(yield* holderOf(w, ofA), [["a", epoch + 1]])
      assert.deepStrictEqual(yield* deliveredOf(a, ofA), [
        ...under(epoch, names("a", 1, 3)),
        ...under(epoch + 1, names("a", 4, 6))
      ])
      assert.deepStrictEqual(yield* deliveredOf(b, ofA), [])
    }))

  it.scoped("the take-over comes first: the owner delivers nothing more under its old epoch", () =>
    Effect.gen(function*() {
      const { a, b, epoch, ofA, renewal, takeover, w } = yield* late
      yield* takeover.heal
      yield* until(Effect.map(deliveredOf(b, ofA), (all) => all.length === 3), 3)
      yield* putTo(w, "orders", ofA, names("a", 7, 9))
      yield* renewal.heal
      yield* until(
        Effect.zipWith(deliveredOf(a, ofA), deliveredOf(b, ofA), (x, y) => x.length + y.length === 9),
        10
      )
      yield* pass(3)
      assert.deepStrictEqual((yield* answers(w, "b", ofA)).slice(0, 1), ["Acquired"])
      assert.deepStrictEqual((yield* answers(w, "a", ofA)).filter((answer) => answer === "Held").length, 1)
      assert.deepStrictEqual((yield* eventsOf(a, "LeaseLost")).map((lost) => [lost.shardId, lost.epoch]), [[
        ofA,
        epoch
      ]])
      assert.deepStrictEqual(
        (yield* deliveredOf(a, ofA)).filter(([, under]) => under === epoch),
        under(epoch, names("a", 1, 3))
      )
      assert.deepStrictEqual(
        (yield* deliveredOf(b, ofA)).filter(([, under]) => under === epoch + 1).slice(0, 3),
        under(epoch + 1, names("a", 4, 6))
      )
    }))
})

describe("woke-while-it-was-taken-for-dead", () => {
  it.scoped("a take-over that was decided before, and arrives after the owner asked again, is refused", () =>
    Effect.gen(function*() {
      const { a, b, epoch, ofA, process, w } = yield* pair
      const takeover = yield* w.faults.add({ on: "acquireLeases", member: "b", shardId: ofA }, Faults.hold)
      yield* process.freeze
      yield* until(Effect.map(takeover.fired, (fired) => fired === 1), 10)
      yield* process.thaw("first")
      yield* putTo(w, "orders", ofA, names("a", 4, 6))
      yield* until(Effect.map(a.delivered, (all) => all.length === 6), 5)
      yield* takeover.heal
      yield* pass(3)
      assert.deepStrictEqual(yield* answers(w, "b", ofA), ["Held"])
      assert.deepStrictEqual(yield* holderOf(w, ofA), [["a", epoch + 1]])
      yield* putTo(w, "orders", ofA, names("a", 7, 9))
      yield* pass(2)
      assert.deepStrictEqual(yield* deliveredOf(a, ofA), [
        ...under(epoch, names("a", 1, 3)),
        ...under(epoch + 1, names("a", 4, 9))
      ])
      assert.deepStrictEqual(yield* deliveredOf(b, ofA), [])
      assert.deepStrictEqual(yield* eventsOf(a, "LeaseLost"), [])
    }))
})

describe("row-read-after-the-owner-woke", () => {
  it.scoped("an owner that woke between the look at the members and the look at the rows keeps its lease", () =>
    Effect.gen(function*() {
      const { a, b, epoch, ofA, process, w } = yield* pair
      const rows = yield* w.faults.add({ on: "listCheckpoints", member: "b" }, Faults.hold)
      yield* process.freeze
      yield* until(Effect.map(rows.fired, (fired) => fired === 1), 10)
      yield* process.thaw("first")
      yield* putTo(w, "orders", ofA, names("a", 4, 6))
      yield* until(Effect.map(a.delivered, (all) => all.length === 6), 5)
      yield* rows.heal
      yield* pass(3)
      assert.deepStrictEqual(yield* holderOf(w, ofA), [["a", epoch + 1]])
      assert.deepStrictEqual(yield* deliveredOf(b, ofA), [])
      assert.deepStrictEqual(yield* eventsOf(a, "LeaseLost"), [])
    }))

  it.scoped("an owner that stalled again after it had asked, without an answer, asks once more under a later epoch", () =>
    Effect.gen(function*() {
      const { a, b, epoch, ofA, w } = yield* pair
      const unseen = yield* w.faults.add({ on: "listMembers", member: "b" }, Faults.fail("Unavailable"))
      const stall = w.faults.add({ on: "heartbeat", member: "a" }, Faults.fail("Unavailable"))
      const first = yield* stall
      yield* pass(7)
      yield* putTo(w, "orders", ofA, names("a", 4, 6))
      yield* until(Effect.map(eventsOf(a, "DeliverySuspended"), (all) => all.length === 1), 3)
      yield* w.faults.add({ on: "acquireLeases", member: "a", times: 1 }, Faults.dropAnswer())
      const unasked = yield* w.faults.add({ on: "acquireLeases", member: "a", from: 2 }, Faults.fail("Unavailable"))
      yield* first.heal
      yield* until(Effect.map(unasked.fired, (fired) => fired > 0), 3)
      assert.deepStrictEqual(yield* holderOf(w, ofA), [["a", epoch + 1]])

      const takeover = yield* w.faults.add({ on: "acquireLeases", member: "b", shardId: ofA }, Faults.hold)
      const second = yield* stall
      yield* unseen.heal
      yield* until(Effect.map(takeover.fired, (fired) => fired === 1), 10)
      yield* second.heal
      yield* until(Effect.map(a.service.health, ({ millisSinceHeartbeat }) => millisSinceHeartbeat < 1_000), 3)
      yield* unasked.heal
      yield* until(Effect.map(a.delivered, (all) => all.length === 6), 5)
      yield* takeover.heal
      yield* pass(3)
      assert.deepStrictEqual(yield* answers(w, "b", ofA), ["Held"])
      assert.deepStrictEqual(yield* deliveredOf(b, ofA), [])
      assert.deepStrictEqual(yield* eventsOf(a, "LeaseLost"), [])
    }))
})

describe("leases-asked-for-again", () => {
  it.scoped("the cursor goes back to the first unprocessed record, and older marks are LeaseLost", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      const a = yield* faulty(w, "a", manual)
      yield* a.consume()
      yield* putTo(w, "orders", shardId(0), names("a", 1, 5))
      yield* until(Effect.map(a.delivered, (all) => all.length === 5), 3)
      const [first, second, third, ...rest] = yield* a.delivered
      assert.isDefined(third)
      // The second is marked and not committed any more; behind the fourth there is a gap.
      yield* a.service.mark([first, second].flatMap((record) => record ?? []))
      const partition = yield* w.faults.partition("a")
      yield* a.service.mark(rest.slice(0, 1))
      yield* pass(7)
      yield* putTo(w, "orders", shardId(0), ["a6"])
      yield* until(Effect.map(eventsOf(a, "DeliverySuspended"), (all) => all.length === 1), 3)
      yield* w.kinesis.clearCalls
      yield* partition.heal
      yield* until(Effect.map(a.delivered, (all) => all.length === 9), 5)

      assert.deepStrictEqual(yield* deliveredOf(a, shardId(0)), [
        ...under(1, names("a", 1, 5)),
        ...under(2, names("a", 3, 6))
      ])
      assert.deepStrictEqual(
        Option.fromNullable((yield* w.kinesis.callsOf("getShardIterator")).at(-1)?.position),
        yield* after(w, shardId(0), 2)
      )
      assert.deepStrictEqual(yield* eventsOf(a, "LeaseRestored"), [
        { _tag: "LeaseRestored", stream: "orders", shardId: shardId(0), epoch: 2 }
      ])
      const refused = yield* Effect.flip(a.service.mark(rest))
      assert.deepStrictEqual(refused, new KinesumerError.LeaseLost({ stream: "orders", shardId: shardId(0), epoch: 1 }))
      yield* pass(2)
      const committed = Effect.map(row(w, shardId(0)), Option.flatMap(({ position }) => position))
      assert.deepStrictEqual(yield* committed, yield* after(w, shardId(0), 2))
      yield* a.service.mark((yield* a.delivered).slice(5))
      yield* pass(2)
      assert.deepStrictEqual(yield* committed, yield* after(w, shardId(0), 6))
      assert.deepStrictEqual(yield* holderOf(w, shardId(0)), [["a", 2]])
    }))
})
