/**
 * One member of a group, from its registration to the end of its scope.
 *
 * ```
 *   resolve streams -> find their consumers (fan-out) -> register -> first sync -> loops run -> close: stop, commit, release, deregister
 * ```
 *
 * Everything that runs in the background lives in `work`, a scope of its own that closing ends first. Each step of
 * closing has its part of `closeTimeout`, and a step that fails does not keep the next one from being tried.
 */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Ref from "effect/Ref"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import { KinesisClient } from "../KinesisClient.js"
import type { KinesisError } from "../KinesisError.js"
import * as KinesumerConfig from "../KinesumerConfig.js"
import {
  type CommitError,
  type ConsumeError,
  InvalidConfig,
  type LeaseLost,
  type StartError
} from "../KinesumerError.js"
import * as KinesumerEvent from "../KinesumerEvent.js"
import * as Metrics from "../KinesumerMetrics.js"
import type { KinesumerRecord } from "../KinesumerRecord.js"
import * as Position from "../Position.js"
import { StateStore } from "../StateStore.js"
import { type MemberMissing, type MemberReplaced, StateStoreError } from "../StateStoreError.js"
import * as Assignment from "./assignment.js"
import * as Backoff from "./backoff.js"
import * as Budget from "./budget.js"
import * as Committer from "./committer.js"
import * as Consumers from "./consumers.js"
import * as Deadlines from "./deadlines.js"
import * as Delivery from "./delivery.js"
import * as Environment from "./environment.js"
import { onFreshTurn } from "./freshTurn.js"
import * as Lane from "./lane.js"
import * as Membership from "./membership.js"
import * as Monotonic from "./monotonic.js"
import * as Pace from "./pace.js"
import * as Plan from "./plan.js"
import * as Reader from "./reader.js"
import type { ReaderContext } from "./readerSteps.js"
import * as Refresher from "./refresher.js"
import * as Run from "./run.js"
import * as ShardLists from "./shardLists.js"
import * as Signal from "./signal.js"
import * as Streams from "./streams.js"
import * as Sync from "./sync.js"

export interface Member {
  readonly env: Environment.Environment
  readonly membership: Membership.Membership
  readonly delivery: Delivery.Delivery
  readonly assignment: Assignment.Assignment
  readonly refresher: Refresher.Refresher
  readonly budget: Budget.Budget
  readonly seen: Ref.Ref<Sync.Seen>
  readonly loops: Effect.Effect<ReadonlyMap<string, Cause.Cause<unknown>>>
  readonly commit: Effect.Effect<void, CommitError>
  readonly refresh: (
    streams: ReadonlyArray<string | KinesumerConfig.StreamOptions>
  ) => Effect.Effect<void, StartError>
}

/** The stream that was configured under this name or ARN. */
export const findStream = (member: Member, label: string): Effect.Effect<Streams.StreamState, InvalidConfig> =>
  Effect.flatMap(Ref.get(member.seen), ({ streams }) => {
    const found = streams.find((stream) => stream.label === label || stream.key === label)
    return found === undefined
      ? new InvalidConfig({
        field: "stream",
        value: label,
        allowed: `one of the configured streams: ${streams.map((stream) => stream.label).join(", ")}`
      })
      : Effect.succeed(found)
  })

/** Marks a record that could not be processed, and tells of it. */
export const skip = (
  { delivery, env }: Member,
  record: KinesumerRecord,
  cause: unknown
): Effect.Effect<void, LeaseLost> =>
  Effect.gen(function*() {
    const { sequenceNumber, shardId, stream, subSequenceNumber } = record
    yield* delivery.mark([record])
    yield* env.count(Metrics.skipped, 1, { stream })
    yield* env.emit(KinesumerEvent.RecordSkipped({ stream, shardId, sequenceNumber, subSequenceNumber, cause }))
  })

/** Passing faults at the start are tried again for some seconds; longer ones are for whoever starts the process. */
const startTries = 6
const startBackoff = { base: Duration.millis(400), cap: Duration.seconds(5) }

const retryStart = <A, E extends KinesisError | StateStoreError | InvalidConfig, R>(
  env: Environment.Environment,
  effect: Effect.Effect<A, E, R>,
  attempt = 1
): Effect.Effect<A, E | StateStoreError, R> =>
  Effect.catchAll(
    Environment.inTime(env, "start", effect),
    (error) =>
      error._tag === "InvalidConfig" || !error.retryable || attempt >= startTries
        ? Effect.fail(error)
        : Effect.gen(function*() {
          const delay = yield* Backoff.delay(attempt, startBackoff)
          yield* Effect.logWarning(`Starting: tried again in ${Duration.format(delay)}`, error)
          yield* env.count(Metrics.retries, 1, { operation: error.operation, reason: error.reason })
          yield* Effect.sleep(delay)
          return yield* retryStart(env, effect, attempt + 1)
        })
  )

