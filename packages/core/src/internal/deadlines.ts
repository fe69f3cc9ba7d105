/**
 * Gives up calls that are not answered in time. One fiber looks after those of all shards: a timeout of its own costs more
 * than a call that brings nothing, and most calls are of that kind.
 *
 * Whoever makes calls does so in a fiber that ends with a call that is late, and is begun again.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FiberId from "effect/FiberId"
import * as Monotonic from "./monotonic.js"

export interface Deadlines {
  /** Marks a call within `untilLate`. */
  readonly call: <A, E, R>(operation: string, effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /** Goes on until a call is late, which is interrupted with all that waits for it, and tells which one it was. */
  readonly untilLate: <R>(effect: Effect.Effect<never, never, R>) => Effect.Effect<string, never, R>
  /** Looks after the calls. */
  readonly watch: Effect.Effect<never>
}

interface Call {
  readonly operation: string
  readonly since: number
  readonly fiber: Fiber.RuntimeFiber<unknown, unknown>
}

export const make = (timeout: Duration.Duration): Deadlines => {
  const millis = Duration.toMillis(timeout)
  // The oldest first, since all may take the same time.
  const pending = new Set<Call>()
  const late = new WeakMap<object, string>()

  return {
    call: (operation, effect) =>
      Effect.withFiberRuntime((fiber) =>
        Effect.flatMap(Monotonic.now, (since) => {
          const call = { operation, since, fiber }
          pending.add(call)
          return Effect.ensuring(effect, Effect.sync(() => pending.delete(call)))
        })
      ),
    untilLate: (effect) =>
      Effect.uninterruptibleMask((restore) =>
        Effect.gen(function*() {
          const fiber = yield* Effect.fork(restore(effect))
          const exit = yield* restore(Fiber.await(fiber)).pipe(Effect.onInterrupt(() => Fiber.interrupt(fiber)))
          return late.get(fiber) ?? (yield* exit)
        })
      ),
    watch: Effect.forever(Effect.gen(function*() {
      const now = yield* Monotonic.now
      let wait = millis
      for (const call of pending) {
        wait = call.since + millis - now
        if (wait > 0) break
        pending.delete(call)
        late.set(call.fiber, call.operation)
        call.fiber.unsafeInterruptAsFork(FiberId.none)
        wait = millis
      }
      // What begins meanwhile may take as long.
      yield* Effect.sleep(wait)
    }))
  }
}
