/** The operations of the service beside `records`. */
import { assert, describe, it } from "@effect/vitest"
import { KinesumerError } from "@kinesumer/core"
import { Chunk, Effect, Exit, Fiber, Option, Ref, Schedule, Stream } from "effect"
import { datas, member, names, pass, putTo, row, shardId, type TestMember, until, world } from "./support.js"

/** Records of 10,000 bytes, with their key. */
const large = (count: number): ReadonlyArray<string> => Array.from({ length: count }, () => "x".repeat(9_997))

/** Consumes each shard by itself, of which some are stuck, and counts the records of the others. */
const readAllBut = (
  { service }: TestMember,
  isStuck: (shard: { readonly stream: string; readonly shardId: string }) => boolean
) =>
  Effect.gen(function*() {
    const seen = yield* Ref.make(0)
    yield* Effect.fork(Stream.runDrain(Stream.flatMap(
      service.shards,
      (shard) =>
        Stream.mapEffect(
          shard.records,
          () => isStuck(shard) ? Effect.never : Ref.update(seen, (count) => count + 1)
        ),
      { concurrency: "unbounded" }
    )))
    return seen
  })

describe("pause and resume", () => {
  it.scoped("a paused stream is not delivered, keeps its leases, and goes on where it was", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders" })
      yield* w.kinesis.createStream({ name: "payments" })
      const m = yield* member(w, { streams: ["orders", "payments"] })
      yield* m.consume()
      yield* putTo(w, "orders", shardId(0), names("a", 1, 3))
      yield* until(Effect.map(m.delivered, (all) => all.length === 3))
      yield* m.service.pause("orders")
      yield* putTo(w, "orders", shardId(0), names("a", 4, 6))
      yield* putTo(w, "payments", shardId(0), names("p", 1, 3))
      yield* pass(10)
      assert.deepStrictEqual(datas(yield* m.delivered), [...names("a", 1, 3), ...names("p", 1, 3)])
      assert.strictEqual((yield* m.service.assignment).length, 2)
      assert.deepStrictEqual((yield* m.service.health).pausedStreams, ["orders"])
      yield* m.service.resume("orders")
      yield* until(Effect.map(m.delivered, (all) => all.length === 9))
      assert.deepStrictEqual(datas((yield* m.delivered).slice(6)), names("a", 4, 6))
    }))

  it.scoped("a paused stream holds no room that the others need", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders" })
      yield* w.kinesis.createStream({ name: "payments" })
      yield* putTo(w, "orders", shardId(0), names("a", 1, 40))
      const m = yield* member(w, { streams: ["orders", "payments"], bufferSize: 10 })
      yield* pass(5)
      assert.strictEqual((yield* m.service.health).bufferedRecords, 10)
      yield* m.service.pause("orders")
      yield* putTo(w, "payments", shardId(0), names("p", 1, 20))
      yield* m.consume()
      yield* until(Effect.map(m.delivered, (all) => all.length === 20))
      assert.deepStrictEqual(datas(yield* m.delivered), names("p", 1, 20))
      yield* m.service.resume("orders")
      yield* until(Effect.map(m.delivered, (all) => all.length === 60))
      assert.deepStrictEqual(datas((yield* m.delivered).slice(20)), names("a", 1, 40))
    }))
})

