import { assert, describe, it } from "@effect/vitest"
import { type Cause, Effect, Fiber, FiberId, Scheduler } from "effect"
import type { RuntimeFiber } from "effect/Fiber"
import { onFreshTurn } from "../../src/internal/freshTurn.js"

/** As many steps as a fiber may make here in one turn; what is tested begins in fewer. */
const turn = 40

/** The first fiber that it sees is interrupted when its turn is over, before its next one begins. */
class InterruptedAtTurn extends Scheduler.MixedScheduler {
  isInterrupted = false
  private first: unknown
  constructor() {
    super(2_048)
  }
  override shouldYield(fiber: RuntimeFiber<unknown, unknown>): number | false {
    this.first ??= fiber
    if (fiber !== this.first || fiber.currentOpCount <= turn) return false
    this.isInterrupted = true
    queueMicrotask(() => fiber.unsafeInterruptAsFork(FiberId.none))
    return 0
  }
}

const steps = (count: number): Effect.Effect<void> => count === 0 ? Effect.void : Effect.suspend(() => steps(count - 1))

/** After how many steps of a turn it has to begin so that it does not end when it is interrupted. */
const hangs = (effect: Effect.Effect<unknown, unknown>): Effect.Effect<ReadonlyArray<number>> =>
  Effect.filter(
    Array.from({ length: turn }, (_, count) => count),
    (count) =>
      Effect.gen(function*() {
        const scheduler = new InterruptedAtTurn()
        const fiber = yield* Effect.forkDaemon(Effect.withScheduler(Effect.zipRight(steps(count), effect), scheduler))
        yield* Effect.repeatN(Effect.yieldNow(), 200)
        // A second interruption could end what the first one did not.
        if (!scheduler.isInterrupted) yield* Fiber.interruptFork(fiber)
        yield* Effect.repeatN(Effect.yieldNow(), 200)
        return fiber.unsafePoll() === null
      })
  )

describe("freshTurn", () => {
  const shapes: Record<string, Effect.Effect<unknown, Cause.TimeoutException>> = {
    raceFirst: Effect.raceFirst(Effect.never, Effect.never),
    race: Effect.race(Effect.never, Effect.never),
    timeout: Effect.timeout(Effect.never, "1 hour"),
    "a concurrent forEach": Effect.forEach([1, 2, 3], () => Effect.never, { concurrency: 2 })
  }
  for (const [name, shape] of Object.entries(shapes)) {
    it.effect(`${name} ends wherever it is interrupted`, () =>
      Effect.gen(function*() {
        // When this is red, Effect starts the fibers in one step and this module is not needed any more.
        assert.isNotEmpty(yield* hangs(shape))
        assert.deepEqual(yield* hangs(onFreshTurn(shape)), [])
      }))
  }
})
