/** Milliseconds of a clock that never jumps, for intervals only: its origin means nothing. */
import * as Effect from "effect/Effect"

const nanosPerMilli = 1_000_000n

export const now: Effect.Effect<number> = Effect.clockWith((clock) =>
  Effect.succeed(Number(clock.unsafeCurrentTimeNanos() / nanosPerMilli))
)
