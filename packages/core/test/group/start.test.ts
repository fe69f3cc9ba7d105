/** A start that gets no answer ends. */
import { assert, describe, it } from "@effect/vitest"
import { KinesisError, StateStoreError } from "@kinesumer/core"
import { Faults } from "@kinesumer/test-kit"
import { Effect, Exit, Fiber, TestClock } from "effect"
import { member, world } from "./support.js"

/** What a start fails with, after so long. */
const failureOfStart = (
  setUp: (faults: Faults.Faults["Type"]) => Effect.Effect<unknown>,
  after: string & Parameters<typeof TestClock.adjust>[0]
) =>
  Effect.gen(function*() {
    const group = yield* world()
    yield* group.kinesis.createStream({ name: "orders" })
    const faults = yield* Faults.make
    yield* setUp(faults)
    const starting = yield* Effect.fork(Effect.flip(member(group, {}, {
      client: faults.wrapKinesis(group.kinesis.client),
      store: faults.wrapStateStore(group.store)
    })))
    yield* TestClock.adjust(after)
    const exit = yield* starting.poll
    yield* Fiber.interruptFork(starting)
    return exit._tag === "Some" && Exit.isSuccess(exit.value) ? exit.value.value : undefined
  })

describe("a start", () => {
  for (const operation of ["describeStream", "listShards", "region"] as const) {
    it.scoped(`fails where ${operation} is never answered`, () =>
      Effect.gen(function*() {
        const error = yield* failureOfStart(
          (faults) => faults.addKinesis({ on: [operation] }, Faults.hang),
          "3 minutes"
        )
        assert.instanceOf(error, KinesisError.KinesisError)
        assert.strictEqual(error.reason, "Timeout")
        assert.strictEqual(error.operation, operation)
      }))
  }

  for (const operation of ["getShards", "registerMember"] as const) {
    it.scoped(`fails where ${operation} is never answered`, () =>
      Effect.gen(function*() {
        const error = yield* failureOfStart((faults) => faults.addStore({ on: [operation] }, Faults.hang), "5 minutes")
        assert.instanceOf(error, StateStoreError.StateStoreError)
        assert.strictEqual(error.reason, "Timeout")
      }))
  }
})
