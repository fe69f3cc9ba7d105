/** What watches the calls of all readers. */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Ref, TestClock } from "effect"
import * as Deadlines from "../../src/internal/deadlines.js"
import * as Monotonic from "../../src/internal/monotonic.js"

const make = Effect.gen(function*() {
  const { add, remove } = yield* Deadlines.make(Duration.seconds(10), yield* Effect.scope)
  return { add: (late: Effect.Effect<void>) => Effect.flatMap(Monotonic.now, (now) => add(now, () => late)), remove }
})

describe("deadlines", () => {
  it.scoped("each is told once, at its own time, those that are removed never", () =>
    Effect.gen(function*() {
      const deadlines = yield* make
      const told = yield* Ref.make<ReadonlyArray<string>>([])
      const add = (name: string) => deadlines.add(Ref.update(told, (names) => [...names, name]))
      yield* add("a")
      yield* TestClock.adjust("4 seconds")
      const removed = yield* add("b")
      yield* add("c")
      yield* TestClock.adjust("5 seconds")
      assert.deepStrictEqual(yield* Ref.get(told), [])
      yield* deadlines.remove(removed)
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(yield* Ref.get(told), ["a"])
      yield* TestClock.adjust("3999 millis")
      assert.deepStrictEqual(yield* Ref.get(told), ["a"])
      yield* TestClock.adjust("1 millis")
      assert.deepStrictEqual(yield* Ref.get(told), ["a", "c"])
      yield* TestClock.adjust("1 hour")
      yield* add("d")
      yield* TestClock.adjust("10 seconds")
      assert.deepStrictEqual(yield* Ref.get(told), ["a", "c", "d"])
    }))

  it.scoped("an earlier one that is removed does not put off a later one", () =>
    Effect.gen(function*() {
      const deadlines = yield* make
      const told = yield* Ref.make(0)
      const first = yield* deadlines.add(Effect.die("removed"))
      yield* TestClock.adjust("1 second")
      yield* deadlines.remove(first)
      yield* deadlines.add(Ref.update(told, (count) => count + 1))
      yield* TestClock.adjust("9999 millis")
      assert.strictEqual(yield* Ref.get(told), 0)
      yield* TestClock.adjust("1 millis")
      assert.strictEqual(yield* Ref.get(told), 1)
    }))

  it.scoped("of many at once all are told", () =>
    Effect.gen(function*() {
      const deadlines = yield* make
      const told = yield* Ref.make(0)
      yield* Effect.repeatN(deadlines.add(Ref.update(told, (count) => count + 1)), 999)
      yield* TestClock.adjust("10 seconds")
      assert.strictEqual(yield* Ref.get(told), 1_000)
    }))
})
