/** Subscriptions that end while events are queued and one is in hand. */
import { assert, describe, it } from "@effect/vitest"
import { type KinesisError, Position } from "@kinesumer/core"
import { Faults } from "@kinesumer/test-kit"
import { Effect, Option, Ref, TestClock } from "effect"
import { names, putTo, shardId, until } from "../group/support.js"
import { assertPaced, nameOf, rareFanOut, reading, shardHealth, startsOf, triesOf } from "./fan-out-support.js"
import { bothViews, eventsOf, type FaultyWorld, faultyWorld } from "./reading-support.js"

const a = shardId(0)

/** What Kinesis gave, in order: the name of each record, and with which subscription it came. */
const noteEvents = (w: FaultyWorld) =>
  Effect.gen(function*() {
    const handed: Array<{ readonly name: string; readonly sequenceNumber: string; readonly subscription: number }> = []
    const begun: Array<Position.Position> = []
    yield* w.faults.add(
      { on: "subscribeToShard" },
      Faults.rewriteEvents((event, { args: [, , { position }] }) => {
        if (begun.at(-1) !== position) begun.push(position)
        for (const record of event.records) {
          handed.push({ name: nameOf(record), sequenceNumber: record.sequenceNumber, subscription: begun.length })
        }
        return [event]
      })
    )
    return { handed, begun }
  })

interface Kind {
  readonly what: string
  readonly error: KinesisError.KinesisErrorReason | undefined
}

const kinds: ReadonlyArray<Kind> = [
  { what: "normally", error: undefined },
  { what: "with an error", error: "Unavailable" },
  { what: "by a takeover", error: "ResourceInUse" }
]