export const make = (
  config: KinesumerConfig.KinesumerConfig
): Effect.Effect<Member, StartError, KinesisClient | StateStore | Scope.Scope> =>
  Effect.gen(function*() {
    const env = yield* Environment.make({
      config,
      self: { memberId: config.memberId, incarnation: yield* randomIncarnation },
      kinesis: yield* KinesisClient,
      store: yield* StateStore
    })
    const resolved = yield* retryStart(env, Streams.resolve(env, config.streams))
    yield* retryStart(
      env,
      Effect.forEach(resolved, ({ description, stream }) => ShardLists.load(env, stream, description))
    )
    const streams = resolved.map(({ stream }) => stream)
    const consumers = yield* Consumers.make(env)
    const readyConsumers = (streams: ReadonlyArray<Streams.StreamState>) =>
      config.mode === "fanOut"
        ? onFreshTurn(Effect.forEach(streams, consumers.arnOf, { concurrency: 5, discard: true }))
        : Effect.void
    yield* readyConsumers(streams)

    const work = yield* Scope.make()
    const membership = yield* Membership.make(env, streams.map(({ key }) => key))
    const budget = Budget.make({ records: config.bufferSize, bytes: config.bufferBytes })
    const state = yield* Ref.make<Assignment.Runs>(new Map())
    const leaving = yield* Ref.make<Assignment.Runs>(new Map())
    const seen = yield* Ref.make<Sync.Seen>({
      streams,
      lists: new Map(),
      live: [],
      liveness: new Map(),
      awaitingChildren: [],
      unowned: new Set(),
      look: true
    })
    const syncSoon = yield* Signal.make
    const commitSoon = yield* Signal.make
    const loops = yield* Ref.make<ReadonlyMap<string, Cause.Cause<unknown>>>(new Map())

    const lookSoon = Effect.zipRight(Ref.update(seen, (current) => ({ ...current, look: true })), syncSoon.open)

    // --- What becomes of a run --------------------------------------------------------------------------------------

    const lost = (run: Run.Run): Effect.Effect<void> =>
      Effect.gen(function*() {
        if (!(yield* assignment.drop(run))) return
        yield* env.count(Metrics.leasesLost, 1, { stream: run.stream.label })
        yield* env.emit(KinesumerEvent.LeaseLost({ ...Run.nameOf(run), epoch: run.epoch }))
        yield* lookSoon
      })

    const ended = (run: Run.Run): Effect.Effect<void> =>
      Effect.gen(function*() {
        yield* Ref.update(run.lane, (lane) => Lane.committed(lane, Position.shardEnd))
        if (!(yield* assignment.drop(run))) return
        yield* env.emit(KinesumerEvent.ShardEnded(Run.nameOf(run)))
        yield* Ref.update(unnoted, (runs) => new Set(runs).add(run))
        yield* retryNoting(run).pipe(Effect.zipRight(lookSoon), Effect.forkIn(work), Effect.interruptible)
      })

    /** Ends that the shard lists do not tell yet. */
    const unnoted = yield* Ref.make<ReadonlySet<Run.Run>>(new Set())

    const noteEnd = (run: Run.Run): Effect.Effect<void, KinesisError | StateStoreError> =>
      Effect.gen(function*() {
        const children = yield* Ref.get(run.children)
        const isComplete = yield* ShardLists.noteEnd(env, run.stream, run.checkpointKey, run.shard.shardId, children)
        if (!isComplete) yield* refresher.refresh(run.stream)
        yield* Ref.update(unnoted, (runs) => new Set([...runs].filter((other) => other !== run)))
      })

    /** The others learn of the end by the list's version, so it is written however long that takes. */
    const retryNoting = (run: Run.Run): Effect.Effect<void> => {
      const name = `end of ${run.key}`
      const written = Environment.inTime(env, "noteEnd", noteEnd(run)).pipe(
        Effect.tapError((error) => env.emit(KinesumerEvent.SyncFailed({ error }))),
        Effect.retry(Schedule.spaced(config.syncInterval))
      )
      return Effect.ensuring(supervised(name, written), recovered(name))
    }

    const committer = yield* Committer.make({
      env,
      ended,
      lost: (run, row) =>
        Option.match(row, {
          onNone: () => lookSoon,
          onSome: (checkpoint) => {
            switch (Plan.standing(run, checkpoint, env.self)) {
              case "Lost":
                return lost(run)
              case "Vanished":
                return lookSoon
              case "Held":
                // A condition failed that holds now: the position is written with the next commit.
                return Effect.void
            }
          }
        }),
      vanished: () => lookSoon
    })

    const commitAll = (commit: Committer.Committer["commit"]) =>
      Effect.gen(function*() {
        const running = yield* assignment.running
        const leaving = yield* assignment.leaving
        yield* commit([...running.values(), ...leaving.values()])
      })

    // --- The parts --------------------------------------------------------------------------------------------------

    const delivery = yield* Delivery.make({
      env,
      budget,
      membership,
      runs: Ref.get(state),
      leaving: Ref.get(leaving),
      finished: Effect.asVoid(commitSoon.open)
    })
    const refresher = yield* Refresher.make({ env, membership, seen, changed: Effect.asVoid(syncSoon.open) })

    const read = (run: Run.Run, reading: Effect.Effect<never>): Effect.Effect<void> =>
      supervised(readerOf(run), reading).pipe(
        Effect.ensuring(recovered(readerOf(run))),
        Effect.forkIn(run.scope),
        Effect.interruptible,
        Effect.asVoid
      )
    const readerContext: ReaderContext = {
      env,
      budget,
      arrived: delivery.arrived,
      demand: delivery.demand,
      knownShards: (stream) => Effect.map(Ref.get(seen), ({ lists }) => lists.get(stream.key)?.shards ?? []),
      refreshShards: refresher.refresh,
      consumers,
      pace: yield* Pace.make,
      deadlines: yield* Deadlines.make(config.polling.timeout, work),
      readOn: read,
      running: Effect.map(Ref.get(state), ({ size }) => size),
      answered: (run) => recovered(readerOf(run)),
      ended: (run) =>
        Effect.zipRight(
          delivery.arrived(run),
          Effect.flatMap(Ref.get(run.lane), (lane) => Lane.isFinished(lane) ? commitSoon.open : Effect.void)
        )
    }

    const assignment = Assignment.make({
      env,
      scope: work,
      state,
      leaving,
      delivery,
      commit: committer.commit,
      read: (run) => read(run, Reader.run(readerContext, run)),
      handedOver: lookSoon
    })

    const syncContext: Sync.SyncContext = {
      env,
      membership,
      assignment,
      seen,
      commitSoon: Effect.asVoid(commitSoon.open),
      lost,
      ended
    }
    const syncing = yield* Effect.makeSemaphore(1)
    const sync = (newStreams: Option.Option<ReadonlyArray<Streams.StreamState>>) =>
      syncing.withPermits(1)(
        Environment.inTime(env, "sync", Sync.round(syncContext, newStreams))
      ).pipe(
        Effect.tapError((error) => env.emit(KinesumerEvent.SyncFailed({ error })))
      )

    // --- Failing ----------------------------------------------------------------------------------------------------

    const fail = (error: ConsumeError): Effect.Effect<void> =>
      Effect.gen(function*() {
        yield* Effect.logError("The group member stops", error)
        yield* delivery.finish(Option.some(error))
        // The leases go free even if the layer is kept open. Closing ends the scope that this runs in, so it must not be a
        // part of it; the layer's own finalizer waits for it.
        yield* Effect.forkDaemon(close)
      })

    /** What needs a person ends the group when it has lasted for the liveness timeout; the rest is told and waited for. */
    const brokenSince = yield* Ref.make<ReadonlyMap<string, number>>(new Map())
    const storeAnswered = (loop: string) =>
      Ref.update(brokenSince, (all) => new Map([...all].filter(([key]) => key !== loop)))
    const storeFailed = (loop: string, error: StateStoreError): Effect.Effect<void> =>
      Effect.gen(function*() {
        if (!needsPerson(error)) return yield* storeAnswered(loop)
        const now = yield* Monotonic.now
        const since = yield* Ref.modify(brokenSince, (all) => {
          const at = all.get(loop) ?? now
          return [at, new Map(all).set(loop, at)]
        })
        if (now - since >= env.timeouts.liveness) yield* fail(error)
      })

    // --- Loops ------------------------------------------------------------------------------------------------------

    /** A defect ends a round, never what it belongs to: it is told, and the next round comes. */
    const supervised = <A, E>(loop: string, effect: Effect.Effect<A, E>): Effect.Effect<A> =>
      Effect.catchAllCause(effect, (cause) =>
        Cause.isInterruptedOnly(cause)
          ? Effect.interrupt
          : Effect.gen(function*() {
            yield* Ref.update(loops, (all) => new Map(all).set(loop, cause))
            yield* env.count(Metrics.failures, 1, { loop })
            yield* Effect.logError(`The ${loop} failed and goes on`, cause)
            yield* env.emit(KinesumerEvent.LoopFailed({ loop, cause }))
            yield* Effect.sleep(config.syncInterval)
            return yield* supervised(loop, effect)
          }))

    const recovered = (loop: string): Effect.Effect<void> => Ref.update(loops, withoutLoop(loop))

    const everyRound = (loop: string, round: Effect.Effect<void>): Effect.Effect<void> =>
      Effect.asVoid(
        supervised(loop, Effect.forever(Effect.zipRight(round, recovered(loop)))).pipe(
          Effect.forkIn(work),
          Effect.interruptible
        )
      )

    /** Beats come at a fixed rate, however long a write takes; after a failure the next one comes sooner. */
    const heartbeat = Effect.gen(function*() {
      const startedAt = yield* Monotonic.now
      const pause = yield* membership.heartbeat.pipe(
        Effect.timeoutFail({ duration: Math.floor(env.timeouts.liveness / 2), onTimeout: () => heartbeatTimeout(env) }),
        onFreshTurn,
        Effect.zipRight(storeAnswered("heartbeat")),
        Effect.as(env.timeouts.heartbeat),
        Effect.catchAll((error) => Effect.as(heartbeatFailed(error), Math.ceil(env.timeouts.heartbeat / 5)))
      )
      yield* Effect.sleep(Math.max(0, startedAt + pause - (yield* Monotonic.now)))
    })
    const heartbeatFailed = (error: StateStoreError | MemberMissing | MemberReplaced): Effect.Effect<void> =>
      Effect.gen(function*() {
        yield* env.count(Metrics.failures, 1, { loop: "heartbeat" })
        yield* env.emit(KinesumerEvent.HeartbeatFailed({ error }))
        switch (error._tag) {
          case "MemberReplaced":
            return yield* fail(error)
          case "MemberMissing":
            return yield* lookSoon
          case "StateStoreError":
            return yield* storeFailed("heartbeat", error)
        }
      })

    const syncRound = Effect.gen(function*() {
      yield* onFreshTurn(Effect.timeoutOption(syncSoon.await, config.syncInterval))
      yield* syncSoon.close
      yield* sync(Option.none()).pipe(
        Effect.matchEffect({
          onFailure: (error) => Effect.zipRight(storeFailed("sync", error), Effect.sleep(retryPause)),
          onSuccess: () => storeAnswered("sync")
        })
      )
    })
    const retryPause = Duration.millis(Math.ceil(Duration.toMillis(config.syncInterval) / 5))

    const commitRound = Effect.gen(function*() {
      yield* onFreshTurn(Effect.timeoutOption(commitSoon.await, config.commit.interval))
      yield* commitSoon.close
      // A commit that fails has told so, and is written with the next one.
      yield* Effect.ignore(commitAll(committer.commit))
    })

    const refreshRound = Effect.gen(function*() {
      yield* Effect.sleep(config.syncInterval)
      yield* refresher.tick
      const missing = yield* refresher.missing
      const { streams: configured } = yield* Ref.get(seen)
      const gone = configured.map(({ key }) => missing.get(key))
      const now = yield* Monotonic.now
      const first = gone[0]
      if (
        first !== undefined &&
        gone.every((entry) => entry !== undefined && now - entry.since >= env.timeouts.liveness)
      ) {
        yield* fail(first.error)
      }
    })

    // --- Closing ----------------------------------------------------------------------------------------------------

    const closing = Effect.gen(function*() {
      const deadline = (yield* Monotonic.now) + Duration.toMillis(config.closeTimeout)
      const step = <A, E>(name: string, share: number, effect: Effect.Effect<A, E>): Effect.Effect<void> =>
        Effect.gen(function*() {
          const left = Math.max(0, deadline - (yield* Monotonic.now))
          yield* effect.pipe(
            Effect.interruptible,
            // Whatever hangs is left behind, even where it can't be interrupted.
            Effect.disconnect,
            Effect.interruptible,
            Effect.timeoutFail({
              duration: Math.floor(left * share),
              onTimeout: () => new Cause.TimeoutException(name)
            }),
            onFreshTurn,
            Effect.catchAllCause((cause) =>
              Effect.zipRight(
                Effect.logWarning(`Closing: ${name} is incomplete`, cause),
                env.emit(KinesumerEvent.CloseIncomplete({ step: name, cause }))
              )
            )
          )
        })
      yield* delivery.finish(Option.none())
      yield* step("stopping the readers", 0.25, Effect.zipRight(Scope.close(work, Exit.void), assignment.stopAll))
      yield* step("committing what was marked", 0.5, commitAll(committer.commit))
      const ends = yield* Ref.get(unnoted)
      if (ends.size > 0) {
        yield* step("telling the group which shards have ended", 0.25, Effect.forEach(ends, noteEnd, { discard: true }))
      }
      yield* step(
        "releasing the leases",
        0.5,
        Effect.gen(function*() {
          const runs = [...(yield* assignment.running).values(), ...(yield* assignment.leaving).values()]
          yield* Effect.forEach(runs, assignment.drop, { discard: true })
          yield* env.store.releaseLeases(config.app, env.self, runs.map(Run.leaseOf))
        })
      )
      yield* step("leaving the group", 1, membership.deregister)
    })
    // Whoever closes can be interrupted. Closing goes on in a fiber of its own, and is waited for all the same.
    const close = yield* Effect.cached(
      Effect.uninterruptible(Effect.flatMap(Effect.forkDaemon(closing), Fiber.join))
    )

    // --- Start ------------------------------------------------------------------------------------------------------

    yield* Effect.addFinalizer(() => close)
    yield* retryStart(env, membership.register)
    yield* everyRound("heartbeat", heartbeat)
    yield* retryStart(env, sync(Option.none()))
    yield* everyRound("sync", syncRound)
    yield* everyRound("commit", commitRound)
    yield* everyRound("refresh", refreshRound)
    if (env.kinesis.fallback !== undefined) {
      yield* env.kinesis.fallback.pipe(
        Effect.flatMap((error) => env.emit(KinesumerEvent.ProtocolFallback({ error }))),
        Effect.forkIn(work),
        Effect.interruptible
      )
    }

    return {
      env,
      membership,
      delivery,
      assignment,
      refresher,
      budget,
      seen,
      loops: Ref.get(loops),
      commit: commitAll(committer.commit),
      refresh: (entries) =>
        Effect.gen(function*() {
          const checked = yield* KinesumerConfig.streamsOf(entries, config.startFrom)
          const found = yield* Streams.resolve(env, checked)
          yield* Environment.inTime(
            env,
            "refresh",
            Effect.forEach(found, ({ description, stream }) => ShardLists.load(env, stream, description))
          )
          const next = found.map(({ stream }) => stream)
          yield* inScope(work, Effect.zipRight(readyConsumers(next), sync(Option.some(next))))
        })
    }
  })

