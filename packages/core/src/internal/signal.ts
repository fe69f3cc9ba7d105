/**
 * A level-triggered wake-up. Whoever waits closes it, looks at the state, and waits only if there was nothing: a change
 * in between leaves it open, so no wake-up is lost, and an interrupted wait loses nothing.
 */
import * as Effect from "effect/Effect"

export type Signal = Effect.Latch

export const make: Effect.Effect<Signal> = Effect.makeLatch(false)

/** Runs `look` until it finds something, waiting for the signal in between. */
export const awaitUntil = <A, E, R>(
  signal: Signal,
  look: Effect.Effect<A | undefined, E, R>
): Effect.Effect<A, E, R> => {
  const loop: Effect.Effect<A, E, R> = Effect.flatMap(
    Effect.zipRight(signal.close, look),
    (found) => found === undefined ? Effect.zipRight(signal.await, loop) : Effect.succeed(found)
  )
  // Mostly there is no need to wait.
  return Effect.flatMap(look, (found) => found === undefined ? loop : Effect.succeed(found))
}
