/**
 * Reads one shard by polling, ahead of its cursor and as far as the buffer has room, for as long as its run goes on.
 *
 * Interruption can come at any point: what was reserved is given back, a page that was not pushed is read again from
 * the cursor by whoever comes next.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import type { GetRecordsResult } from "../KinesisClient.js"
import { KinesisError } from "../KinesisError.js"
import * as KinesumerEvent from "../KinesumerEvent.js"
import * as Metrics from "../KinesumerMetrics.js"
import * as Position from "../Position.js"
import type { Shard } from "../Shard.js"
import type { StateStoreError } from "../StateStoreError.js"
import * as Backoff from "./backoff.js"
import type { Budget, Room } from "./budget.js"
import type { Environment } from "./environment.js"
import * as Lane from "./lane.js"
import * as Lineage from "./lineage.js"
import * as Monotonic from "./monotonic.js"
import * as Page from "./page.js"
import * as Run from "./run.js"
import { type Listing, recordsLost } from "./shardLists.js"
import * as Signal from "./signal.js"
import type { StreamState } from "./streams.js"

export interface ReaderContext {
  readonly env: Environment
  readonly budget: Budget
  /** Tells the delivery that a run has something to hand out. */
  readonly arrived: (run: Run.Run) => Effect.Effect<void>
  /** What the run may hold ahead now; nothing while its stream is paused or nobody asks for it. */
  readonly demand: (run: Run.Run) => Effect.Effect<Room>
  /** The list as it is known now. */
  readonly knownShards: (stream: StreamState) => Effect.Effect<ReadonlyArray<Shard>>
  /** Asks Kinesis for the list anew. */
  readonly refreshShards: (stream: StreamState) => Effect.Effect<Listing, KinesisError | StateStoreError>
  /** A page has come: whatever kept the reader from getting on is over. */
  readonly answered: (run: Run.Run) => Effect.Effect<void>
  /** The shard is read to its end. */
  readonly ended: (run: Run.Run) => Effect.Effect<void>
}

/** 5 GetRecords a second for a shard, and 2 MiB a second. */
const callMillis = 200
const bytesPerMilli = 2 * 1024 * 1024 / 1000

const throttleBackoff = { base: Duration.seconds(1), cap: Duration.seconds(10) }
const faultBackoff = { base: Duration.millis(250), cap: Duration.seconds(10) }
/** For what needs a person, or a list that has to catch up. */
const patientBackoff = { base: Duration.seconds(1), cap: Duration.seconds(30) }

/** At the tip of a shard this many records are expected, or twice what came last. */
const expectedAtTip = 100

interface Iterator {
  readonly token: string
  /** Where it stands. It is of no use when reading has to go on from elsewhere. */
  readonly at: Position.Position
}

interface Progress {
  readonly iterator: Option.Option<Iterator>
  /** Monotonic time before which there must be no call. */
  readonly notBefore: number
  readonly wanted: number
  /** The size of a record of the last page, in bytes. */
  readonly recordBytes: number
  readonly failures: number
  /** That records may be lost was told when the position was refused. */
  readonly isLossTold: boolean
  /** The last answer was an end too, with a second sign that came after it. */
  readonly isEndSeen: boolean
}

export const run = (context: ReaderContext, shard: Run.Run): Effect.Effect<never> => {
  const { env } = context
  const { limit } = env.config.polling
  const start: Progress = {
    iterator: Option.none(),
    notBefore: 0,
    wanted: limit,
    recordBytes: 0,
    failures: 0,
    isLossTold: false,
    isEndSeen: false
  }
  const loop = (progress: Progress): Effect.Effect<never> => Effect.flatMap(round(context, shard, progress), loop)
  return loop(start)
}

const round = (context: ReaderContext, run: Run.Run, before: Progress): Effect.Effect<Progress> =>
  Effect.gen(function*() {
    const { lane, room } = yield* awaitRoom(context, run)
    const progress: Progress = {
      ...before,
      iterator: Option.filter(before.iterator, ({ at }) => Position.compare(at, lane.read) === 0)
    }
    const wait = progress.notBefore - (yield* Monotonic.now)
    if (wait > 0) {
      yield* Effect.sleep(wait)
      return progress
    }
    return yield* Option.match(progress.iterator, {
      onNone: () => openIterator(context, run, lane, progress),
      onSome: ({ token }) => poll(context, run, lane, { ...progress, wanted: within(room, progress) }, token)
    })
  })

