/**
 * Time that moves on as soon as nobody has anything left to do, so that a day of a group takes as long as its work. For
 * effects that wait for nothing but this time and each other.
 */
import { Clock, Duration, Effect, Fiber, Scheduler } from "effect"

/** Fibers that go on and end together, as those of a process do. */
export interface Process {
  readonly fork: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<Fiber.RuntimeFiber<A, E>, never, R>
  /** Nothing of it ever goes on: no finalizer runs. */
  readonly kill: Effect.Effect<void>
}

export interface VirtualTime {
  readonly clock: Clock.Clock
  /** Milliseconds since the beginning. */
  readonly now: () => number
  readonly process: Effect.Effect<Process>
  /** Lets everything go on until so much time has passed. */
  readonly elapse: (duration: Duration.DurationInput) => Effect.Effect<void>
  /** Ends all fibers, those that were killed too: else Effect would hold them, and whatever they hold, for good. */
  readonly end: Effect.Effect<void>
}

interface Timer {
  readonly at: number
  readonly fire: () => void
}

/** When it begins, by its wall clock. */
export const epoch = Date.UTC(2030, 0, 1)

/** A member takes at most half of that to close. */
const endSeconds = 60

/** After so many steps the host has its turn. */
const stepsInOneGo = 50_000

export const make = (): VirtualTime => {
  let elapsed = 0
  /** The earliest stands last. */
  const timers: Array<Timer> = []
  const schedulers = new Set<Scheduler.ControlledScheduler>()
  const killed = new Set<Scheduler.ControlledScheduler>()
  const fibers = new Set<Fiber.RuntimeFiber<unknown, unknown>>()

  const addTimer = (timer: Timer): void => {
    let low = 0
    let high = timers.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((timers[middle]?.at ?? 0) > timer.at) low = middle + 1
      else high = middle
    }
    timers.splice(low, 0, timer)
  }

  const millis = () => epoch + elapsed
  const nanos = () => BigInt(elapsed) * 1_000_000n
  const clock: Clock.Clock = {
    [Clock.ClockTypeId]: Clock.ClockTypeId,
    unsafeCurrentTimeMillis: millis,
    currentTimeMillis: Effect.sync(millis),
    unsafeCurrentTimeNanos: nanos,
    currentTimeNanos: Effect.sync(nanos),
    sleep: (duration) =>
      Effect.async((resume) => {
        // What was interrupted must not be held until it would have been due.
        const state: { wake: (() => void) | undefined } = { wake: () => resume(Effect.void) }
        const wait = Math.ceil(Duration.toMillis(duration))
        if (wait !== Infinity) addTimer({ at: elapsed + wait, fire: () => state.wake?.() })
        return Effect.sync(() => {
          state.wake = undefined
        })
      })
  }

  /** Does the next thing that is due until then; `false` if there is none. */
  const step = (until: number): boolean => {
    for (const scheduler of schedulers) {
      if (scheduler.tasks.buckets.length > 0) {
        scheduler.step()
        return true
      }
    }
    const timer = timers.at(-1)
    if (timer === undefined || timer.at > until) return false
    timers.pop()
    elapsed = timer.at
    timer.fire()
    return true
  }

  const elapse: VirtualTime["elapse"] = (duration) =>
    Effect.gen(function*() {
      // What was forked is still on its way to its scheduler.
      yield* Effect.sleep(0)
      const until = elapsed + Duration.toMillis(duration)
      let steps = 0
      while (step(until)) {
        if (++steps % stepsInOneGo === 0) yield* Effect.sleep(0)
      }
      elapsed = until
    })

  return {
    clock,
    now: () => elapsed,
    process: Effect.sync(() => {
      const scheduler = new Scheduler.ControlledScheduler()
      schedulers.add(scheduler)
      return {
        fork: (effect) =>
          Effect.zipRight(Effect.yieldNow(), effect).pipe(
            Effect.withScheduler(scheduler),
            Effect.withClock(clock),
            Effect.forkDaemon,
            Effect.tap((fiber) =>
              Effect.sync(() => {
                fibers.add(fiber)
                fiber.addObserver(() => fibers.delete(fiber))
              })
            )
          ),
        kill: Effect.sync(() => {
          schedulers.delete(scheduler)
          killed.add(scheduler)
        })
      }
    }),
    elapse,
    end: Effect.gen(function*() {
      for (const scheduler of killed) schedulers.add(scheduler)
      yield* Effect.forEach(fibers, Fiber.interruptFork, { discard: true })
      yield* elapse(`${endSeconds} seconds`)
    })
  }
}
