/**
 * Lets what starts fibers do so at the beginning of a turn.
 *
 * A fiber gives way to others after 2,048 steps, wherever it is. `race`, `timeout` and a concurrent `forEach` of Effect
 * 3.22 begin in several steps: when a fiber gives way between these, and is interrupted before its next turn, the fibers
 * that were made and not started are waited for, and it never ends. A fiber that has just given way does not do so there.
 */
import * as Effect from "effect/Effect"

export const onFreshTurn = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.zipRight(Effect.yieldNow(), effect)
