import { assert, describe, it } from "@effect/vitest"
import { Chunk, Effect, FastCheck, Fiber, Option, Ref } from "effect"
import * as Budget from "../../src/internal/budget.js"

describe("budget", () => {
  it.effect.prop(
    "never grants more than there is, and interrupted waiters leave nothing reserved",
    [
      FastCheck.integer({ min: 1, max: 50 }),
      FastCheck.array(
        FastCheck.record({
          wanted: FastCheck.integer({ min: 1, max: 60 }),
          interrupted: FastCheck.boolean()
        }),
        { minLength: 1, maxLength: 30 }
      )
    ],
    ([records, requests]) =>
      Effect.gen(function*() {
        const budget = Budget.make({ records, bytes: 1_000 })
        const granted = yield* Ref.make<ReadonlyArray<number>>([])
        const fibers = yield* Effect.forEach(requests, ({ wanted }) =>
          Effect.fork(Effect.tap(budget.reserve(wanted), (amount) =>
            Ref.update(granted, (all) => [...all, amount]))))
        yield* Effect.yieldNow()
        yield* Effect.forEach(requests, ({ interrupted }, index) => {
          const fiber = fibers[index]
          return interrupted && fiber !== undefined ? Fiber.interrupt(fiber) : Effect.void
        })
        for (;;) {
          const { records: used } = yield* budget.used
          assert.isAtMost(used, records)
          const [next] = yield* Ref.getAndUpdate(granted, (all) =>
            all.slice(1))
          if (next === undefined) break
          assert.isAtLeast(next, 1)
          yield* budget.release(next, 0)
          yield* Effect.yieldNow()
        }
        const pending = yield* Effect.forEach(fibers, Fiber.poll)
        assert.isTrue(pending.every(Option.isSome))
        assert.strictEqual((yield* budget.used).records, 0)
      })
  )

  it.effect("waits while the bytes are used up, and lets one page go over", () =>
    Effect.gen(function*() {
      const budget = Budget.make({ records: 100, bytes: 1_000 })
      const first = yield* budget.reserve(10)
      yield* budget.settle(first, 1, 5_000)
      const waiting = yield* Effect.fork(budget.reserve(10))
      yield* Effect.yieldNow()
      assert.isTrue(Option.isNone(yield* Fiber.poll(waiting)))
      yield* budget.release(1, 5_000)
      assert.isAtLeast(yield* Fiber.join(waiting), 1)
    }))

  it.effect("serves those who wait in their order", () =>
    Effect.gen(function*() {
      const budget = Budget.make({ records: 1, bytes: 1_000 })
      yield* budget.reserve(1)
      const order = yield* Ref.make(Chunk.empty<number>())
      yield* Effect.forEach([1, 2, 3], (n) =>
        Effect.zipRight(
          Effect.fork(Effect.zipRight(budget.reserve(1), Ref.update(order, Chunk.append(n)))),
          Effect.yieldNow()
        ))
      for (const _ of [1, 2, 3]) yield* Effect.zipRight(budget.release(1, 0), Effect.yieldNow())
      assert.deepStrictEqual(Chunk.toReadonlyArray(yield* Ref.get(order)), [1, 2, 3])
    }))
})
