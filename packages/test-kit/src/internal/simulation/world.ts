/**
 * Virtual time, and processes in it. A process is what one machine runs: fibers that are scheduled together, with a clock
 * of its own. It can stall, so that nothing of it runs while time goes on, and it can be killed, which cuts its fibers
 * wherever they are: no finalizer of them ever runs.
 *
 * Time moves only when no process has anything left to do. Which process goes on next, and where its fibers yield to
 * each other, is drawn from the seed; within a process the order of tasks is kept, as Effect's own scheduler keeps it.
 *
 * @internal
 */
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import * as Random from "effect/Random"
import type * as Scheduler from "effect/Scheduler"
import * as Chance from "./chance.js"

/** @internal */
export interface Process {
  readonly name: string
  /** Runs an effect as a part of the process. Fibers that it starts belong to it too. */
  readonly within: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /** Nothing of it runs until it wakes. What becomes due meanwhile runs then. */
  readonly stall: Effect.Effect<void>
  readonly wake: Effect.Effect<void>
  /** How long it has stalled so far, in milliseconds. */
  readonly stalled: () => number
  readonly kill: Effect.Effect<void>
  /** Sets its wall clock forwards or back, in milliseconds. Its monotonic clock goes on. */
  readonly jump: (millis: number) => Effect.Effect<void>
}

/** @internal */
export interface World {
  readonly seed: number
  /** Milliseconds since the beginning. */
  readonly elapsed: () => number
  /** Fibers of a process that does not `yield` go on until they wait for something. */
  readonly process: (name: string, options?: {
    readonly wallClockSkew?: number | undefined
    readonly yields?: boolean | undefined
  }) => Process
  /** Lets no other fiber go on before this effect is through, which must not wait for anything. */
  readonly atomically: <A, E>(effect: Effect.Effect<A, E>) => Effect.Effect<A, E>
  /** Carries out a program in a process, with virtual time, until it ends. */
  readonly run: <A, E, R>(process: Process, program: Effect.Effect<A, E, R>) => Effect.Effect<Exit.Exit<A, E>, Stuck, R>
}

/**
 * Nothing can go on any more: no process has anything to do, and none sleeps.
 *
 * @internal
 */
export class Stuck extends Data.TaggedError("Stuck")<{ readonly elapsed: number }> {}

interface Timer {
  readonly at: number
  readonly fire: () => void
}

/** What a process has to do now, in order. `next` is the first task that was not begun. */
interface Turn {
  readonly queue: Array<Scheduler.Task>
  next: number
  readonly rest: () => void
}

/** A process that is to stall finishes what it is at: no machine stops time for others between two of its own steps. */
type State = "Running" | "Stalling" | "Stalled" | "Dead"

/** Where the world's clock begins: the processes must not take it for the origin of anything. */
const epoch = Date.UTC(2030, 0, 1)

/** Fibers yield after 1 to this many steps. Effect's own scheduler lets them take 2,048. */
const longestTurn = 400

/** After so many steps the host has its turn. */
const stepsInOneGo = 20_000

