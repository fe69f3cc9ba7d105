/** `processBatch`: how batches are made, and what becomes of one of which only a part failed. */
import { assert, describe, it } from "@effect/vitest"
import { Kinesumer, type KinesumerRecord, Processing } from "@kinesumer/core"
import { Effect, Fiber, Option, Ref, Schedule } from "effect"
import { committed, dataOf, log, oneShard, putKeyed, steal } from "./processSupport.js"
import { member, names, pass, putTo, shardId, type TestMember, until, world } from "./support.js"

type Batch = ReadonlyArray<KinesumerRecord.KinesumerRecord>

const start = <E, R, RR = never, DE = never, DR = never>(
  { service }: TestMember,
  handler: Processing.BatchHandler<E, R>,
  options?: Processing.BatchOptions<E, RR, DE, DR>
) => Effect.fork(Effect.provideService(Kinesumer.processBatch(handler, options), Kinesumer.Kinesumer, service))

const batches = Effect.map(Ref.make<ReadonlyArray<ReadonlyArray<string>>>([]), (ref) => ({
  add: (records: Batch) => Ref.update(ref, (all) => [...all, records.map(dataOf)]),
  all: Ref.get(ref),
  records: Effect.map(Ref.get(ref), (all) => all.flat().length)
}))

/** Fails with those of the batch that have one of these data. */
const failing = (records: Batch, datas: ReadonlyArray<string>) => {
  const failures = records.filter((record) => datas.includes(dataOf(record))).map((record) => ({
    record,
    error: `no ${dataOf(record)}`
  }))
  return failures.length === 0 ? Effect.void : new Processing.BatchFailed({ failures })
}