const readerOf = (run: Run.Run): string => `reader of ${run.key}`

const withoutLoop = (loop: string) => <A>(loops: ReadonlyMap<string, A>): ReadonlyMap<string, A> =>
  loops.has(loop) ? new Map([...loops].filter(([key]) => key !== loop)) : loops

/** What no waiting mends. */
const needsPerson = (error: StateStoreError): boolean =>
  error.reason === "AccessDenied" || error.reason === "TableMissing" || error.reason === "TableInvalid" ||
  error.reason === "Locked"

const heartbeatTimeout = (env: Environment.Environment) =>
  new StateStoreError({
    reason: "Timeout",
    operation: "heartbeat",
    detail: `no answer within ${Duration.format(Duration.millis(env.timeouts.liveness / 2))} (half of livenessTimeout)`
  })

/** Runs an effect as a part of the scope's work: closing the scope ends it, and so does interrupting the caller. */
const inScope = <A, E>(scope: Scope.Scope, effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
  Effect.flatMap(
    effect.pipe(Effect.forkIn(scope), Effect.interruptible),
    (fiber) => Effect.onInterrupt(Fiber.join(fiber), () => Fiber.interrupt(fiber))
  )

const randomIncarnation = Effect.map(
  Effect.all([Random.nextIntBetween(0, 2 ** 30), Random.nextIntBetween(0, 2 ** 30)]),
  (parts) => parts.map((part) => part.toString(36).padStart(6, "0")).join("")
)
