/**
 * The shards that this member runs: one immutable map in a `Ref`, and the starting and stopping that belongs to a change
 * of it. A run leaves the map in one of four ways: handed over, lost, ended, or with the member.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Ref from "effect/Ref"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import * as KinesumerEvent from "../KinesumerEvent.js"
import * as Metrics from "../KinesumerMetrics.js"
import type { Committer } from "./committer.js"
import type { Delivery } from "./delivery.js"
import { type Environment, inTime } from "./environment.js"
import { onFreshTurn } from "./freshTurn.js"
import * as Lane from "./lane.js"
import * as Run from "./run.js"
import * as Signal from "./signal.js"

export type Runs = ReadonlyMap<string, Run.Run>

export interface Assignment {
  readonly running: Effect.Effect<Runs>
  /** Runs that are being handed over: they still hold their leases. */
  readonly leaving: Effect.Effect<Runs>
  /** Publishes a new set of runs and starts and stops the difference. Nothing here waits or fails. */
  readonly publish: (started: ReadonlyArray<Run.Run>, stopped: ReadonlyArray<Run.Run>) => Effect.Effect<void>
  /** Takes a run out whose lease is not ours any more, or is over. */
  readonly drop: (run: Run.Run) => Effect.Effect<boolean>
  /** Stops all readers, for good. Leases are kept. */
  readonly stopAll: Effect.Effect<void>
}

export const make = (options: {
  readonly env: Environment
  /** Background work of the member: readers and hand-overs live at most as long. */
  readonly scope: Scope.Scope
  readonly state: Ref.Ref<Runs>
  readonly leaving: Ref.Ref<Runs>
  readonly delivery: Delivery
  readonly commit: Committer["commit"]
  /** Begins to read, in the scope of the run. */
  readonly read: (run: Run.Run) => Effect.Effect<void>
  /** A hand-over is through: what depends on it can be looked at again. */
  readonly handedOver: Effect.Effect<void>
}): Assignment => {
  const { delivery, env, leaving, scope, state } = options

  const stopReader = (run: Run.Run): Effect.Effect<void> => Scope.close(run.scope, Exit.void)

  const gauge = Effect.flatMap(Ref.get(state), (runs) => env.gauge(Metrics.shards, runs.size))

  const end = (run: Run.Run): Effect.Effect<boolean> =>
    Effect.gen(function*() {
      const wasOver = (yield* Ref.getAndSet(run.status, "Over")) === "Over"
      if (wasOver) return false
      yield* run.over.open
      yield* Ref.update(state, without(run))
      yield* delivery.stopped(run)
      yield* gauge
      // Its reader may be the one that asks, so it is not waited for.
      yield* Effect.forkIn(stopReader(run), scope)
      return true
    }).pipe(Effect.uninterruptible)

  const drop = (run: Run.Run): Effect.Effect<boolean> =>
    Effect.uninterruptible(Effect.zipLeft(end(run), Ref.update(leaving, without(run))))

  /**
   * Hands a shard over: nothing more of it is delivered, the slice in hand gets one sync interval to be marked, then
   * the position is written and the lease is given back. What can't be written is delivered again by the next owner.
   */
  const handOver = (run: Run.Run): Effect.Effect<void> =>
    Effect.gen(function*() {
      yield* stopReader(run)
      yield* settled(run).pipe(Effect.timeoutOption(env.config.syncInterval), onFreshTurn)
      // A commit that fails tells so itself, and must not keep the next owner waiting.
      yield* Effect.ignore(options.commit([run]))
      if (yield* end(run)) yield* release(run)
      yield* drop(run)
      yield* options.handedOver
    }).pipe(
      Effect.catchAllCause((cause) =>
        // Closing interrupts it, and does the rest itself.
        Cause.isInterruptedOnly(cause) ? Effect.interrupt : Effect.zipRight(
          Effect.zipRight(drop(run), options.handedOver),
          env.emit(KinesumerEvent.LoopFailed({ loop: `hand-over of ${run.key}`, cause }))
        )
      )
    )

  /**
   * No later sync need look at this stream, so it is tried until it is done. The run counts as leaving until then: a
   * lease that is on its way back must not be taken for one that is held.
   */
  const release = (run: Run.Run): Effect.Effect<void> =>
    inTime(env, "releaseLeases", env.store.releaseLeases(env.config.app, env.self, [Run.leaseOf(run)])).pipe(
      Effect.tapError((error) => env.emit(KinesumerEvent.SyncFailed({ error }))),
      Effect.retry(Schedule.spaced(env.config.syncInterval)),
      Effect.orDie
    )

  return {
    running: Ref.get(state),
    leaving: Ref.get(leaving),
    publish: (started, stopped) =>
      Effect.gen(function*() {
        yield* Ref.update(state, (runs) => new Map([...without(...stopped)(runs), ...byKey(started)]))
        yield* Ref.update(leaving, (runs) => new Map([...runs, ...byKey(stopped)]))
        for (const run of stopped) {
          yield* Ref.set(run.status, "Leaving")
          yield* delivery.stopped(run)
          yield* handOver(run).pipe(Effect.forkIn(scope), Effect.interruptible)
        }
        yield* Effect.forEach(started, options.read, { discard: true })
        yield* delivery.started
        yield* gauge
      }).pipe(Effect.uninterruptible),
    drop,
    stopAll: Effect.gen(function*() {
      const runs = [...(yield* Ref.get(state)).values(), ...(yield* Ref.get(leaving)).values()]
      yield* onFreshTurn(Effect.forEach(runs, stopReader, { concurrency: "unbounded", discard: true }))
    })
  }
}

const settled = (run: Run.Run): Effect.Effect<boolean> =>
  Signal.awaitUntil(run.settled, Effect.map(Ref.get(run.lane), (lane) => Lane.isSettled(lane) || undefined))

const byKey = (runs: ReadonlyArray<Run.Run>): ReadonlyArray<readonly [string, Run.Run]> =>
  runs.map((run) => [run.key, run] as const)

/** The map without these very runs: a later run of the same shard stays. */
const without = (...gone: ReadonlyArray<Run.Run>) => (runs: Runs): Runs =>
  new Map([...runs].filter(([key, run]) => !gone.some((one) => one.key === key && one === run)))
