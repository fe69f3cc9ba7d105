/** Kinesis pushes faster than the handler works: what is held, and that it is asked for no more than that. */
import { assert, describe, it } from "@effect/vitest"
import { type KinesumerConfig, Position } from "@kinesumer/core"
import { Faults } from "@kinesumer/test-kit"
import { Effect, Fiber, TestClock } from "effect"
import { shardId } from "../group/support.js"
import { assertPaced, isRunning, rareFanOut, startsOf, triesOf } from "./fan-out-support.js"
import {
  bothViews,
  eventsOf,
  faulty,
  type FaultyWorld,
  faultyWorld,
  type Handler,
  reader,
  type View
} from "./reading-support.js"

const megabyte = 1_000_000

/** Records of one size, the key included, that share their bytes. */
const put = (w: FaultyWorld, id: string, count: number, bytes: Uint8Array) =>
  Effect.repeatN(
    w.kinesis.putTo({ stream: "orders", shardId: id, data: bytes.subarray(1), partitionKey: "k" }),
    count - 1
  )

/** The sequence numbers that were handed out by Kinesis for each shard. */
const noteEvents = (w: FaultyWorld) =>
  Effect.gen(function*() {
    const handed = new Map<string, Array<string>>()
    let mostRecords = 0
    yield* w.faults.add(
      { on: "subscribeToShard" },
      Faults.rewriteEvents((event, { args: [, id] }) => {
        handed.set(id, [...(handed.get(id) ?? []), ...event.records.map(({ sequenceNumber }) => sequenceNumber)])
        mostRecords = Math.max(mostRecords, event.records.length)
        return [event]
      })
    )
    return {
      of: (id: string): ReadonlyArray<string> => handed.get(id) ?? [],
      mostRecords: () => mostRecords
    }
  })

/** Reads everything, and looks at each record at what is held. */
const consume = (options: {
  readonly shards: number
  readonly records: number
  readonly recordBytes: number
  readonly view: View
  readonly config: Partial<KinesumerConfig.KinesumerOptions> & { readonly bufferBytes: number }
  /** What a record takes; there is one at a time. */
  readonly handleMillis: number
  /** With this record the handler stops for 6 minutes: longer than a subscription lives. */
  readonly stopAt: number
}) =>
  Effect.gen(function*() {
    const { config, handleMillis, recordBytes, records, shards, stopAt, view } = options
    const ids = Array.from({ length: shards }, (_, index) => shardId(index))
    const w = yield* faultyWorld()
    yield* w.kinesis.createStream({ name: "orders", shards })
    const bytes = new Uint8Array(recordBytes)
    const handed = yield* noteEvents(w)
    const m = yield* faulty(w, { ...rareFanOut, ...config })
    const done = new Map<string, number>()
    let handled = 0
    const work = yield* Effect.makeSemaphore(1)
    const look = Effect.gen(function*() {
      const { bufferedBytes, shards } = yield* m.service.health
      assert.isAtMost(bufferedBytes, Math.max(config.bufferBytes, recordBytes))
      for (const { bufferedRecords, shardId: id } of shards) {
        const held = handed.of(id).length - (done.get(id) ?? 0) - bufferedRecords
        assert.isAtMost(held, 2, `${id} holds more than what is in hand and one event outside the buffer`)
      }
    })
    const handler: Handler = ({ shardId: id }) =>
      work.withPermits(1)(Effect.gen(function*() {
        yield* look
        // Shards at their tips take time to simulate.
        const isAllHanded = ids.every((id) => handed.of(id).length === records)
        yield* Effect.sleep(++handled === stopAt ? 6 * 60_000 : isAllHanded ? 10 : handleMillis)
        done.set(id, (done.get(id) ?? 0) + 1)
      }))
    const run = yield* reader(m, view, handler)
    const fiber = yield* Effect.fork(run.run)
    // What waits when a run of `shards` begins is given back where it is more than a share, and sent again.
    yield* TestClock.adjust("1 second")
    for (const id of ids) yield* put(w, id, records, bytes)
    const total = shards * records
    for (let left = total * handleMillis + 400_000; left > 0 && (yield* run.count) < total; left -= 10_000) {
      yield* TestClock.adjust("10 seconds")
      if (!(yield* isRunning(fiber))) {
        return yield* Effect.orDie(Effect.zipRight(Fiber.join(fiber), Effect.dieMessage("ended")))
      }
    }
    const seen = yield* run.seen
    for (const id of ids) {
      const expected = (yield* w.kinesis.records("orders", id)).map(({ sequenceNumber }) => sequenceNumber)
      assert.deepStrictEqual(
        seen.filter((record) => record.shardId === id).map(({ sequenceNumber }) => sequenceNumber),
        expected
      )
      // Nothing was sent twice, not even what was dropped again.
      assert.deepStrictEqual(handed.of(id), expected)
    }
    assert.strictEqual(handed.mostRecords(), 1)
    assert.deepStrictEqual(yield* eventsOf(m, "Retrying"), [])
    yield* assertPaced(w, ids)
    return { w, m, ids }
  })