describe("shards", () => {
  it.scoped("runs each shard on its own: one that is stuck does not hold up the others", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders", shards: 3 })
      for (const index of [0, 1, 2]) yield* putTo(w, "orders", shardId(index), names(`${index}-`, 1, 40))
      const m = yield* member(w, { bufferSize: 30 })
      const seen = yield* Ref.make<ReadonlyArray<string>>([])
      const running = yield* Effect.fork(Stream.runDrain(Stream.flatMap(
        m.service.shards,
        (shard) =>
          Stream.mapEffect(shard.records, (record) =>
            shard.shardId === shardId(0)
              ? Effect.never
              : Ref.update(seen, (all) => [...all, ...datas([record])])),
        { concurrency: "unbounded" }
      )))
      yield* until(Effect.map(Ref.get(seen), (all) => all.length === 80))
      for (const index of [1, 2]) {
        assert.deepStrictEqual(
          (yield* Ref.get(seen)).filter((one) => one.startsWith(`${index}-`)),
          names(`${index}-`, 1, 40)
        )
      }
      assert.isAtMost((yield* m.service.health).bufferedRecords, 30)
      yield* Fiber.interrupt(running)
    }))

  it.scoped("a consumer of large records that is stuck holds its share of the bytes only", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders", shards: 2 })
      for (const index of [0, 1]) yield* putTo(w, "orders", shardId(index), large(200))
      const m = yield* member(w, { bufferBytes: 100_000, polling: { limit: 100 } })
      const seen = yield* readAllBut(m, (shard) => shard.shardId === shardId(0))
      yield* until(Effect.map(Ref.get(seen), (count) => count === 200))
      assert.isAtMost((yield* m.service.health).bufferedBytes, 50_100)
    }))

  it.scoped("a consumer whose first page is large holds its share of the bytes only, and nobody waits for it", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders", shards: 2 })
      const m = yield* member(w, { bufferBytes: 100_000 })
      const seen = yield* readAllBut(m, (shard) => shard.shardId === shardId(0))
      yield* pass(5)
      yield* putTo(w, "orders", shardId(0), large(100))
      yield* pass(5)
      assert.isAtMost((yield* m.service.health).bufferedBytes, 50_100)
      yield* putTo(w, "orders", shardId(1), names("a", 1, 5))
      yield* until(Effect.map(Ref.get(seen), (count) => count === 5))
    }))

  it.scoped("a consumer that is stuck gives room up to shards that come later", () =>
    Effect.gen(function*() {
      const w = yield* world()
      for (const name of ["orders", "payments"]) {
        yield* w.kinesis.createStream({ name })
        yield* putTo(w, name, shardId(0), large(30))
      }
      const m = yield* member(w, { bufferBytes: 100_000, polling: { limit: 10 } })
      const seen = yield* readAllBut(m, (shard) => shard.stream === "orders")
      yield* until(Effect.map(m.service.health, ({ bufferedBytes }) => bufferedBytes >= 100_000))
      yield* m.service.refresh(["orders", "payments"])
      yield* until(Effect.map(Ref.get(seen), (count) => count === 30))
    }))

  it.scoped("ends the streams of its shards when it ends, and leaves their records to the next run", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders" })
      const m = yield* member(w)
      const seen = yield* Ref.make<ReadonlyArray<string>>([])
      const shard = Option.getOrThrow(yield* Stream.runHead(m.service.shards))
      assert.strictEqual(yield* Stream.runCount(shard.records), 0)
      const outer = yield* Effect.fork(
        Stream.runForEach(
          m.service.shards,
          (one) =>
            Effect.forkDaemon(
              Stream.runForEach(one.records, (record) => Ref.update(seen, (all) => [...all, ...datas([record])]))
            )
        ).pipe(Effect.zipRight(Effect.never))
      )
      yield* putTo(w, "orders", shardId(0), names("a", 1, 3))
      yield* until(Effect.map(Ref.get(seen), (all) => all.length === 3))
      yield* Fiber.interrupt(outer)
      yield* m.consume()
      yield* putTo(w, "orders", shardId(0), names("a", 4, 6))
      yield* until(Effect.map(m.delivered, (all) => datas(all).includes("a6")))
      assert.deepStrictEqual(yield* Ref.get(seen), names("a", 1, 3))
      assert.deepStrictEqual(datas(yield* m.delivered).slice(-3), names("a", 4, 6))
    }))

  it.scoped("with fewer consumers than shards, those that are consumed get on", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders", shards: 6 })
      for (const index of [0, 1, 2, 3, 4, 5]) yield* putTo(w, "orders", shardId(index), names(`${index}-`, 1, 50))
      const m = yield* member(w, { bufferSize: 20 })
      const seen = yield* Ref.make(0)
      yield* Effect.fork(Stream.runForEach(
        Stream.flatMap(m.service.shards, (shard) => shard.records, { concurrency: 2 }),
        () => Ref.update(seen, (count) => count + 1)
      ))
      yield* until(Effect.map(Ref.get(seen), (count) => count === 100))
    }))

  it.scoped("ends the stream of a shard at its end, and gives those of its children", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders" })
      const m = yield* member(w)
      const ended = yield* Ref.make<ReadonlyArray<string>>([])
      const seen = yield* Ref.make<ReadonlyArray<string>>([])
      yield* Effect.fork(Stream.runDrain(Stream.flatMap(m.service.shards, (shard) =>
        Stream.ensuring(
          Stream.mapEffect(shard.records, (record) => Ref.update(seen, (all) => [...all, ...datas([record])])),
          Ref.update(ended, (all) => [...all, shard.shardId])
        ), { concurrency: "unbounded" })))
      yield* putTo(w, "orders", shardId(0), names("a", 1, 3))
      yield* until(Effect.map(Ref.get(seen), (all) => all.length === 3))
      const [left] = yield* w.kinesis.split("orders", shardId(0))
      yield* putTo(w, "orders", left.shardId, names("b", 1, 3))
      yield* until(Effect.map(Ref.get(seen), (all) => all.length === 6))
      assert.deepStrictEqual(yield* Ref.get(ended), [shardId(0)])
      assert.deepStrictEqual(yield* Ref.get(seen), [...names("a", 1, 3), ...names("b", 1, 3)])
    }))
})

