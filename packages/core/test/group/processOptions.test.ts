/** Wrong options of `process` and `processBatch` are refused by name, before a record is taken. */
import { assert, describe, it } from "@effect/vitest"
import { KinesumerError, type Processing } from "@kinesumer/core"
import { Duration, Effect } from "effect"
import { dataOf, failureOf, log, oneShard } from "./processSupport.js"
import { member, putTo, shardId, until } from "./support.js"

/** What is not of its type, as it comes from JavaScript or a file. */
const untyped = (json: string) => JSON.parse(json) as never

const ofBoth: ReadonlyArray<readonly [field: string, options: Processing.ProcessOptions<never>, message: string]> = [
  ["ordering", { ordering: untyped("\"partionKey\"") }, "must be \"shard\", \"partitionKey\" or \"none\""],
  ["ordering", { ordering: untyped("true") }, "ordering is true"],
  ["onFailure", { onFailure: untyped("\"skip\"") }, "onFailure is \"skip\", but it must be \"stop\" or a function"],
  ["onFailure", { onFailure: untyped("{}") }, "onFailure is {}"],
  ["concurrency", { concurrency: 0 }, "must be a whole number from 1"],
  ["concurrency", { concurrency: Infinity }, "concurrency is Infinity"],
  ["maxInFlight", { maxInFlight: 0 }, "must be a whole number from 1 to 10000"],
  ["maxInFlight", { maxInFlight: 10_001 }, "maxInFlight is 10001"],
  ["timeout", { timeout: 0 }, "must be at least 1ms"],
  ["timeout", { timeout: -1 }, "timeout is -1, but it must be at least 1ms"],
  ["timeout", { timeout: NaN }, "timeout is NaN, but it must be at least 1ms"],
  ["timeout", { timeout: Infinity }, "must be a finite duration"],
  ["timeout", { timeout: Duration.infinity }, "timeout is \"Infinity\", but it must be a finite duration"],
  ["retry", { retry: untyped("{ \"times\": 3 }") }, "must be a Schedule"],
  ["timeout", { timeout: untyped("\"soon\"") }, "timeout is \"soon\""]
]

const ofBatches: ReadonlyArray<readonly [field: string, options: Processing.BatchOptions<never>, message: string]> = [
  ...ofBoth,
  ["size", { size: 0 }, "must be a whole number from 1 to 10000"],
  ["size", { size: 1.5 }, "size is 1.5"],
  ["size", { size: 11, maxInFlight: 10 }, "must be no more than maxInFlight, 10"],
  ["maxWait", { maxWait: 0 }, "must be at least 1ms"],
  ["maxWait", { maxWait: Infinity }, "must be a finite duration"]
]

/** Starts with a record that would be handled. */
const refused = <E>(
  run: (
    service: Effect.Effect.Success<ReturnType<typeof member>>["service"],
    handle: () => Effect.Effect<void>
  ) => Effect.Effect<void, E>
) =>
  Effect.gen(function*() {
    const w = yield* oneShard
    yield* putTo(w, "orders", shardId(0), ["a"])
    const m = yield* member(w)
    const handled = yield* log
    const error = failureOf(yield* Effect.exit(run(m.service, () => handled.add("handled"))))
    assert.instanceOf(error, KinesumerError.InvalidConfig)
    assert.deepStrictEqual(yield* handled.all, [])
    // It is no run: the next one is not refused.
    yield* m.consume()
    yield* until(Effect.map(m.delivered, (all) => all.map(dataOf).join() === "a"))
    return error
  })

describe("process", () => {
  for (const [field, options, message] of ofBoth) {
    it.scoped(`${field}: ${JSON.stringify(options)}`, () =>
      Effect.gen(function*() {
        const error = yield* refused((service, handle) => service.process(handle, options))
        assert.strictEqual(error.field, field)
        assert.include(error.message, message)
      }))
  }
})

describe("processBatch", () => {
  for (const [field, options, message] of ofBatches) {
    it.scoped(`${field}: ${JSON.stringify(options)}`, () =>
      Effect.gen(function*() {
        const error = yield* refused((service, handle) => service.processBatch(handle, options))
        assert.strictEqual(error.field, field)
        assert.include(error.message, message)
      }))
  }

  it.scoped("a maxInFlight below the size that is the default makes the batches smaller", () =>
    Effect.gen(function*() {
      const w = yield* oneShard
      yield* putTo(w, "orders", shardId(0), ["a", "b", "c"])
      const { service } = yield* member(w)
      const sizes = yield* log
      yield* Effect.fork(service.processBatch((records) => sizes.add(`${records.length}`), { maxInFlight: 2 }))
      yield* until(Effect.map(sizes.size, (count) => count === 2))
      assert.deepStrictEqual(yield* sizes.all, ["2", "1"])
    }))
})
