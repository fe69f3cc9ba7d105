/**
 * Lets the host have its turn: timers, and what has come over the network.
 *
 * Effect goes to them when no fiber has anything left to do, or when all that had something had 2,048 turns in a row.
 * With many fibers, each of which begins something new as soon as it has done the last, that is seconds.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"

/** So many steps are done between two turns of the host. */
const steps = 256

/** No clock of a test, which would give no turn to the host. */
const turn: Effect.Effect<void> = Clock.make().sleep(Duration.zero)

/** To be run before each step by all that share these steps: while the host has its turn all of them wait. */
export const make: Effect.Effect<Effect.Effect<void>> = Effect.map(Effect.makeLatch(true), (over) => {
  let done = 0
  const give = over.close.pipe(
    Effect.zipRight(turn),
    Effect.ensuring(Effect.suspend(() => {
      done = 0
      return over.open
    }))
  )
  return Effect.suspend(() => {
    done++
    return done <= steps ? Effect.void : done === steps + 1 ? give : over.await
  })
})
