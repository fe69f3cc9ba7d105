/** Several streams, several apps and several members in one process: what belongs to whom. */
import { assert, describe, it } from "@effect/vitest"
import { KinesisClient, Kinesumer, StateStore } from "@kinesumer/core"
import { Effect, Layer, Option, Random, TestClock } from "effect"
import { datas, names, pass, putTo, settings, shardId, type TestMember, until } from "../group/support.js"
import { eventsOf, faulty, type FaultyWorld, faultyWorld, leases, rowsOf } from "./leases-support.js"

const streamsWorld = (...streams: ReadonlyArray<string>) =>
  Effect.gen(function*() {
    const w = yield* faultyWorld(2)
    for (const name of streams) yield* w.kinesis.createStream({ name, shards: 2 })
    return w
  })

const streamsOf = (m: TestMember) =>
  Effect.map(m.service.assignment, (shards) => shards.map(({ stream }) => stream).sort())

const untilDelivered = (m: TestMember, count: number) => until(Effect.map(m.delivered, (all) => all.length === count))

/** Kinds of calls for one stream, to the store and to Kinesis. */
const callsFor = (w: FaultyWorld, stream: string) =>
  Effect.map(w.faults.calls, (calls) => calls.filter((call) => JSON.stringify(call.args).includes(`"${stream}"`)))

describe("cleanup-hits-the-other-stream", () => {
  it.scoped("one stream is resharded and tidied: the other's rows stay as they are", () =>
    Effect.gen(function*() {
      const w = yield* streamsWorld("payments")
      const a = yield* faulty(w, "a", { streams: ["orders", "payments"] })
      yield* a.consume()
      for (const stream of ["orders", "payments"]) {
        for (const index of [0, 1]) yield* putTo(w, stream, shardId(index), names(`${stream}${index}-`, 1, 2))
      }
      yield* untilDelivered(a, 8)
      yield* pass(2)
      const before = yield* rowsOf(w)
      yield* w.faults.clearCalls
      yield* w.kinesis.split("payments", shardId(0))
      yield* until(Effect.map(a.service.assignment, (shards) => shards.length === 5), 20)
      for (const index of [2, 3]) yield* putTo(w, "payments", shardId(index), [`child${index}`])
      yield* untilDelivered(a, 10)
      yield* w.kinesis.forgetShard("payments", shardId(0))
      yield* until(
        Effect.map(rowsOf(w, "payments"), (rows) => rows.every((row) => row.shardId !== shardId(0))),
        30
      )
      assert.deepStrictEqual(yield* rowsOf(w), before)
      const removed = yield* w.faults.callsOf("removeCheckpoints")
      assert.deepStrictEqual([...new Set(removed.map(({ args }) => args[1]))], ["payments"])
      assert.deepStrictEqual(yield* w.faults.callsOf("getShardIterator", { stream: "orders" }), [])
      yield* putTo(w, "orders", shardId(0), ["still"])
      yield* untilDelivered(a, 11)
    }))

  it.scoped("two apps on one stream, in one process: each has its own rows, and closing one leaves the other", () =>
    Effect.gen(function*() {
      const w = yield* streamsWorld()
      const x = yield* faulty(w, "same", { app: "x" })
      const y = yield* faulty(w, "same", { app: "y" })
      yield* x.consume()
      yield* y.consume()
      yield* putTo(w, "orders", shardId(0), names("a", 1, 3))
      yield* untilDelivered(x, 3)
      yield* untilDelivered(y, 3)
      yield* pass(2)
      const before = yield* rowsOf(w, "orders", "y")
      yield* x.close
      assert.deepStrictEqual(yield* rowsOf(w, "orders", "y"), before)
      assert.isTrue((yield* rowsOf(w, "orders", "x")).every(({ owner }) => Option.isNone(owner)))
      yield* putTo(w, "orders", shardId(0), names("a", 4, 6))
      yield* untilDelivered(y, 6)
      assert.strictEqual((yield* x.delivered).length, 3)
    }))

  it.scoped("two members of one app with different streams: none waits for the other's", () =>
    Effect.gen(function*() {
      const w = yield* streamsWorld("payments")
      const a = yield* faulty(w, "a", { streams: ["orders"] })
      const b = yield* faulty(w, "b", { streams: ["payments"] })
      assert.deepStrictEqual(yield* streamsOf(a), ["orders", "orders"])
      assert.deepStrictEqual(yield* streamsOf(b), ["payments", "payments"])
      yield* pass(3)
      yield* b.close
      yield* pass(2)
      assert.deepStrictEqual(yield* leases(w), [[shardId(0), "a", 1], [shardId(1), "a", 1]])
    }))

  it.scoped("two layers of one value, each built for itself at the same instant: two members, two ids", () =>
    Effect.gen(function*() {
      const w = yield* streamsWorld()
      const layer = Kinesumer.layer({ ...settings }).pipe(
        Layer.provide(Layer.succeed(KinesisClient.KinesisClient, w.kinesis.client)),
        Layer.provide(Layer.succeed(StateStore.StateStore, w.store))
      )
      const built = yield* Effect.all([Layer.build(layer), Layer.build(layer)], { concurrency: 2 }).pipe(
        Effect.withRandom(Random.make("members"))
      )
      const members = yield* w.store.listMembers("app")
      assert.strictEqual(new Set(members.map(({ memberId }) => memberId)).size, built.length)
    }))
})

