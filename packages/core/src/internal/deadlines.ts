/**
 * Watches what has to end in time, with one fiber for all of it. A timeout for each is two fibers for each, which cost
 * more than all the rest of a call that brings nothing.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import type * as Scope from "effect/Scope"
import * as Monotonic from "./monotonic.js"

export interface Deadlines {
  /**
   * What begins `now` in this fiber is watched. If it has not ended by then the fiber that watches runs `late`, once, which
   * must not wait.
   */
  readonly add: (
    now: number,
    late: (fiber: Fiber.RuntimeFiber<unknown, unknown>) => Effect.Effect<void>
  ) => Effect.Effect<Deadline>
  /** What was watched has ended. */
  readonly remove: (deadline: Deadline) => Effect.Effect<void>
}

export interface Deadline {
  /** Monotonic time, in milliseconds. */
  readonly at: number
  readonly late: Effect.Effect<void>
}

export const make = (after: Duration.Duration, scope: Scope.Scope): Effect.Effect<Deadlines> =>
  Effect.gen(function*() {
    // All have equally long, so what was added first is due first.
    const deadlines = new Set<Deadline>()
    const watch: Effect.Effect<void> = Effect.suspend(() => {
      const first = deadlines.values().next().value
      // What is added from now on is not due before that.
      if (first === undefined) return Effect.sleep(after)
      return Effect.zipRight(
        Monotonic.sleepUntil(first.at),
        Effect.suspend(() => deadlines.delete(first) ? first.late : Effect.void)
      )
    })
    yield* Effect.forever(watch).pipe(Effect.forkIn(scope), Effect.interruptible)
    return {
      add: (now, late) =>
        Effect.withFiberRuntime((fiber) => {
          const deadline: Deadline = { at: now + Duration.toMillis(after), late: Effect.suspend(() => late(fiber)) }
          deadlines.add(deadline)
          return Effect.succeed(deadline)
        }),
      remove: (deadline) =>
        Effect.sync(() => {
          deadlines.delete(deadline)
        })
    }
  })
