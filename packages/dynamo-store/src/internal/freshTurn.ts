/**
 * Lets what starts fibers (a race, a timeout, a concurrent `forEach`) do so at the beginning of a turn: Effect 3.22 never
 * ends it when its fiber gives way as it begins and is interrupted there. It is `freshTurn.ts` of `@kinesumer/core`, which
 * is internal there, and tested there.
 */
import * as Effect from "effect/Effect"

/** @internal */
export const onFreshTurn = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.zipRight(Effect.yieldNow(), effect)