/** @internal */
export const make = (seed: number): World => {
  const chance = Chance.make(seed, "schedule")
  let elapsed = 0
  let isAtomic = false
  const timers: Array<Timer> = []
  const ready: Array<Turn> = []

  const addTimer = (timer: Timer) => {
    let low = 0
    let high = timers.length
    while (low < high) {
      const middle = (low + high) >>> 1
      const other = timers[middle]
      // The earliest stands last. Of two that are due together the one that was set first goes first.
      if (other !== undefined && other.at > timer.at) low = middle + 1
      else high = middle
    }
    timers.splice(low, 0, timer)
  }

  const step = (): boolean => {
    if (ready.length === 0) return passTime()
    const index = ready.length === 1 ? 0 : chance.between(0, ready.length - 1)
    const turn = ready[index]
    turn?.queue[turn.next++]?.()
    if (turn !== undefined && turn.next > 0 && turn.next === turn.queue.length) {
      empty(turn)
      turn.rest()
    }
    return true
  }

  const empty = (turn: Turn) => {
    turn.queue.length = 0
    turn.next = 0
    const index = ready.indexOf(turn)
    if (index >= 0) ready.splice(index, 1)
  }

  const passTime = (): boolean => {
    const first = timers.pop()
    if (first === undefined) return false
    elapsed = first.at
    first.fire()
    while (timers[timers.length - 1]?.at === elapsed) timers.pop()?.fire()
    return true
  }

  const process: World["process"] = (name, { wallClockSkew = 0, yields = true } = {}) => {
    const born = elapsed
    const random = Random.make(`${name}/${seed}`)
    let state: State = "Running"
    let skew = wallClockSkew
    let waiting = new Array<Scheduler.Task>()
    const turn: Turn = {
      queue: [],
      next: 0,
      rest: () => {
        if (state === "Stalling") stall()
      }
    }

    let stalledAt = 0
    let stalled = 0

    const stall = () => {
      state = "Stalled"
      stalledAt = elapsed
    }
    const schedule = (task: Scheduler.Task) => {
      if (state === "Dead") return
      if (state === "Stalled") {
        waiting.push(task)
        return
      }
      if (turn.queue.push(task) === 1) ready.push(turn)
    }
    let left = chance.between(1, longestTurn)
    const scheduler: Scheduler.Scheduler = {
      scheduleTask: schedule,
      shouldYield: () => {
        if (!yields || isAtomic || --left > 0) return false
        left = chance.between(1, longestTurn)
        return 0
      }
    }

    const millis = () => epoch + elapsed + skew
    const nanos = () => BigInt(elapsed - born) * 1_000_000n
    const clock: Clock.Clock = {
      [Clock.ClockTypeId]: Clock.ClockTypeId,
      unsafeCurrentTimeMillis: millis,
      currentTimeMillis: Effect.sync(millis),
      unsafeCurrentTimeNanos: nanos,
      currentTimeNanos: Effect.sync(nanos),
      sleep: (duration) =>
        Effect.async((resume) => {
          let isWanted = true
          const millis = Math.ceil(Duration.toMillis(duration))
          if (millis !== Infinity) {
            addTimer({
              at: elapsed + millis,
              fire: () =>
                schedule(() => {
                  if (isWanted) resume(Effect.void)
                })
            })
          }
          return Effect.sync(() => {
            isWanted = false
          })
        })
    }

    return {
      name,
      within: (effect) =>
        Effect.zipRight(Effect.yieldNow(), effect).pipe(
          Effect.withScheduler(scheduler),
          Effect.withClock(clock),
          Effect.withRandom(random)
        ),
      stall: Effect.sync(() => {
        if (state !== "Running") return
        if (turn.queue.length === 0) stall()
        else state = "Stalling"
      }),
      stalled: () => stalled,
      wake: Effect.sync(() => {
        if (state === "Dead") return
        if (state === "Stalled") stalled += elapsed - stalledAt
        state = "Running"
        for (const task of waiting) schedule(task)
        waiting = []
      }),
      kill: Effect.sync(() => {
        state = "Dead"
        empty(turn)
        waiting = []
      }),
      jump: (by) =>
        Effect.sync(() => {
          skew += by
        })
    }
  }

  return {
    seed,
    elapsed: () => elapsed,
    process,
    atomically: (effect) =>
      Effect.suspend(() => {
        isAtomic = true
        return Effect.onExit(effect, () =>
          Effect.sync(() => {
            isAtomic = false
          }))
      }),
    run: (process, program) =>
      Effect.gen(function*() {
        const state = { isBegun: false }
        type Result = Exit.Exit<Effect.Effect.Success<typeof program>, Effect.Effect.Error<typeof program>>
        const results: Array<Result> = []
        yield* Effect.exit(Effect.zipRight(
          Effect.sync(() => {
            state.isBegun = true
          }),
          program
        )).pipe(
          Effect.tap((result) =>
            Effect.sync(() => {
              results.push(result)
            })
          ),
          process.within,
          Effect.forkDaemon
        )
        for (;;) {
          for (let steps = 0; steps < stepsInOneGo; steps++) {
            const [result] = results
            if (result !== undefined) return result
            if (!step() && state.isBegun) return yield* new Stuck({ elapsed })
          }
          yield* Effect.yieldNow()
        }
      })
  }
}
