/** Delays between tries: they double up to a cap, and half of each is random, so that many members spread out. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"

export const delay = (
  attempt: number,
  bounds: { readonly base: Duration.Duration; readonly cap: Duration.Duration }
): Effect.Effect<Duration.Duration> =>
  Effect.map(Random.nextRange(0.5, 1), (factor) => {
    const full = Math.min(
      Duration.toMillis(bounds.cap),
      Duration.toMillis(bounds.base) * 2 ** Math.min(attempt - 1, 30)
    )
    return Duration.millis(Math.round(full * factor))
  })