/** A shard reads about two pages ahead; less where the buffer is shared out. Nothing is read after the end. */
const awaitRoom = (
  context: ReaderContext,
  run: Run.Run
): Effect.Effect<{ readonly lane: Lane.Lane; readonly room: Room }> =>
  Signal.awaitUntil(
    run.room,
    Effect.zipWith(context.demand(run), Ref.get(run.lane), (most, lane) => {
      const { waitingBytes, waitingRecords } = lane
      return lane.ending === "Open" && waitingBytes < most.bytes &&
          waitingRecords < Math.min(most.records, context.env.config.polling.limit)
        ? { lane, room: { records: most.records - waitingRecords, bytes: most.bytes - waitingBytes } }
        : undefined
    })
  )

/** The size of a page is known when it is there; that of its records is taken to be as it was. */
const within = (room: Room, { recordBytes, wanted }: Progress): number =>
  Math.max(1, Math.min(wanted, room.records, Math.floor(room.bytes / recordBytes)))

const openIterator = (
  context: ReaderContext,
  run: Run.Run,
  lane: Lane.Lane,
  progress: Progress
): Effect.Effect<Progress> => {
  const { env } = context
  return env.kinesis.getShardIterator(run.stream.id, run.shard.shardId, lane.read).pipe(
    withTimeout(env, run, "getShardIterator"),
    Effect.flatMap((token) =>
      Effect.map(Monotonic.now, (now) => ({
        ...progress,
        iterator: Option.some({ token, at: lane.read }),
        notBefore: Math.max(progress.notBefore, now)
      }))
    ),
    Effect.catchAll((error) => {
      switch (error.reason) {
        case "NotFound":
          return doubted(context, run, lane, progress, error)
        case "InvalidArgument":
          return lane.read._tag === "AfterSequence"
            ? doubted(context, run, lane, progress, error)
            // A moment that is still to come is refused until it is there.
            : retry(context, run, progress, error)
        default:
          return retry(context, run, progress, error)
      }
    })
  )
}

/** The position is not accepted any more, while the shard is there: on with the oldest record, and say so. */
const refused = (
  context: ReaderContext,
  run: Run.Run,
  lane: Lane.Lane,
  progress: Progress
): Effect.Effect<Progress> =>
  Effect.gen(function*() {
    yield* recordsLost(context.env, run.stream, run.shard.shardId, lane.read, "Refused")
    yield* resetLane(context, run, Lane.restart)
    return { ...progress, isLossTold: true }
  })

/** Changes the lane so that reading begins anew, and gives the room of what waited back. */
const resetLane = (
  context: ReaderContext,
  run: Run.Run,
  change: (lane: Lane.Lane) => Lane.Lane
): Effect.Effect<void> =>
  Effect.flatMap(
    Ref.modify(run.lane, (lane) => [lane.waiting, change(lane)]),
    (dropped) => releaseSlices(context.budget, dropped)
  ).pipe(Effect.uninterruptible)

export const releaseSlices = (budget: Budget, slices: ReadonlyArray<Lane.Slice>): Effect.Effect<void> =>
  budget.release(
    slices.reduce((sum, slice) => sum + slice.records.length, 0),
    slices.reduce((sum, slice) => sum + slice.bytes, 0)
  )

/** So often in a row a closed shard is not found, from its beginning on, before it is taken as gone. */
const missingTries = 5

/**
 * Stream or shard is not found, or the position is refused: a fresh list decides. A shard that Kinesis does not list
 * either is gone; one that it lists refuses the position. A closed one that is never found, at its beginning either, is
 * gone although it is still listed.
 */
const doubted = (
  context: ReaderContext,
  run: Run.Run,
  lane: Lane.Lane,
  progress: Progress,
  error: KinesisError
): Effect.Effect<Progress> =>
  context.refreshShards(run.stream).pipe(
    Effect.flatMap(({ list, shown }) => {
      const { shardId } = run.shard
      const isMissing = error.reason === "NotFound"
      // The stream was made again: this run is over with the next sync.
      if (list.checkpointKey !== run.checkpointKey) return retry(context, run, progress, error)
      if (isMissing && Lineage.isGone(list.shards, shown, shardId)) {
        return gone(context, run, lane, progress, list.shards)
      }
      if (isMissing && !isShown(shown, shardId)) return retry(context, run, progress, error)
      // Of an iterator it says nothing about the position: the next one tells.
      if (error.operation === "getRecords") return retry(context, run, progress, error)
      if (lane.read._tag === "AfterSequence") return refused(context, run, lane, progress)
      return isMissing && progress.failures >= missingTries && Lineage.agreesWithEnd(list.shards, shardId)
        ? gone(context, run, lane, progress, list.shards)
        : retry(context, run, progress, error)
    }),
    Effect.catchAll(() => retry(context, run, progress, error))
  )

