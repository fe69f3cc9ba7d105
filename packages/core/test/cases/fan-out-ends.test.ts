/** The end of a shard, as a subscription tells it: with children or without, too early, or while a handler fails. */
import { assert, describe, it } from "@effect/vitest"
import { KinesisError, Position } from "@kinesumer/core"
import { Faults } from "@kinesumer/test-kit"
import { Effect, Option, Ref } from "effect"
import { names, pass, putTo, shardId, until } from "../group/support.js"
import { assertPaced, fanOut, nameOf, reading, startsOf, triesOf } from "./fan-out-support.js"
import { after, bothViews, eventsOf, faulty, faultyWorld, positionOf, reader } from "./reading-support.js"

const a = shardId(0)

const makeWorld = Effect.gen(function*() {
  const w = yield* faultyWorld()
  yield* w.kinesis.createStream({ name: "orders" })
  return w
})

describe("the end of a shard", () => {
  for (const view of bothViews) {
    it.scoped(`${view}: an event without children is an end when the list agrees, and nothing is delivered again`, () =>
      Effect.gen(function*() {
        const w = yield* makeWorld
        yield* w.faults.add(
          { on: "subscribeToShard", shardId: a },
          Faults.rewriteEvents((event) => [{ ...event, childShards: [] }])
        )
        const { m, ...run } = yield* reading(w, view)
        yield* putTo(w, "orders", a, names("a", 1, 5))
        const [left] = yield* w.kinesis.split("orders", a)
        yield* putTo(w, "orders", left.shardId, ["l1"])
        yield* until(Effect.map(run.count, (count) => count === 6), 60)
        assert.deepStrictEqual(yield* run.datas, [...names("a", 1, 5), "l1"])
        assert.deepStrictEqual(yield* positionOf(w), Option.some(Position.shardEnd))
        assert.strictEqual((yield* eventsOf(m, "ShardEnded")).length, 1)
        assert.deepStrictEqual(yield* eventsOf(m, "RecordsLost"), [])
        yield* assertPaced(w)
      }))

    it.scoped(`${view}: what looks like an end of an open shard is none, and reading goes on behind its records`, () =>
      Effect.gen(function*() {
        const w = yield* makeWorld
        yield* w.faults.add(
          { on: "subscribeToShard", times: 3 },
          Faults.rewriteEvents((event) => [{ ...event, continuation: Option.none() }])
        )
        const { m, ...run } = yield* reading(w, view)
        yield* putTo(w, "orders", a, names("a", 1, 5))
        yield* pass(2)
        yield* putTo(w, "orders", a, names("a", 6, 10))
        yield* until(Effect.map(run.count, (count) => count === 10), 60)
        yield* pass(40)
        yield* putTo(w, "orders", a, names("a", 11, 15))
        yield* until(Effect.map(run.count, (count) => count === 15), 60)
        assert.deepStrictEqual(yield* run.datas, names("a", 1, 15))
        assert.deepStrictEqual(yield* eventsOf(m, "ShardEnded"), [])
        assert.deepStrictEqual((yield* startsOf(w))[1], Option.getOrThrow(yield* after(w, 5)))
        yield* assertPaced(w)
      }))

    it.scoped(`${view}: a handler that fails behind the end gets its records again, and the end after them`, () =>
      Effect.gen(function*() {
        const w = yield* makeWorld
        yield* putTo(w, "orders", a, names("a", 1, 5))
        const [left] = yield* w.kinesis.split("orders", a)
        yield* putTo(w, "orders", left.shardId, ["l1"])
        const m = yield* faulty(w, fanOut)
        const failed = yield* Ref.make(false)
        const run = yield* reader(m, view, (record) =>
          nameOf(record) === "a4"
            // Late enough for the end to be read.
            ? Effect.flatMap(Ref.getAndSet(failed, true), (isOver) =>
              isOver ? Effect.void : Effect.zipRight(Effect.sleep("2 seconds"), Effect.fail("broken" as const)))
            : Effect.void)
        yield* Effect.fork(Effect.retry(run.run, { while: (error) => error === "broken" }))
        yield* until(Effect.map(run.count, (count) => count >= 4), 5)
        yield* pass(1)
        assert.deepStrictEqual((yield* m.service.health).shards.map(({ ending }) => ending), [true])
        yield* until(Effect.map(run.datas, (all) => all.includes("l1")), 60)
        assert.deepStrictEqual(yield* run.datas, [...names("a", 1, 4), ...names("a", 1, 5), "l1"])
        assert.strictEqual((yield* eventsOf(m, "ShardEnded")).length, 1)
        yield* assertPaced(w)
      }))
  }

  it.scoped("a shard that Kinesis forgets while it is read is over when the list agrees", () =>
    Effect.gen(function*() {
      const w = yield* makeWorld
      const { m, ...run } = yield* reading(w, "records")
      yield* putTo(w, "orders", a, names("a", 1, 5))
      yield* until(Effect.map(run.count, (count) => count === 5), 5)
      yield* m.service.pause("orders")
      yield* putTo(w, "orders", a, names("lost", 1, 5))
      const [left] = yield* w.kinesis.split("orders", a)
      yield* w.kinesis.forgetShard("orders", a)
      yield* w.kinesis.endSubscriptions()
      yield* putTo(w, "orders", left.shardId, ["l1"])
      yield* m.service.resume("orders")
      yield* until(Effect.map(run.datas, (all) => all.includes("l1")), 200)
      assert.deepStrictEqual((yield* eventsOf(m, "RecordsLost")).map(({ reason }) => reason), ["ShardGone"])
      assert.strictEqual((yield* eventsOf(m, "ShardEnded")).length, 1)
      yield* assertPaced(w)
    }))

  it.scoped("a position that Kinesis refuses is given up once, and told", () =>
    Effect.gen(function*() {
      const w = yield* makeWorld
      const { m, ...run } = yield* reading(w, "records")
      yield* putTo(w, "orders", a, names("a", 1, 5))
      yield* until(Effect.map(run.count, (count) => count === 5), 5)
      yield* w.faults.add(
        { on: "subscribeToShard", shardId: a, times: 2 },
        Faults.fail(
          new KinesisError.KinesisError({
            reason: "InvalidArgument",
            operation: "subscribeToShard",
            stream: "orders",
            shardId: a,
            detail: "The sequence number is not one of this shard"
          })
        )
      )
      yield* w.kinesis.endSubscriptions()
      yield* until(Effect.map(run.count, (count) => count === 10), 30)
      assert.deepStrictEqual(yield* run.datas, [...names("a", 1, 5), ...names("a", 1, 5)])
      assert.deepStrictEqual((yield* eventsOf(m, "RecordsLost")).map(({ reason }) => reason), ["Refused"])
      assert.deepStrictEqual((yield* startsOf(w)).at(-1), Position.trimHorizon)
      yield* pass(20)
      assert.strictEqual(yield* run.count, 10)
      assert.isAtMost((yield* triesOf(w)).length, 8)
      yield* assertPaced(w)
    }))
})