describe("unlisted-stream-still-read", () => {
  it.scoped("a restart with fewer streams: the others are read by who knows them", () =>
    Effect.gen(function*() {
      const w = yield* streamsWorld("payments", "refunds")
      const all = ["orders", "payments", "refunds"]
      const before = yield* faulty(w, "a", { streams: all })
      const b = yield* faulty(w, "b", { streams: all })
      yield* until(Effect.map(b.service.assignment, (shards) => shards.length === 3), 10)
      yield* before.close
      const a = yield* faulty(w, "a", { streams: ["orders"] })
      yield* pass(5)
      assert.deepStrictEqual([...new Set(yield* streamsOf(a))], ["orders"])
      const held = [...(yield* streamsOf(a)), ...(yield* streamsOf(b))].sort()
      assert.deepStrictEqual(held, ["orders", "orders", "payments", "payments", "refunds", "refunds"])
    }))

  it.scoped("a rolling deploy adds a stream: who has it reads all of it", () =>
    Effect.gen(function*() {
      const w = yield* streamsWorld("payments")
      const b = yield* faulty(w, "b", { streams: ["orders"] })
      const a = yield* faulty(w, "a", { streams: ["orders", "payments"] })
      yield* pass(4)
      assert.deepStrictEqual((yield* streamsOf(a)).filter((one) => one === "payments"), ["payments", "payments"])
      assert.deepStrictEqual(yield* streamsOf(b), ["orders", "orders"])
      yield* faulty(w, "c", { streams: ["orders", "payments"] })
      yield* pass(3)
      assert.isFalse((yield* streamsOf(b)).includes("payments"))
    }))

  it.scoped("a stream is dropped by refresh, and comes back at the committed position", () =>
    Effect.gen(function*() {
      const w = yield* streamsWorld("payments")
      const a = yield* faulty(w, "a", { streams: ["orders", "payments"] })
      yield* a.consume()
      yield* putTo(w, "payments", shardId(0), names("p", 1, 3))
      yield* untilDelivered(a, 3)
      yield* pass(2)
      yield* a.service.refresh(["orders"])
      yield* pass(1)
      yield* w.faults.clearCalls
      yield* putTo(w, "payments", shardId(0), names("p", 4, 6))
      yield* pass(8)
      assert.deepStrictEqual(yield* callsFor(w, "payments"), [])
      yield* a.service.refresh(["orders", "payments"])
      yield* untilDelivered(a, 6)
      assert.deepStrictEqual(datas(yield* a.delivered), names("p", 1, 6))
    }))

  it.scoped("a stream is deleted while it is configured: a few calls a minute, the others are not touched", () =>
    Effect.gen(function*() {
      const w = yield* streamsWorld("payments")
      const a = yield* faulty(w, "a", { streams: ["orders", "payments"] })
      yield* a.consume()
      yield* pass(1)
      yield* w.kinesis.deleteStream("payments")
      yield* pass(2)
      yield* Effect.repeatN(TestClock.adjust("3 seconds"), 19)
      yield* w.faults.clearCalls
      yield* Effect.repeatN(TestClock.adjust("3 seconds"), 19)
      const perMinute = (yield* w.faults.calls).filter((call) =>
        ["describeStream", "listShards", "getShardIterator", "getRecords"].includes(call.operation) &&
        JSON.stringify(call.args).includes("\"payments\"")
      )
      assert.isAtMost(perMinute.length, 24)
      assert.deepStrictEqual((yield* a.service.health).missingStreams, ["payments"])
      assert.isAtLeast((yield* eventsOf(a, "Retrying")).filter(({ stream }) => stream === "payments").length, 1)
      yield* putTo(w, "orders", shardId(0), ["still"])
      yield* untilDelivered(a, 1)
      assert.deepStrictEqual(yield* w.faults.callsOf("getShardIterator", { stream: "orders" }), [])
      yield* w.kinesis.createStream({ name: "payments", shards: 2 })
      yield* putTo(w, "payments", shardId(0), ["anew"])
      yield* until(Effect.map(eventsOf(a, "StreamRecreated"), (all) => all.length === 1))
      yield* until(Effect.map(a.delivered, (all) => datas(all).includes("anew")))
    }))

  it.scoped("rows of a stream that nobody configures: no calls, no deletion; and nothing of it is told", () =>
    Effect.gen(function*() {
      const w = yield* streamsWorld("payments")
      const before = yield* faulty(w, "a", { streams: ["payments"] })
      yield* before.close
      const rows = yield* rowsOf(w, "payments")
      yield* w.faults.clearCalls
      const a = yield* faulty(w, "a", { streams: ["orders"] })
      yield* a.consume()
      yield* pass(10)
      assert.deepStrictEqual(yield* rowsOf(w, "payments"), rows)
      assert.deepStrictEqual(yield* callsFor(w, "payments"), [])
      assert.deepStrictEqual((yield* a.service.health).unownedStreams, [])
    }))
})