const isShown = (shown: ReadonlyArray<Shard>, shardId: string): boolean =>
  shown.some((shard) => shard.shardId === shardId)

const gone = (
  context: ReaderContext,
  run: Run.Run,
  lane: Lane.Lane,
  progress: Progress,
  shards: ReadonlyArray<Shard>
): Effect.Effect<Progress> =>
  Effect.gen(function*() {
    if (!progress.isLossTold) {
      yield* recordsLost(context.env, run.stream, run.shard.shardId, lane.read, "ShardGone")
    }
    yield* finish(context, run, lane, progress, shards.filter(({ parents }) => parents.includes(run.shard.shardId)))
    return progress
  })

const poll = (
  context: ReaderContext,
  run: Run.Run,
  lane: Lane.Lane,
  progress: Progress,
  iterator: string
): Effect.Effect<Progress> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function*() {
      const { budget, env } = context
      const reserved = yield* budget.reserve(progress.wanted)
      const askedAt = yield* Monotonic.now
      const answer = yield* env.kinesis.getRecords(run.stream.id, run.shard.shardId, { iterator, limit: reserved })
        .pipe(
          withTimeout(env, run, "getRecords"),
          restore,
          Effect.onExit((exit) => exit._tag === "Failure" ? budget.settle(reserved, 0, 0) : Effect.void),
          Effect.either
        )
      if (answer._tag === "Left") return yield* restore(failed(context, run, lane, progress, answer.left))
      const { isTaken, page } = yield* take(context, run, lane, reserved, answer.right)
      const next = paced(context, progress, answer.right, page, askedAt)
      yield* Ref.set(run.trouble, Option.none())
      yield* context.answered(run)
      yield* Ref.set(run.lag, answer.right.millisBehindLatest)
      // The next iterator is behind what was refused: the same page is asked for again.
      if (!isTaken) return next
      if (Option.isSome(answer.right.nextIterator)) {
        return {
          ...next,
          iterator: Option.some({ token: answer.right.nextIterator.value, at: page.to }),
          isEndSeen: false
        }
      }
      const last: Progress = { ...next, iterator: Option.none(), failures: progress.failures }
      return yield* restore(atEnd(context, run, lane, last, answer.right.childShards))
    })
  )

/** Puts a page into the lane. Where it is refused meanwhile the page is dropped. */
const take = (
  context: ReaderContext,
  run: Run.Run,
  lane: Lane.Lane,
  reserved: number,
  answer: GetRecordsResult
): Effect.Effect<{ readonly isTaken: boolean; readonly page: Page.Page }> =>
  Effect.gen(function*() {
    const { budget, env } = context
    // An answer that can't be understood must not keep the room that was reserved for it.
    const page = yield* Effect.sync(() => Page.make(run, lane.read, answer, env.config.bufferSize)).pipe(
      Effect.onError(() => budget.settle(reserved, 0, 0))
    )
    const isTaken = yield* Ref.modify(run.lane, (current) =>
      Option.match(Lane.push(current, lane.generation, page.slices), {
        onNone: () => [false, current],
        onSome: (next) => [true, next]
      }))
    yield* isTaken
      ? budget.settle(reserved, page.records, page.bytes)
      : budget.settle(reserved, 0, 0)
    if (page.repeats > 0) {
      yield* env.count(Metrics.repeats, page.repeats, { stream: run.stream.label })
    }
    if (isTaken && page.records > 0) {
      yield* context.arrived(run)
    }
    return { isTaken, page }
  })

/** When the next call may be: at once while behind, within the limits of a shard; at the tip after the idle interval. */
const paced = (
  context: ReaderContext,
  progress: Progress,
  answer: GetRecordsResult,
  page: Page.Page,
  askedAt: number
): Progress => {
  const { idleInterval, limit } = context.env.config.polling
  const isBehind = Option.exists(answer.millisBehindLatest, (millis) => millis > 0)
  const pace = Math.max(callMillis, Math.ceil(page.bytesRead / bytesPerMilli))
  return {
    ...progress,
    failures: 0,
    notBefore: askedAt + (isBehind ? pace : Math.max(pace, Duration.toMillis(idleInterval))),
    recordBytes: page.records === 0 ? progress.recordBytes : page.bytes / page.records,
    wanted: isBehind ? limit : Math.min(limit, Math.max(expectedAtTip, page.records * 2))
  }
}

