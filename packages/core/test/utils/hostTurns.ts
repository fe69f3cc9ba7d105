/** How much is done before timers and sockets have their turn. */
import { Clock, Duration, Effect, Fiber, Ref } from "effect"

const turn: Effect.Effect<void> = Clock.make().sleep(Duration.zero)

/** By how much a count grows at most between two turns of the host, while an effect runs. */
export const mostBetweenHostTurns = <E, R>(
  count: Ref.Ref<number>,
  effect: Effect.Effect<unknown, E, R>
): Effect.Effect<number, E, R> =>
  Effect.gen(function*() {
    const most = yield* Ref.make(0)
    const look = (before: number): Effect.Effect<never> =>
      Effect.gen(function*() {
        yield* turn
        const now = yield* Ref.get(count)
        yield* Ref.update(most, (last) => Math.max(last, now - before))
        return yield* look(now)
      })
    const looking = yield* Effect.fork(look(yield* Ref.get(count)))
    yield* effect
    yield* turn
    yield* Fiber.interrupt(looking)
    return yield* Ref.get(most)
  })