describe("control-plane-calls-grow-with-members", () => {
  it.scoped("the calls of a minute are those of one member; while they are throttled, nothing moves", () =>
    Effect.gen(function*() {
      const w = yield* streamsWorld()
      const options = { syncInterval: "2 seconds", polling: { idleInterval: "10 seconds" } } as const
      const control = Effect.map(
        w.faults.calls,
        (calls) => calls.filter(({ operation }) => operation === "listShards" || operation === "describeStream").length
      )
      const minute = Effect.gen(function*() {
        yield* w.faults.clearCalls
        yield* Effect.repeatN(TestClock.adjust("4 seconds"), 14)
        return yield* control
      })
      yield* faulty(w, "m0", options)
      yield* TestClock.adjust("4 seconds")
      const one = yield* minute
      const members = yield* Effect.forEach(
        names("m", 1, 5),
        (id) => faulty(w, id, options),
        { concurrency: "unbounded" }
      )
      yield* TestClock.adjust("6 seconds")
      const six = yield* minute
      assert.isAtMost(six, one + 2)
      const held = yield* leases(w)
      const [member] = members
      yield* w.faults.addKinesis({ on: ["describeStream", "listShards"] }, {
        _tag: "Fail",
        applied: false,
        failure: { _tag: "Named", reason: "Throttled" }
      })
      yield* Effect.repeatN(TestClock.adjust("4 seconds"), 9)
      assert.deepStrictEqual(yield* leases(w), held)
      assert.isTrue(member === undefined || (yield* member.service.health).delivering)
      assert.strictEqual((yield* w.store.listMembers("app")).length, 6)
    }))
})