/** There is nothing more to read. The end is believed when a second sign agrees with it. */
const atEnd = (
  context: ReaderContext,
  run: Run.Run,
  lane: Lane.Lane,
  progress: Progress,
  children: ReadonlyArray<Shard>
): Effect.Effect<Progress> =>
  Effect.gen(function*() {
    const { shardId } = run.shard
    if (children.length > 0) return yield* finish(context, run, lane, progress, children)
    const agrees = Lineage.agreesWithEnd(yield* context.knownShards(run.stream), shardId) ||
      (yield* context.refreshShards(run.stream).pipe(
        Effect.map(({ list, shown }) =>
          list.checkpointKey === run.checkpointKey &&
          (Lineage.agreesWithEnd(list.shards, shardId) || Lineage.isGone(list.shards, shown, shardId))
        ),
        Effect.orElseSucceed(() => false)
      ))
    if (agrees && progress.isEndSeen) return yield* finish(context, run, lane, progress, [])
    // The shard may have closed since the answer was given: the end has to be there once more.
    if (agrees) return { ...progress, iterator: Option.none(), isEndSeen: true }
    const failures = progress.failures + 1
    // An end is written at the latest one refresh after the list has caught up.
    const delay = yield* Backoff.delay(failures, {
      ...patientBackoff,
      cap: Duration.min(patientBackoff.cap, Duration.millis(context.env.timeouts.refresh))
    })
    return {
      ...progress,
      failures,
      notBefore: (yield* Monotonic.now) + Duration.toMillis(delay)
    }
  })

const finish = (
  context: ReaderContext,
  run: Run.Run,
  lane: Lane.Lane,
  progress: Progress,
  children: ReadonlyArray<Shard>
): Effect.Effect<Progress> =>
  Effect.zipRight(
    Ref.set(run.children, children),
    Effect.zipRight(
      Ref.update(run.lane, (current) => Lane.end(current, lane.generation)),
      context.ended(run)
    )
  ).pipe(Effect.uninterruptible, Effect.as(progress))

const failed = (
  context: ReaderContext,
  run: Run.Run,
  lane: Lane.Lane,
  progress: Progress,
  error: KinesisError
): Effect.Effect<Progress> => {
  const anew: Progress = { ...progress, iterator: Option.none() }
  switch (error.reason) {
    case "ExpiredIterator":
      // The next one stands where reading had got to. Only a second refusal in a row is a fault.
      return progress.failures === 0
        ? Effect.succeed({ ...anew, failures: 1 })
        : retry(context, run, anew, error)
    case "NotFound":
      return doubted(context, run, lane, anew, error)
    case "Throttled":
    case "Timeout":
      return retry(context, run, progress, error)
    default:
      // An iterator that is no good looks like any other fault to some servers, so a new one is asked for.
      return retry(context, run, anew, error)
  }
}

const boundsOf = (error: KinesisError) => {
  switch (error.reason) {
    case "Throttled":
      return throttleBackoff
    case "AccessDenied":
    case "NotFound":
    case "InvalidArgument":
      return patientBackoff
    default:
      return faultBackoff
  }
}

const retry = (
  { env }: ReaderContext,
  run: Run.Run,
  progress: Progress,
  error: KinesisError
): Effect.Effect<Progress> =>
  Effect.gen(function*() {
    const attempt = progress.failures + 1
    const delay = yield* Backoff.delay(attempt, boundsOf(error))
    yield* Ref.set(run.trouble, Option.some(error))
    yield* env.count(Metrics.retries, 1, { operation: error.operation, reason: error.reason })
    yield* env.emit(KinesumerEvent.Retrying({ ...Run.nameOf(run), operation: error.operation, attempt, delay, error }))
    return { ...progress, failures: attempt, notBefore: (yield* Monotonic.now) + Duration.toMillis(delay) }
  })

const withTimeout =
  (env: Environment, run: Run.Run, operation: string) =>
  <A>(call: Effect.Effect<A, KinesisError>): Effect.Effect<A, KinesisError> =>
    Effect.timeoutFail(call, {
      duration: env.config.polling.timeout,
      onTimeout: () =>
        new KinesisError({
          reason: "Timeout",
          operation,
          stream: run.stream.label,
          shardId: run.shard.shardId,
          detail: `no answer within ${Duration.format(env.config.polling.timeout)} (polling.timeout)`
        })
    })