describe("push-outruns-the-handler", () => {
  it.scoped("records: 60 shards that are 8 MB behind, of which a handler takes 1 MB a second", () =>
    Effect.gen(function*() {
      const { ids, w } = yield* consume({
        shards: 60,
        records: 8,
        recordBytes: megabyte,
        view: "records",
        config: { bufferBytes: 64 * megabyte },
        handleMillis: 1_000,
        stopAt: 100
      })
      for (const id of ids) {
        const tries = yield* triesOf(w, id)
        // Opened again when something is wanted, once for each time that it ended: 840 seconds are less than 3 times 5 minutes.
        assert.isAtMost(tries.length, 3)
        assert.isTrue((yield* startsOf(w, id)).slice(1).every(Position.is("AfterSequence")))
      }
    }))

  it.scoped("shards: each within its share", () =>
    consume({
      shards: 12,
      records: 30,
      recordBytes: megabyte,
      view: "shards",
      config: { bufferBytes: 24 * megabyte },
      handleMillis: 1_000,
      stopAt: 100
    }))

  for (const view of bothViews) {
    it.scoped(`${view}: records of 10 MB, of which six fit into the buffer`, () =>
      consume({
        shards: 10,
        records: 8,
        recordBytes: 10 * megabyte,
        view,
        config: { bufferBytes: 64 * megabyte },
        handleMillis: 10_000,
        stopAt: 15
      }))

    it.scoped(`${view}: records of 10 MB, of which none fits into the buffer`, () =>
      consume({
        shards: 3,
        records: 8,
        recordBytes: 10 * megabyte,
        view,
        config: { bufferBytes: 5 * megabyte },
        handleMillis: 10_000,
        stopAt: 5
      }))
  }

  it.scoped("a subscription that is reset while nothing is asked for is opened again at the next demand, once", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* w.kinesis.createStream({ name: "orders" })
      yield* put(w, shardId(0), 10, new Uint8Array(megabyte))
      const handed = yield* noteEvents(w)
      const m = yield* faulty(w, { ...rareFanOut, bufferBytes: 2 * megabyte })
      const gate = yield* Effect.makeLatch()
      const run = yield* reader(m, "records", () => gate.await)
      yield* Effect.fork(run.run)
      yield* TestClock.adjust("10 seconds")
      // One in hand, two in the buffer, one on its way into it.
      assert.strictEqual(handed.of(shardId(0)).length, 4)
      assert.strictEqual(yield* w.kinesis.endSubscriptions({ error: "Unavailable" }), 1)
      yield* TestClock.adjust("6 minutes")
      assert.strictEqual((yield* triesOf(w)).length, 1)
      assert.isTrue((yield* m.service.health).healthy)
      yield* gate.open
      yield* TestClock.adjust("5 seconds")
      const all = (yield* w.kinesis.records("orders", shardId(0))).map(({ sequenceNumber }) => sequenceNumber)
      assert.deepStrictEqual((yield* run.seen).map(({ sequenceNumber }) => sequenceNumber), all)
      assert.deepStrictEqual(handed.of(shardId(0)), all)
      assert.deepStrictEqual((yield* startsOf(w))[1], Position.afterSequence(all[3] ?? ""))
      assert.strictEqual((yield* eventsOf(m, "Retrying")).length, 1)
      assert.strictEqual((yield* triesOf(w)).length, 2)
    }))
})