describe("one run at a time", () => {
  it.scoped("a second run of records or shards is refused, and the next one after the first is not", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders" })
      const m = yield* member(w)
      const first = yield* m.consume()
      yield* Effect.yieldNow()
      for (const second of [Stream.runDrain(m.service.records), Stream.runDrain(m.service.shards)]) {
        assert.instanceOf(yield* Effect.flip(second), KinesumerError.AlreadyRunning)
      }
      yield* Fiber.interrupt(first)
      yield* putTo(w, "orders", shardId(0), names("a", 1, 3))
      yield* m.consume()
      yield* until(Effect.map(m.delivered, (all) => all.length === 3))
    }))

  it.scoped("Stream.retry begins again at the first record that was not processed", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders" })
      yield* putTo(w, "orders", shardId(0), names("a", 1, 6))
      const m = yield* member(w, { commit: { mode: "manual" } })
      const seen = yield* Ref.make<ReadonlyArray<string>>([])
      const failures = yield* Ref.make(0)
      yield* m.service.records.pipe(
        Stream.mapEffect((record) =>
          Effect.gen(function*() {
            const [name] = datas([record])
            yield* Ref.update(seen, (all) => name === undefined ? all : [...all, name])
            if (name === "a4" && (yield* Ref.updateAndGet(failures, (count) => count + 1)) <= 2) {
              return yield* Effect.fail("not now" as const)
            }
            yield* m.service.mark(record)
          })
        ),
        Stream.retry(Schedule.spaced("1 second")),
        Stream.runDrain,
        Effect.fork
      )
      yield* until(Effect.map(Ref.get(seen), (all) => all.includes("a6")))
      assert.deepStrictEqual(yield* Ref.get(seen), ["a1", "a2", "a3", "a4", "a4", "a4", "a5", "a6"])
    }))

  it.scoped("closing ends the stream without a failure", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders" })
      yield* putTo(w, "orders", shardId(0), names("a", 1, 3))
      const m = yield* member(w)
      const running = yield* m.consume()
      yield* until(Effect.map(m.delivered, (all) => all.length === 3))
      yield* m.close
      assert.isTrue(Exit.isSuccess(yield* Fiber.await(running)))
      assert.isTrue(Option.isSome(Option.flatMap(yield* row(w, shardId(0)), ({ position }) => position)))
    }))

  it.scoped("manual marks of a chunk are taken at once", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders" })
      yield* putTo(w, "orders", shardId(0), names("a", 1, 10))
      const m = yield* member(w, { commit: { mode: "manual" } })
      const taking = yield* Effect.fork(Stream.runCollect(Stream.take(m.service.records, 10)))
      yield* pass(1)
      const chunk = yield* Fiber.join(taking)
      yield* m.service.mark(Chunk.toReadonlyArray(chunk))
      yield* m.service.commit
      assert.isTrue(Option.isSome(Option.flatMap(yield* row(w, shardId(0)), ({ position }) => position)))
    }))
})
