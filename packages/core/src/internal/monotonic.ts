/** Milliseconds of a clock that never jumps, for intervals only: its origin means nothing. */
import type * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"

const nanosPerMilli = 1_000_000n

const millisOf = (clock: Clock.Clock): number => Number(clock.unsafeCurrentTimeNanos() / nanosPerMilli)

export const now: Effect.Effect<number> = Effect.clockWith((clock) => Effect.succeed(millisOf(clock)))

/** Waits until then. Timers may be early by a millisecond, so it is looked at again. */
export const sleepUntil = (at: number): Effect.Effect<void> =>
  Effect.clockWith((clock) => {
    const wait = at - millisOf(clock)
    return wait > 0 ? Effect.flatMap(clock.sleep(Duration.millis(wait)), () => sleepUntil(at)) : Effect.void
  })
