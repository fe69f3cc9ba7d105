/**
 * What reading a shard is made of, whichever way its records come: waiting for room, trying again, and telling a fault
 * from an end.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import type { GetRecordsResult } from "../KinesisClient.js"
import type { KinesisError } from "../KinesisError.js"
import * as KinesumerEvent from "../KinesumerEvent.js"
import * as Metrics from "../KinesumerMetrics.js"
import * as Position from "../Position.js"
import type { Shard } from "../Shard.js"
import type { StateStoreError } from "../StateStoreError.js"
import * as Backoff from "./backoff.js"
import * as Budget from "./budget.js"
import type { Consumers } from "./consumers.js"
import type { Content } from "./content.js"
import type { Deadlines } from "./deadlines.js"
import type { Environment } from "./environment.js"
import * as Lane from "./lane.js"
import * as Lineage from "./lineage.js"
import * as Monotonic from "./monotonic.js"
import type { Pace } from "./pace.js"
import * as Page from "./page.js"
import * as Run from "./run.js"
import { type Listing, recordsLost } from "./shardLists.js"
import * as Signal from "./signal.js"
import type { StreamState } from "./streams.js"

export interface ReaderContext {
  readonly env: Environment
  readonly budget: Budget.Budget
  /** Tells the delivery that a run has something to hand out. */
  readonly arrived: (run: Run.Run) => Effect.Effect<void>
  /** What the run may hold ahead now; nothing while its stream is paused or nobody asks for it. */
  readonly demand: (run: Run.Run) => Effect.Effect<Budget.Room>
  /** The list as it is known now. */
  readonly knownShards: (stream: StreamState) => Effect.Effect<ReadonlyArray<Shard>>
  /** Asks Kinesis for the list anew. */
  readonly refreshShards: (stream: StreamState) => Effect.Effect<Listing, KinesisError | StateStoreError>
  /** A page has come: whatever kept the reader from getting on is over. */
  readonly answered: (run: Run.Run) => Effect.Effect<void>
  /** The shard is read to its end. */
  readonly ended: (run: Run.Run) => Effect.Effect<void>
  /** Of calls that are made again and again. */
  readonly deadlines: Deadlines
  /** Has a fiber of its own read the shard on. */
  readonly readOn: (run: Run.Run, reading: Effect.Effect<never>) => Effect.Effect<void>
  readonly consumers: Consumers
  /** Of subscriptions. */
  readonly pace: Pace
  /** How many shards the member runs now. */
  readonly running: Effect.Effect<number>
}

/** What a reader remembers from one step to the next. */
export interface Progress {
  /** Monotonic time before which there must be no call. */
  readonly notBefore: number
  readonly failures: number
  /** That records may be lost was told when the position was refused. */
  readonly isLossTold: boolean
  /** The last answer was an end too, with a second sign that came after it. */
  readonly isEndSeen: boolean
}

export const start: Progress = { notBefore: 0, failures: 0, isLossTold: false, isEndSeen: false }

/** A split or an earlier owner's subscription takes its time; asking sooner helps nobody, nor does waiting longer. */
const inUseBackoff = { base: Duration.seconds(2), cap: Duration.seconds(2) }
const throttleBackoff = { base: Duration.seconds(1), cap: Duration.seconds(10) }
const faultBackoff = { base: Duration.millis(250), cap: Duration.seconds(10) }
/** For what needs a person, or a list that has to catch up. */
const patientBackoff = { base: Duration.seconds(1), cap: Duration.seconds(30) }

/** Waits until less than `ahead` records wait; less where the buffer is shared out. Nothing is read after the end. */
export const awaitRoom = (
  context: ReaderContext,
  run: Run.Run,
  ahead: number
): Effect.Effect<{ readonly lane: Lane.Lane; readonly room: Budget.Room }> =>
  Signal.awaitUntil(
    run.room,
    Effect.zipWith(context.demand(run), Ref.get(run.lane), (most, lane) => {
      const { waitingBytes, waitingRecords } = lane
      return lane.ending === "Open" && waitingBytes < most.bytes &&
          waitingRecords < Math.min(most.records, ahead)
        ? { lane, room: { records: most.records - waitingRecords, bytes: most.bytes - waitingBytes } }
        : undefined
    })
  )

/** Goes on after a pause that grows with each failure in a row. */
export const retry = <P extends Progress>(
  { env }: ReaderContext,
  run: Run.Run,
  progress: P,
  error: KinesisError
): Effect.Effect<P> =>
  Effect.gen(function*() {
    const attempt = progress.failures + 1
    const delay = yield* Backoff.delay(attempt, boundsOf(error))
    yield* Ref.update(run.reading, (reading) => ({ ...reading, trouble: Option.some(error) }))
    yield* env.count(Metrics.retries, 1, { operation: error.operation, reason: error.reason })
    yield* env.emit(KinesumerEvent.Retrying({ ...Run.nameOf(run), operation: error.operation, attempt, delay, error }))
    return { ...progress, failures: attempt, notBefore: (yield* Monotonic.now) + Duration.toMillis(delay) }
  })