describe("processBatch", () => {
  it.scoped("makes full batches where there is enough, and smaller ones after maxWait; each of one shard", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders", shards: 2 })
      yield* putTo(w, "orders", shardId(0), names("a", 1, 25))
      yield* putTo(w, "orders", shardId(1), names("b", 1, 4))
      const m = yield* member(w)
      const seen = yield* batches
      yield* start(m, seen.add, { size: 10, maxWait: "600 millis" })
      yield* until(Effect.map(seen.records, (count) => count === 20))
      assert.deepStrictEqual(yield* seen.all, [names("a", 1, 10), names("a", 11, 20)])
      yield* until(Effect.map(seen.records, (count) => count === 29), 2)
      assert.deepStrictEqual((yield* seen.all).slice(2).map((batch) => batch.length).sort(), [4, 5])
      yield* pass(2)
      assert.strictEqual(yield* committed(w), "a25")
      assert.strictEqual(yield* committed(w, 1), "b4")
    }))

  it.scoped("none: only those that failed are tried again, and then dead-lettered, with their own error", () =>
    Effect.gen(function*() {
      const w = yield* oneShard
      yield* putTo(w, "orders", shardId(0), names("a", 1, 5))
      const m = yield* member(w)
      const seen = yield* batches
      const letters = yield* Ref.make<ReadonlyArray<readonly [string, unknown, number]>>([])
      yield* start(m, (records) => Effect.zipRight(seen.add(records), failing(records, ["a2", "a4"])), {
        size: 5,
        ordering: "none",
        retry: Schedule.recurs(1),
        onFailure: ({ attempts, error, record }) =>
          Ref.update(letters, (all) => [...all, [dataOf(record), error, attempts] as const])
      })
      yield* until(Effect.map(Ref.get(letters), (all) => all.length === 2))
      assert.deepStrictEqual(yield* seen.all, [names("a", 1, 5), ["a2", "a4"]])
      assert.deepStrictEqual(yield* Ref.get(letters), [["a2", "no a2", 2], ["a4", "no a4", 2]])
      yield* pass(2)
      assert.strictEqual(yield* committed(w), "a5")
    }))

  it.scoped("partitionKey: what is behind a failed record of its key comes again with it, and batches share no key", () =>
    Effect.gen(function*() {
      const w = yield* oneShard
      yield* putKeyed(w, ["a:1", "b:1", "a:2", "b:2", "a:3", "c:1"])
      const m = yield* member(w)
      const seen = yield* batches
      const tries = yield* Ref.make(0)
      yield* start(
        m,
        (records) =>
          Effect.gen(function*() {
            yield* seen.add(records)
            if ((yield* Ref.updateAndGet(tries, (n) => n + 1)) === 1) yield* failing(records, ["a:2"])
          }),
        { size: 4, maxWait: "200 millis", ordering: "partitionKey", retry: Schedule.spaced("2 seconds") }
      )
      yield* until(Effect.map(seen.records, (count) => count === 8))
      yield* pass(3)
      // A batch takes from a key what there is: all of a, and then one of b.
      const all = yield* seen.all
      assert.deepStrictEqual(all[0], ["a:1", "b:1", "a:2", "a:3"])
      // What is behind a:2 waits for it; b goes on.
      assert.deepStrictEqual(all.slice(1), [["b:2", "c:1"], ["a:2", "a:3"]])
    }))

  it.scoped("shard: a failure that names no records is one of all, in order", () =>
    Effect.gen(function*() {
      const w = yield* oneShard
      yield* putTo(w, "orders", shardId(0), names("a", 1, 6))
      const m = yield* member(w)
      const seen = yield* batches
      const letters = yield* log
      const tries = yield* Ref.make(0)
      yield* start(
        m,
        (records) =>
          Effect.gen(function*() {
            yield* seen.add(records)
            const attempt = yield* Ref.updateAndGet(tries, (n) => n + 1)
            if (attempt === 1) yield* Effect.fail("down")
            if (attempt === 2) yield* new Processing.BatchFailed<string>({ failures: [] })
          }),
        { size: 3, retry: Schedule.recurs(1), onFailure: ({ record }) => letters.add(dataOf(record)) }
      )
      yield* until(Effect.map(seen.records, (count) => count === 9))
      assert.deepStrictEqual(yield* seen.all, [names("a", 1, 3), names("a", 1, 3), names("a", 4, 6)])
      assert.deepStrictEqual(yield* letters.all, names("a", 1, 3))
    }))

  it.scoped("lets go of a batch once when its lease is lost while it is marked, and ends with the group", () =>
    Effect.gen(function*() {
      const w = yield* oneShard
      // Marking so many gives way to others several times.
      yield* putTo(w, "orders", shardId(0), names("a", 1, 9_000))
      const m = yield* member(w, { commit: { interval: "1 hour" } })
      const seen = yield* batches
      const running = yield* start(
        m,
        (records) =>
          Effect.gen(function*() {
            yield* seen.add(records)
            yield* m.service.mark(records[0])
            yield* steal(w)
            // The refused commit tells of the loss.
            yield* Effect.forkDaemon(Effect.ignore(m.service.commit))
          }),
        { size: 9_000, maxInFlight: 10_000, ordering: "none" }
      )
      yield* until(Effect.map(seen.records, (count) => count === 9_000))
      yield* pass(1)
      yield* m.close
      yield* pass(1)
      assert.isTrue(Option.isSome(yield* Fiber.poll(running)))
    }))

  const foreign = { sequenceNumber: "1", subSequenceNumber: undefined }

  for (
    const [what, failuresOf, failed] of [
      ["an error of undefined is one", ([first]) => first === undefined ? [] : [{ record: first, error: undefined }], [
        "a1"
      ]],
      [
        "one that is not in the batch is a failure of all",
        (records) => [...records.slice(0, 1), foreign].map((record) => ({ record, error: undefined })),
        names("a", 1, 4)
      ]
    ] satisfies ReadonlyArray<
      [string, (records: Batch) => ReadonlyArray<Processing.RecordFailure<undefined>>, ReadonlyArray<string>]
    >
  ) {
    it.scoped(`of what BatchFailed names, ${what}`, () =>
      Effect.gen(function*() {
        const w = yield* oneShard
        yield* putTo(w, "orders", shardId(0), names("a", 1, 4))
        const m = yield* member(w)
        const letters = yield* log
        yield* start(m, (records) => new Processing.BatchFailed({ failures: failuresOf(records) }), {
          size: 4,
          ordering: "none",
          onFailure: ({ record }) => letters.add(dataOf(record))
        })
        yield* pass(3)
        assert.deepStrictEqual(yield* letters.all, failed)
        assert.strictEqual(yield* committed(w), "a4")
      }))
  }

  it.scoped("a record's error is its own, or a BatchFailed that does not name those that failed; their types say so", () =>
    Effect.gen(function*() {
      const w = yield* oneShard
      yield* putTo(w, "orders", shardId(0), ["a1"])
      const m = yield* member(w)
      const errors = yield* Ref.make<
        ReadonlyArray<Processing.HandlerError<"busy" | Processing.BatchFailed<"busy">>>
      >([])
      yield* start(m, () => new Processing.BatchFailed<"busy">({ failures: [] }), {
        onFailure: (failed) => {
          // @ts-expect-error it may be the whole failure
          const own: Processing.HandlerError<"busy"> = failed.error
          return Ref.update(errors, (all) => [...all, own, failed.error])
        }
      })
      yield* pass(3)
      assert.isTrue((yield* Ref.get(errors)).every((error) => error instanceof Processing.BatchFailed))
      assert.strictEqual((yield* Ref.get(errors)).length, 2)
    }))

  it.scoped("each record has all its tries, whichever of its batch have failed before", () =>
    Effect.gen(function*() {
      const w = yield* oneShard
      yield* putKeyed(w, ["a:1", "a:2", "b:1"])
      const m = yield* member(w)
      const letters = yield* log
      const tries = yield* Ref.make(0)
      yield* start(
        m,
        (records) =>
          Effect.flatMap(
            Ref.updateAndGet(tries, (n) => n + 1),
            (n) => failing(records, [...(n < 3 ? ["a:1"] : n === 3 ? ["a:2"] : []), "b:1"])
          ),
        {
          size: 3,
          ordering: "partitionKey",
          retry: Schedule.recurs(2),
          onFailure: ({ attempts, record }) => letters.add(`${dataOf(record)} ${attempts}`)
        }
      )
      yield* pass(3)
      assert.deepStrictEqual(yield* letters.all, ["b:1 3"])
      assert.strictEqual(yield* committed(w), "b:1")
    }))
})