describe("fanout-ends-with-batch-in-hand", () => {
  for (const view of bothViews) {
    for (const { error, what } of kinds) {
      it.scoped(`${view}: twelve rotations that end ${what}`, () =>
        Effect.gen(function*() {
          const w = yield* faultyWorld()
          yield* w.kinesis.createStream({ name: "orders" })
          const { begun, handed } = yield* noteEvents(w)
          const most = yield* Ref.make(0)
          const { m, ...run } = yield* reading(w, view, { ...rareFanOut, bufferSize: 60 }, () =>
            Effect.sleep("500 millis"))
          let put = 0
          /** Events of five records, each by itself. */
          const putEvents = (count: number) =>
            Effect.repeatN(
              Effect.gen(function*() {
                yield* putTo(w, "orders", a, names("a", put + 1, put + 5))
                put += 5
                yield* TestClock.adjust("1 millis")
              }),
              count - 1
            )
          const look = Effect.flatMap(m.service.health, ({ bufferedRecords }) =>
            Ref.update(most, (before) =>
              Math.max(before, bufferedRecords)))
          yield* TestClock.adjust("6 seconds")
          for (let rotation = 0; rotation < 12; rotation++) {
            // One is half pulled, and behind it wait 0, 1 or 10.
            const queued = [0, 1, 10][rotation % 3] ?? 0
            const accepted = [0, 6, 20][Math.floor(rotation / 3) % 3] ?? 0
            yield* putEvents(queued + 1)
            yield* TestClock.adjust("1 second")
            yield* look
            assert.strictEqual((yield* shardHealth(m)).bufferedRecords, queued * 5)
            const tries = (yield* triesOf(w)).length
            const last = handed.at(-1)
            const rule = yield* w.faults.add({ on: "subscribeToShard" }, Faults.fail("ResourceInUse"))
            if (accepted === 0) {
              yield* rule.heal
            }
            assert.strictEqual(yield* w.kinesis.endSubscriptions({ error }), 1)
            yield* TestClock.adjust(`${accepted} seconds`)
            yield* rule.heal
            yield* putEvents(1)
            yield* look
            yield* until(
              Effect.map(run.count, (count) =>
                count === put),
              60
            )
            yield* TestClock.adjust("5 seconds")
            assert.strictEqual(yield* run.count, put)
            // It begins after the last event that was received, not the last one that was pulled.
            const next = (yield* startsOf(w))[tries]
            assert.deepStrictEqual(next, Position.afterSequence(last?.sequenceNumber ?? ""))
            assert.isTrue((yield* m.service.health).healthy)
          }
          assert.deepStrictEqual(yield* run.datas, names("a", 1, put))
          // Kinesis was asked for nothing twice, and an old subscription gave nothing after the next had begun.
          assert.deepStrictEqual(
            handed.map(({ name }) =>
              name
            ),
            names("a", 1, put)
          )
          assert.isTrue(handed.every(({ subscription }, n) =>
            subscription >= (handed[n - 1]?.subscription ?? 0)
          ))
          assert.isAtLeast(begun.length, 12)
          assert.isAtMost(yield* Ref.get(most), 60)
          yield* assertPaced(w)
          assert.deepStrictEqual(yield* eventsOf(m, "RecordsLost"), [])
        }))

      it.scoped(`${view}: a consumer that pulls nothing holds up a rotation that ends ${what}`, () =>
        Effect.gen(function*() {
          const w = yield* faultyWorld()
          yield* w.kinesis.createStream({ name: "orders" })
          const { handed } = yield* noteEvents(w)
          const gate = yield* Effect.makeLatch()
          const { m, ...run } = yield* reading(w, view, { ...rareFanOut, bufferSize: 10 }, () => gate.await)
          yield* TestClock.adjust("6 seconds")
          for (let event = 0; event < 6; event++) {
            yield* putTo(w, "orders", a, names("a", event * 5 + 1, event * 5 + 5))
            yield* TestClock.adjust("1 second")
          }
          // One in hand, two that wait; and one on its way, unless the share of the shard is what is full.
          const held = view === "records" ? 20 : 15
          assert.strictEqual((yield* shardHealth(m)).bufferedRecords, 10)
          assert.strictEqual(handed.length, held)
          assert.strictEqual(yield* w.kinesis.endSubscriptions({ error }), 1)
          yield* TestClock.adjust("5 minutes")
          assert.strictEqual((yield* triesOf(w)).length, 1)
          assert.strictEqual((yield* m.service.health).bufferedRecords, 10)
          yield* gate.open
          yield* TestClock.adjust("10 seconds")
          assert.deepStrictEqual(yield* run.datas, names("a", 1, 30))
          assert.deepStrictEqual(handed.map(({ name }) => name), names("a", 1, 30))
          assert.deepStrictEqual(
            (yield* startsOf(w))[1],
            Position.afterSequence(handed[held - 1]?.sequenceNumber ?? "")
          )
          assert.isTrue((yield* m.service.health).healthy)
          yield* assertPaced(w)
        }))
    }
  }

  it.scoped("records: the end of the shard comes with records in hand and in the queue: its end is written after them", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* w.kinesis.createStream({ name: "orders" })
      const { m, ...run } = yield* reading(w, "records", { bufferSize: 3 }, () => Effect.sleep("500 millis"))
      yield* putTo(w, "orders", a, names("a", 1, 10))
      const [left] = yield* w.kinesis.split("orders", a)
      yield* putTo(w, "orders", left.shardId, ["l1"])
      yield* until(Effect.map(run.count, (count) => count === 10), 10)
      assert.deepStrictEqual(yield* eventsOf(m, "ShardEnded"), [])
      yield* until(Effect.map(run.count, (count) => count === 11), 20)
      assert.deepStrictEqual(yield* run.datas, [...names("a", 1, 10), "l1"])
      assert.strictEqual((yield* eventsOf(m, "ShardEnded")).length, 1)
      // The end came with the last event of the only subscription.
      assert.strictEqual((yield* triesOf(w)).length, 1)
      assert.isTrue(Option.isNone((yield* m.service.health).failure))
    }))
})