const boundsOf = (error: KinesisError) => {
  switch (error.reason) {
    case "ResourceInUse":
      return inUseBackoff
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

/** So often in a row a closed shard is not found, from its beginning on, before it is taken as gone. */
const missingTries = 5

/**
 * Stream or shard is not found, or the position is refused: a fresh list decides. A shard that Kinesis does not list
 * either is gone; one that it lists refuses the position. A closed one that is never found, at its beginning either, is
 * gone although it is still listed.
 */
export const doubted = <P extends Progress>(
  context: ReaderContext,
  run: Run.Run,
  lane: Lane.Lane,
  progress: P,
  error: KinesisError
): Effect.Effect<P> =>
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

const gone = <P extends Progress>(
  context: ReaderContext,
  run: Run.Run,
  lane: Lane.Lane,
  progress: P,
  shards: ReadonlyArray<Shard>
): Effect.Effect<P> =>
  Effect.gen(function*() {
    if (!progress.isLossTold) {
      yield* recordsLost(context.env, run.stream, run.shard.shardId, lane.read, "ShardGone")
    }
    yield* finish(context, run, lane, progress, shards.filter(({ parents }) => parents.includes(run.shard.shardId)))
    return progress
  })

/** The position is not accepted any more, while the shard is there: on with the oldest record, and say so. */
const refused = <P extends Progress>(
  context: ReaderContext,
  run: Run.Run,
  lane: Lane.Lane,
  progress: P
): Effect.Effect<P> =>
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
    (dropped) => Budget.releaseSlices(context.budget, dropped)
  ).pipe(Effect.uninterruptible)

/** There is nothing more to read. The end is believed when a second sign agrees with it. */
export const atEnd = <P extends Progress>(
  context: ReaderContext,
  run: Run.Run,
  lane: Lane.Lane,
  progress: P,
  children: ReadonlyArray<Shard>
): Effect.Effect<P> =>
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
    if (agrees) return { ...progress, isEndSeen: true }
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

const finish = <P extends Progress>(
  context: ReaderContext,
  run: Run.Run,
  lane: Lane.Lane,
  progress: P,
  children: ReadonlyArray<Shard>
): Effect.Effect<P> =>
  Effect.zipRight(
    Ref.set(run.children, children),
    Effect.zipRight(
      Ref.update(run.lane, (current) => Lane.end(current, lane.generation)),
      context.ended(run)
    )
  ).pipe(Effect.uninterruptible, Effect.as(progress))

/** An answer has come: whatever kept the shard from getting on is over. */
export const answered = (
  context: ReaderContext,
  run: Run.Run,
  lag: Option.Option<number>
): Effect.Effect<void> =>
  Effect.flatMap(Monotonic.now, (now) =>
    Effect.zipRight(
      Ref.set(run.reading, { lag, answeredAt: Option.some(now), trouble: Option.none() }),
      context.answered(run)
    ))

/** Tells what of an answer is not delivered. */
export const tellDropped = (
  { env }: ReaderContext,
  run: Run.Run,
  { outOfRange, repeats }: Content
): Effect.Effect<void> =>
  Effect.gen(function*() {
    const tags = { stream: run.stream.label }
    if (repeats > 0) yield* env.count(Metrics.repeats, repeats, tags)
    if (outOfRange === 0) return
    yield* env.count(Metrics.outOfRange, outOfRange, tags)
    yield* env.emit(KinesumerEvent.OutOfRangeDropped({ ...Run.nameOf(run), records: outOfRange }))
  })

/** Puts slices into the lane, where they are not refused meanwhile. */
export const push = (run: Run.Run, generation: number, slices: ReadonlyArray<Lane.Slice>): Effect.Effect<boolean> =>
  Ref.modify(run.lane, (current) =>
    Option.match(Lane.push(current, generation, slices), {
      onNone: () => [false, current],
      onSome: (next) => [true, next]
    }))

export const isAt = ({ read }: Lane.Lane, at: Position.Position): boolean => Position.compare(read, at) === 0

/** Puts records, from the one at `start` on, into the lane, slice by slice as there is room, and gives where they end. */
export const put = (
  context: ReaderContext,
  run: Run.Run,
  at: Position.Position,
  { records, to }: Content,
  start: number,
  answer: Pick<GetRecordsResult, "millisBehindLatest">,
  ahead: number
): Effect.Effect<Option.Option<Position.Position>> =>
  Effect.gen(function*() {
    let from = at
    for (let next = start; next < records.count;) {
      const slice = yield* putSlice(
        context,
        run,
        from,
        (most) => Page.cut(run, from, records, next, answer, most),
        ahead
      )
      if (Option.isNone(slice)) return Option.none()
      from = slice.value.to
      next += slice.value.size
    }
    yield* Ref.update(run.lane, (lane) => Lane.pass(lane, from, to))
    return Option.some(from)
  })

/** Puts a slice into the lane, as large as there is room then. There is none where reading has to go on elsewhere. */
const putSlice = (
  context: ReaderContext,
  run: Run.Run,
  from: Position.Position,
  cut: (most: Budget.Room) => Lane.Slice,
  ahead: number
): Effect.Effect<Option.Option<Lane.Slice>> =>
  Effect.gen(function*() {
    const { budget, env: { config: { bufferBytes, bufferSize } } } = context
    const { lane, room } = yield* awaitRoom(context, run, ahead)
    if (!isAt(lane, from)) return Option.none()
    const slice = cut({ records: Math.min(bufferSize, room.records), bytes: Math.min(bufferBytes, room.bytes) })
    const isPut = yield* Effect.uninterruptible(Effect.gen(function*() {
      yield* budget.take({ records: slice.size, bytes: slice.bytes })
      const isPushed = yield* push(run, lane.generation, [slice])
      yield* isPushed ? context.arrived(run) : Budget.releaseSlices(budget, [slice])
      return isPushed
    }))
    return isPut ? Option.some(slice) : yield* putSlice(context, run, from, cut, ahead)
  })
