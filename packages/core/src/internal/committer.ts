/**
 * Writes what was marked. One commit at a time, so that the positions of a shard reach the store in order; each write is
 * fenced by the run's lease, and what the store answers is acted on even if whoever asked is gone.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import { type CommitError, LeaseLost } from "../KinesumerError.js"
import * as KinesumerEvent from "../KinesumerEvent.js"
import * as Metrics from "../KinesumerMetrics.js"
import type { Position } from "../Position.js"
import type { Checkpoint, CommitResult } from "../StateStore.js"
import { StateStoreError } from "../StateStoreError.js"
import type { Environment } from "./environment.js"
import { onFreshTurn } from "./freshTurn.js"
import * as Lane from "./lane.js"
import * as Run from "./run.js"

export interface CommitContext {
  readonly env: Environment
  /** The end of the shard is written, and its lease is given back with it. */
  readonly ended: (run: Run.Run) => Effect.Effect<void>
  /** The lease is not current; the row says whose it is. */
  readonly lost: (run: Run.Run, row: Option.Option<Checkpoint>) => Effect.Effect<void>
  /** The row is not there. */
  readonly vanished: (run: Run.Run) => Effect.Effect<void>
}

export interface Committer {
  /** Commits what is marked of these runs; succeeds if everything marked is written. */
  readonly commit: (runs: Iterable<Run.Run>) => Effect.Effect<void, CommitError>
}

interface Item {
  readonly run: Run.Run
  readonly position: Position
}

export const make = (context: CommitContext): Effect.Effect<Committer> =>
  Effect.map(Effect.makeSemaphore(1), (mutex) => ({
    commit: (runs) => mutex.withPermits(1)(commit(context, runs))
  }))

const commit = (context: CommitContext, runs: Iterable<Run.Run>): Effect.Effect<void, CommitError> =>
  Effect.gen(function*() {
    const { env } = context
    const items = yield* pending(runs)
    if (items.length === 0) return
    const errors = yield* Effect.uninterruptibleMask((restore) =>
      restore(write(env, items)).pipe(
        Effect.flatMap((results) => Effect.forEach(items, (item, index) => settle(context, item, results[index]))),
        Effect.catchTag("StateStoreError", (error) => Effect.succeed([Option.some<CommitError>(error)]))
      )
    )
    const failed = errors.flatMap(Option.toArray)
    const storeError = failed.find((error) => error._tag === "StateStoreError")
    if (storeError !== undefined) {
      yield* env.count(Metrics.failures, 1, { loop: "commit" })
      yield* env.emit(
        KinesumerEvent.CommitFailed({ shards: items.map(({ run }) => Run.nameOf(run)), error: storeError })
      )
    }
    const error = storeError ?? failed[0]
    if (error !== undefined) return yield* Effect.fail(error)
  }).pipe(Effect.withSpan("kinesumer.commit", { captureStackTrace: false }))

const pending = (runs: Iterable<Run.Run>): Effect.Effect<ReadonlyArray<Item>> =>
  Effect.map(
    Effect.forEach(runs, (run) =>
      Effect.zipWith(Ref.get(run.status), Ref.get(run.lane), (status, lane) =>
        status === "Over"
          ? Option.none<Item>()
          : Option.map(Lane.toCommit(lane), (position) => ({ run, position })))),
    (items) =>
      items.flatMap(Option.toArray)
  )

const write = (
  env: Environment,
  items: ReadonlyArray<Item>
): Effect.Effect<ReadonlyArray<CommitResult>, StateStoreError> =>
  env.store.commitCheckpoints(
    env.config.app,
    env.self,
    items.map(({ position, run }) => ({ ...Run.leaseOf(run), position }))
  ).pipe(
    Effect.timeoutFail({
      duration: env.config.commit.timeout,
      onTimeout: () =>
        new StateStoreError({
          reason: "Timeout",
          operation: "commitCheckpoints",
          detail: `no answer within ${Duration.format(env.config.commit.timeout)} (commit.timeout)`
        })
    }),
    onFreshTurn
  )

const settle = (
  context: CommitContext,
  { position, run }: Item,
  result: CommitResult | undefined
): Effect.Effect<Option.Option<CommitError>> => {
  const lost = Option.some(new LeaseLost({ ...Run.nameOf(run), epoch: run.epoch }))
  switch (result?._tag) {
    case "Committed":
      return Effect.gen(function*() {
        yield* context.env.count(Metrics.commits, 1, { stream: run.stream.label })
        if (position._tag === "ShardEnd") {
          yield* context.ended(run)
        } else {
          yield* Ref.update(run.lane, (lane) => Lane.committed(lane, position))
        }
        return Option.none()
      })
    case "Lost":
      return Effect.as(context.lost(run, Option.some(result.checkpoint)), lost)
    case "Missing":
      return Effect.as(context.vanished(run), lost)
    case "Failed":
      return Effect.succeed(Option.some(result.error))
    case undefined:
      return Effect.succeed(Option.some(
        new StateStoreError({
          reason: "Unknown",
          operation: "commitCheckpoints",
          detail: `the store gave no answer for ${run.stream.label}/${run.shard.shardId}`
        })
      ))
  }
}
