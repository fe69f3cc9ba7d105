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

  it.effect("grants what is worth a call, to a few at a time", () =>
    Effect.gen(function*() {
      const budget = Budget.make({ records: 1_600, bytes: 1_000 })
      const fibers = yield* Effect.forEach(Chunk.range(1, 64), () => Effect.fork(budget.reserve(1_000)))
      yield* Effect.yieldNow()
      const polled = yield* Effect.forEach(fibers, Fiber.poll)
      assert.strictEqual(polled.filter(Option.isSome).length, 6)
      const [first, , , , , , seventh] = fibers
      if (first === undefined || seventh === undefined) return assert.fail("there are 64")
      const granted = yield* Fiber.join(first)
      assert.strictEqual(granted, 400)
      yield* budget.release(granted, 0)
      assert.isAtLeast(yield* Fiber.join(seventh), 200)
      yield* Fiber.interruptAll(fibers)
    }))

  it.effect("has room for who wants less when who waits before it leaves", () =>
    Effect.gen(function*() {
      const budget = Budget.make({ records: 16, bytes: 1_000 })
      yield* budget.take({ records: 15, bytes: 0 })
      const first = yield* Effect.fork(budget.reserve(16))
      yield* Effect.yieldNow()
      const second = yield* Effect.fork(budget.reserve(1))
      yield* Effect.yieldNow()
      assert.isTrue(Option.isNone(yield* Fiber.poll(second)))
      yield* Fiber.interrupt(first)
      assert.strictEqual(yield* Fiber.join(second), 1)
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

  /** Takes in the background, and notes that it has. */
  const taking = (budget: Budget.Budget, taken: Ref.Ref<Chunk.Chunk<string>>, name: string, room: Budget.Room) =>
    Effect.zipLeft(
      Effect.fork(Effect.zipRight(budget.take(room), Ref.update(taken, Chunk.append(name)))),
      Effect.yieldNow()
    )

  const noted = (taken: Ref.Ref<Chunk.Chunk<string>>) => Effect.map(Ref.get(taken), Chunk.join(","))

  it.effect("takes in the order of asking: a small one does not pass a large one that waits", () =>
    Effect.gen(function*() {
      const budget = Budget.make({ records: 10, bytes: 100 })
      const taken = yield* Ref.make(Chunk.empty<string>())
      yield* taking(budget, taken, "first", { records: 6, bytes: 60 })
      yield* taking(budget, taken, "records", { records: 5, bytes: 1 })
      yield* taking(budget, taken, "bytes", { records: 1, bytes: 99 })
      yield* taking(budget, taken, "small", { records: 1, bytes: 1 })
      assert.strictEqual(yield* noted(taken), "first")
      yield* Effect.zipRight(budget.release(6, 60), Effect.yieldNow())
      assert.strictEqual(yield* noted(taken), "first,records,bytes")
      assert.deepStrictEqual(yield* budget.used, { records: 6, bytes: 100 })
      yield* Effect.zipRight(budget.release(5, 1), Effect.yieldNow())
      assert.strictEqual(yield* noted(taken), "first,records,bytes,small")
    }))

  it.effect("what is larger than the bounds fits into the empty buffer, and nothing beside it", () =>
    Effect.gen(function*() {
      const budget = Budget.make({ records: 10, bytes: 100 })
      const taken = yield* Ref.make(Chunk.empty<string>())
      yield* taking(budget, taken, "first", { records: 1, bytes: 1 })
      yield* taking(budget, taken, "large", { records: 1, bytes: 500 })
      assert.strictEqual(yield* noted(taken), "first")
      yield* Effect.zipRight(budget.release(1, 1), Effect.yieldNow())
      assert.strictEqual(yield* noted(taken), "first,large")
      yield* taking(budget, taken, "small", { records: 1, bytes: 1 })
      assert.strictEqual(yield* noted(taken), "first,large")
      yield* Effect.zipRight(budget.release(1, 500), Effect.yieldNow())
      assert.strictEqual(yield* noted(taken), "first,large,small")
      assert.deepStrictEqual(yield* budget.used, { records: 1, bytes: 1 })
    }))

  it.effect("interrupted, it gives back what it was granted, and its place to the next", () =>
    Effect.gen(function*() {
      const budget = Budget.make({ records: 10, bytes: 100 })
      const taken = yield* Ref.make(Chunk.empty<string>())
      yield* budget.take({ records: 10, bytes: 10 })
      const waiting = yield* taking(budget, taken, "waiting", { records: 10, bytes: 10 })
      const granted = yield* taking(budget, taken, "granted", { records: 10, bytes: 10 })
      yield* taking(budget, taken, "last", { records: 1, bytes: 1 })
      yield* Fiber.interrupt(waiting)
      // Granted with the release, and interrupted before it goes on.
      yield* budget.release(10, 10)
      yield* Fiber.interrupt(granted)
      yield* Effect.yieldNow()
      assert.strictEqual(yield* noted(taken), "last")
      assert.deepStrictEqual(yield* budget.used, { records: 1, bytes: 1 })
    }))

  it.effect("can be interrupted where its caller can't", () =>
    Effect.gen(function*() {
      const budget = Budget.make({ records: 1, bytes: 100 })
      yield* budget.take({ records: 1, bytes: 1 })
      const waiting = yield* Effect.fork(Effect.uninterruptible(budget.take({ records: 1, bytes: 1 })))
      yield* Effect.yieldNow()
      yield* Fiber.interrupt(waiting)
      yield* budget.release(1, 1)
      assert.deepStrictEqual(yield* budget.used, { records: 0, bytes: 0 })
    }))

  it.effect("reservations of pages and what is taken count as one", () =>
    Effect.gen(function*() {
      const budget = Budget.make({ records: 8, bytes: 100 })
      const taken = yield* Ref.make(Chunk.empty<string>())
      const reserved = yield* budget.reserve(8)
      yield* taking(budget, taken, "all", { records: 8, bytes: 8 })
      yield* Effect.zipRight(budget.settle(reserved, 1, 1), Effect.yieldNow())
      assert.strictEqual(yield* noted(taken), "")
      yield* Effect.zipRight(budget.release(1, 1), Effect.yieldNow())
      assert.strictEqual(yield* noted(taken), "all")
      assert.deepStrictEqual(yield* budget.used, { records: 8, bytes: 8 })
    }))
})
