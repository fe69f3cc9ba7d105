/** Connections that die without a word, as far as the engine has to notice; the client's part is tested beside it. */
import { assert, describe, it } from "@effect/vitest"
import type { KinesisError } from "@kinesumer/core"
import { Position } from "@kinesumer/core"
import { Faults } from "@kinesumer/test-kit"
import { Effect, Option, Ref, TestClock } from "effect"
import { names, pass, putTo, shardId, until } from "../group/support.js"
import { assertPaced, fanOut, rareFanOut, reading, shardHealth, startsOf, triesOf } from "./fan-out-support.js"
import { bothViews, eventsOf, faulty, faultyWorld, manual, reader } from "./reading-support.js"

const a = shardId(0)
const others = [1, 2, 3].map(shardId)

interface Variant {
  readonly what: string
  readonly action: Faults.Action<"subscribeToShard">
  /** How it shows. */
  readonly reason: KinesisError.KinesisErrorReason
}

const variants: ReadonlyArray<Variant> = [
  { what: "b: the call is accepted and never answered", action: Faults.hang, reason: "Timeout" },
  { what: "b: the call takes effect and is never answered", action: Faults.hangAfter, reason: "Timeout" },
  {
    what: "d: an open subscription is cut without a packet",
    action: Faults.hangEvents({ after: 2 }),
    reason: "Timeout"
  },
  { what: "f: the call would fail after 5 minutes", action: Faults.delay("5 minutes"), reason: "Timeout" }
]

describe("dead-connection-looks-like-silence", () => {
  for (const view of bothViews) {
    for (const { action, reason, what } of variants) {
      it.scoped(`${view}: ${what}`, () =>
        Effect.gen(function*() {
          const w = yield* faultyWorld()
          yield* w.kinesis.createStream({ name: "orders", shards: 4 })
          const { m, ...run } = yield* reading(w, view, {
            ...rareFanOut,
            livenessTimeout: "2 minutes",
            fanOut: { watchdog: "20 seconds" }
          })
          const of = (id: string) => Effect.map(run.seen, (all) => all.filter((record) => record.shardId === id).length)
          /** A record a second for each shard. */
          const second = (n: number) =>
            Effect.zipRight(
              Effect.forEach([a, ...others], (id) => putTo(w, "orders", id, [`${id}-${n}`]), { discard: true }),
              TestClock.adjust("1 second")
            )
          for (let n = 1; n <= 10; n++) yield* second(n)
          // The next subscription of the first shard is the one that dies.
          yield* w.faults.add({ on: "subscribeToShard", shardId: a, nth: 1 }, action)
          yield* w.kinesis.endSubscriptions({ shardId: a })
          let most = 0
          for (let n = 11; n <= 60; n++) {
            yield* second(n)
            for (const id of others) assert.strictEqual(yield* of(id), n, "the others keep their pace")
            most = Math.max(most, n - (yield* of(a)))
          }
          // The watchdog, a back-off and the seconds in which Kinesis keeps a subscription that it takes for alive.
          assert.isAtLeast(most, 15)
          assert.isAtMost(most, 30)
          for (const id of [a, ...others]) {
            assert.deepStrictEqual(
              (yield* run.datas).filter((name) => name.startsWith(id)),
              names(`${id}-`, 1, 60)
            )
          }
          const [error] = (yield* eventsOf(m, "Retrying")).map(({ error }) => error).filter((error) =>
            error.reason === reason
          )
          assert.isDefined(error)
          assert.include(error.message, a)
          assert.include(error.message, "fanOut.watchdog")
          // It was given up, so that its connection can be had again.
          const dead = (yield* triesOf(w, a))[1]
          assert.isDefined(dead)
          assert.isAtMost(Option.getOrThrow(dead.endedAt) - dead.at, what.startsWith("d") ? 30_000 : 20_000)
          assert.isTrue((yield* startsOf(w, a)).slice(1).every(Position.is("AfterSequence")))
          assert.strictEqual((yield* w.kinesis.subscriptions({ shardId: a })).length, 1)
          yield* assertPaced(w, [a, ...others])
        }))
    }
  }

  it.scoped("d: an idle shard goes on from the last continuation, and heartbeats do not wait", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* w.kinesis.createStream({ name: "orders" })
      const continuations: Array<string> = []
      yield* w.faults.add(
        { on: "subscribeToShard" },
        Faults.rewriteEvents((event) => {
          continuations.push(...Option.toArray(event.continuation))
          return [event]
        })
      )
      yield* w.faults.add({ on: "subscribeToShard", nth: 1 }, Faults.hangEvents({ after: 3 }))
      const { m, ...run } = yield* reading(w, "records", fanOut)
      yield* pass(17)
      const last = continuations.at(-1)
      const beats = (yield* w.faults.callsOf("heartbeat")).length
      yield* pass(20)
      assert.strictEqual((yield* triesOf(w)).length, 1)
      // Every 2 seconds, as before.
      assert.isAtLeast((yield* w.faults.callsOf("heartbeat")).length - beats, 9)
      assert.isAtLeast(Option.getOrThrow((yield* shardHealth(m)).millisSinceAnswer), 20_000)
      yield* putTo(w, "orders", a, ["a1"])
      yield* until(Effect.map(run.count, (count) => count === 1), 15)
      assert.deepStrictEqual((yield* startsOf(w))[1], Position.afterSequence(last ?? ""))
    }))

  it.scoped("closing does not wait for a subscription that is never answered, nor for one that is silent", () =>
    Effect.gen(function*() {
      for (
        const action of [Faults.hang, Faults.hangAfter, Faults.hangEvents(), Faults.hangEvents({ after: 1 })] as const
      ) {
        const w = yield* faultyWorld()
        yield* w.kinesis.createStream({ name: "orders" })
        yield* w.faults.add({ on: "subscribeToShard" }, action)
        const { m } = yield* reading(w, "records")
        yield* pass(7)
        const closing = yield* Effect.fork(m.close)
        yield* until(Effect.map(closing.status, (status) => status._tag === "Done"), 1)
        assert.deepStrictEqual(yield* w.kinesis.subscriptions(), [])
        assert.deepStrictEqual(yield* eventsOf(m, "CloseIncomplete"), [])
        assert.strictEqual((yield* triesOf(w)).at(-1)?.outcome, "interrupted")
      }
    }))
})

