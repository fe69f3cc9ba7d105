/** `whileLeased`: what it does not begin, and what it interrupts. */
import { assert, describe, it } from "@effect/vitest"
import { Kinesumer, KinesumerError } from "@kinesumer/core"
import { Effect, Exit, Fiber, Ref } from "effect"
import { dataOf, failureOf, log, oneShard, shaky, start, steal } from "./processSupport.js"
import { member, names, pass, putTo, shardId, until, world } from "./support.js"

describe("whileLeased", () => {
  it.scoped("runs the effect while the lease is held, and passes its errors on", () =>
    Effect.gen(function*() {
      const w = yield* oneShard
      yield* putTo(w, "orders", shardId(0), names("a", 1, 1))
      const m = yield* member(w)
      const exits = yield* Ref.make<ReadonlyArray<Exit.Exit<number, string | KinesumerError.LeaseLost>>>([])
      const use = <A, E>(effect: Effect.Effect<A, E, Kinesumer.Kinesumer>) =>
        Effect.provideService(effect, Kinesumer.Kinesumer, m.service)
      yield* start(m, (record) =>
        Effect.gen(function*() {
          const good = yield* use(Effect.exit(Effect.succeed(record.epoch).pipe(Kinesumer.whileLeased(record))))
          const bad = yield* use(Effect.exit(Effect.fail("no").pipe(Kinesumer.whileLeased(record))))
          yield* Ref.set(exits, [good, bad])
        }))
      yield* until(Effect.map(Ref.get(exits), (all) => all.length === 2))
      assert.deepStrictEqual(yield* Ref.get(exits), [Exit.succeed(1), Exit.fail("no")])
    }))

  it.scoped("fails with LeaseLost, and interrupts the effect, when the lease goes meanwhile; after that it begins none", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders", shards: 2 })
      yield* putTo(w, "orders", shardId(0), names("a", 1, 1))
      const m = yield* member(w)
      yield* m.consume()
      yield* until(Effect.map(m.delivered, (all) => all.length === 1))
      const [record] = yield* m.delivered
      assert.isDefined(record)
      const cut = yield* log
      const writing = yield* Effect.fork(
        m.service.whileLeased(record, Effect.onInterrupt(Effect.never, () => cut.add(dataOf(record))))
      )
      yield* steal(w)
      yield* until(Effect.map(cut.size, (size) => size === 1), 20)
      assert.instanceOf(failureOf(yield* Fiber.await(writing)), KinesumerError.LeaseLost)
      const late = yield* Effect.exit(m.service.whileLeased(record, cut.add("late")))
      assert.instanceOf(failureOf(late), KinesumerError.LeaseLost)
      assert.deepStrictEqual(yield* cut.all, ["a1"])
    }))

  it.scoped("gives up by itself when no heartbeat has succeeded for the liveness timeout", () =>
    Effect.gen(function*() {
      const { broken, m } = yield* shaky(1)
      yield* m.consume()
      yield* until(Effect.map(m.delivered, (all) => all.length === 1))
      const [record] = yield* m.delivered
      assert.isDefined(record)
      yield* Ref.set(broken, true)
      const writing = yield* Effect.fork(m.service.whileLeased(record, Effect.never))
      yield* pass(3)
      assert.isTrue((yield* Fiber.poll(writing))._tag === "None")
      yield* pass(4)
      assert.instanceOf(failureOf(yield* Fiber.await(writing)), KinesumerError.LeaseLost)
      assert.instanceOf(
        failureOf(yield* Effect.exit(m.service.whileLeased(record, Effect.void))),
        KinesumerError.LeaseLost
      )
    }))

  it.scoped("in a handler of process, its LeaseLost is no failure of the record", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders", shards: 2 })
      yield* putTo(w, "orders", shardId(0), names("a", 1, 1))
      const m = yield* member(w)
      const letters = yield* log
      const begun = yield* log
      const running = yield* start(
        m,
        (record) => Effect.zipRight(begun.add(dataOf(record)), m.service.whileLeased(record, Effect.never)),
        { onFailure: ({ record }) => letters.add(dataOf(record)) }
      )
      yield* until(Effect.map(begun.size, (size) => size === 1))
      yield* steal(w)
      yield* pass(8)
      assert.deepStrictEqual(yield* letters.all, [])
      assert.isTrue((yield* Fiber.poll(running))._tag === "None")
    }))

  it.scoped("nor is it where only this member can't be sure of its lease: the record is handled again", () =>
    Effect.gen(function*() {
      const { broken, m } = yield* shaky(1)
      const begun = yield* log
      const done = yield* log
      // A failure would end it.
      yield* start(
        m,
        (record) =>
          begun.add(dataOf(record)).pipe(
            Effect.zipRight(m.service.whileLeased(record, Effect.sleep("8 seconds"))),
            Effect.zipRight(done.add(`${record.epoch} ${dataOf(record)}`))
          )
      )
      yield* until(Effect.map(begun.size, (size) => size === 1))
      yield* Ref.set(broken, true)
      yield* pass(10)
      yield* Ref.set(broken, false)
      yield* until(Effect.map(done.size, (size) => size === 1))
      assert.deepStrictEqual(yield* done.all, ["2 a1"])
    }))

  it.scoped("nor of a dead letter: it is put when the member is sure of its lease again", () =>
    Effect.gen(function*() {
      const { broken, m } = yield* shaky(2)
      const begun = yield* log
      const letters = yield* log
      const running = yield* start(m, () => Effect.fail("poison"), {
        onFailure: ({ record }) =>
          begun.add(dataOf(record)).pipe(
            Effect.zipRight(m.service.whileLeased(record, Effect.sleep("8 seconds"))),
            Effect.zipRight(letters.add(dataOf(record)))
          )
      })
      yield* until(Effect.map(begun.size, (size) => size === 1))
      yield* Ref.set(broken, true)
      yield* pass(10)
      assert.isTrue((yield* Fiber.poll(running))._tag === "None")
      yield* Ref.set(broken, false)
      yield* until(Effect.map(letters.size, (size) => size === 2), 40)
      assert.deepStrictEqual(yield* letters.all, ["a1", "a2"])
    }))
})