describe("fanout-client-forgets-credentials", () => {
  const consumerName = "reader"

  it.scoped("each subscription carries its stream, as it was given, and a consumer of that very stream", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      const { arn: own } = yield* w.kinesis.createStream({ name: "orders" })
      const { arn: other } = yield* w.kinesis.createStream({ name: "orders", account: "111111111111" })
      const { m, ...run } = yield* reading(w, "records", { streams: ["orders", other], fanOut: { consumerName } })
      yield* putTo(w, "orders", a, names("x", 1, 3))
      yield* putTo(w, other, a, names("y", 1, 3))
      yield* until(Effect.map(run.count, (count) => count === 6), 5)
      yield* pass(6)
      yield* w.kinesis.endSubscriptions()
      yield* putTo(w, "orders", a, names("x", 4, 5))
      yield* putTo(w, other, a, names("y", 4, 5))
      yield* until(Effect.map(run.count, (count) => count === 10), 15)
      const calls = (yield* triesOf(w)).map(({ args: [stream, , { consumerArn }] }) => ({ stream, consumerArn }))
      assert.isAtLeast(calls.length, 4)
      for (const { consumerArn, stream } of calls) {
        const arn = Option.getOrElse(stream.arn, () => own)
        assert.isTrue(consumerArn.startsWith(`${arn}/consumer/${consumerName}:`), `${consumerArn} of ${arn}`)
      }
      assert.deepStrictEqual(
        [...new Set(calls.map(({ stream }) => Option.getOrUndefined(stream.arn)))].sort(),
        [other, undefined]
      )
      // Two streams of one name: each has its own records and its own row.
      const seen = yield* run.seen
      const datasOf = (label: string) =>
        Effect.map(run.datas, (all) => all.filter((_, index) => seen[index]?.stream === label))
      assert.deepStrictEqual(yield* datasOf("orders"), names("x", 1, 5))
      assert.deepStrictEqual(yield* datasOf(other), names("y", 1, 5))
      yield* pass(2)
      assert.strictEqual((yield* w.store.listCheckpoints("app", "orders")).length, 1)
      assert.strictEqual((yield* w.store.listCheckpoints("app", other)).length, 1)
      yield* m.close
    }))

  it.scoped("credentials that are changed while a subscription is open: it goes on, and the next one with the new ones", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* w.kinesis.createStream({ name: "orders" })
      const { m, ...run } = yield* reading(w, "records")
      yield* putTo(w, "orders", a, names("a", 1, 3))
      yield* pass(1)
      const old = yield* w.faults.add({ on: "subscribeToShard" }, Faults.fail("AccessDenied"))
      yield* putTo(w, "orders", a, names("a", 4, 6))
      yield* pass(1)
      assert.strictEqual(yield* run.count, 6)
      yield* pass(5)
      yield* w.kinesis.endSubscriptions({ error: "AccessDenied" })
      yield* putTo(w, "orders", a, names("a", 7, 9))
      yield* pass(30)
      assert.strictEqual(yield* run.count, 6)
      assert.isFalse((yield* m.service.health).healthy)
      yield* old.heal
      yield* until(Effect.map(run.count, (count) => count === 9), 31)
      assert.deepStrictEqual(yield* run.datas, names("a", 1, 9))
      assert.deepStrictEqual(yield* eventsOf(m, "RecordsLost"), [])
      assert.isTrue((yield* m.service.health).healthy)
    }))
})

describe("a reader that is interrupted", () => {
  for (const view of bothViews) {
    it.scoped(`${view}: at any moment, its successor goes on where it was, and nothing of it is left`, () =>
      Effect.gen(function*() {
        const w = yield* faultyWorld()
        yield* w.kinesis.createStream({ name: "orders" })
        let put = 0
        const all = yield* Ref.make<ReadonlyArray<string>>([])
        // From before the first call to the middle of an event that does not fit.
        for (const millis of [0, 1, 2, 3, 100, 1_000, 2_000, 2_500, 3_333, 5_000, 5_001, 6_000]) {
          yield* putTo(w, "orders", a, names("a", put + 1, put + 20))
          put += 20
          const m = yield* faulty(w, { ...fanOut, ...manual, bufferSize: 4, memberId: `m${millis}` })
          const run = yield* reader(
            m,
            view,
            (record) => Effect.zipRight(Effect.sleep("200 millis"), Effect.ignore(m.service.mark([record])))
          )
          yield* Effect.fork(run.run)
          yield* TestClock.adjust(millis)
          yield* m.close
          const datas = yield* run.datas
          yield* Ref.update(all, (before) => [...before, ...datas])
          assert.deepStrictEqual(yield* w.kinesis.subscriptions(), [])
          yield* TestClock.adjust("5 seconds")
        }
        const { m, ...run } = yield* reading(w, view, { memberId: "last" })
        yield* until(Effect.map(run.datas, (datas) => datas.includes(`a${put}`)), 20)
        const datas = [...(yield* Ref.get(all)), ...(yield* run.datas)]
        assert.deepStrictEqual([...new Set(datas)], names("a", 1, put))
        assert.deepStrictEqual((yield* m.service.health).bufferedRecords, 0)
      }))
  }
})
