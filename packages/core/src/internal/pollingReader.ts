/**
 * Reads one shard by polling, ahead of its cursor and as far as the buffer has room, for as long as its run goes on.
 *
 * Interruption can come at any point: what was reserved is given back, a page that was not pushed is read again from
 * the cursor by whoever comes next.
 */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import type { GetRecordsResult } from "../KinesisClient.js"
import { KinesisError } from "../KinesisError.js"
import * as Position from "../Position.js"
import type { Budget, Room } from "./budget.js"
import * as Content from "./content.js"
import type { Environment } from "./environment.js"
import { onFreshTurn } from "./freshTurn.js"
import type * as Lane from "./lane.js"
import * as Monotonic from "./monotonic.js"
import * as Page from "./page.js"
import * as Steps from "./readerSteps.js"
import type * as Run from "./run.js"

/** 5 GetRecords a second for a shard, and 2 MiB a second. */
const callMillis = 200
const bytesPerMilli = 2 * 1024 * 1024 / 1000

/** At the tip of a shard this many records are expected, or twice what came last. */
const expectedAtTip = 100

interface Iterator {
  readonly token: string
  /** Where it stands. It is of no use when reading has to go on from elsewhere. */
  readonly at: Position.Position
}

interface Progress extends Steps.Progress {
  readonly iterator: Option.Option<Iterator>
  /** Records of Kinesis. */
  readonly wanted: number
  /** So many records to deliver came of each record of Kinesis in the last page: more than one where they are aggregates. */
  readonly expansion: number
  /** The size of a record to deliver in the last page, in bytes. */
  readonly recordBytes: number
}

export const run = (context: Steps.ReaderContext, shard: Run.Run): Effect.Effect<never> => {
  const { env } = context
  const { limit } = env.config.polling
  return loop(context, shard, { ...Steps.start, iterator: Option.none(), wanted: limit, expansion: 1, recordBytes: 0 })
}

const loop = (context: Steps.ReaderContext, run: Run.Run, progress: Progress): Effect.Effect<never> =>
  Effect.flatMap(round(context, run, progress), (next) => loop(context, run, next))

const round = (context: Steps.ReaderContext, run: Run.Run, progress: Progress): Effect.Effect<Progress> =>
  Effect.flatMap(Monotonic.sleepUntil(progress.notBefore), () => ask(context, run, progress))

const ask = (context: Steps.ReaderContext, run: Run.Run, progress: Progress): Effect.Effect<Progress> =>
  Effect.flatMap(
    Steps.awaitRoom(context, run, context.env.config.polling.limit),
    ({ lane, room }) => {
      const iterator = Option.filter(progress.iterator, ({ at }) => Position.compare(at, lane.read) === 0)
      return Option.isSome(iterator)
        ? poll(context, run, lane, progress, room, iterator.value.token)
        : openIterator(context, run, lane, { ...progress, iterator })
    }
  )

/** The size of a page is known when it is there; that of its records is taken to be as it was. */
const within = (room: Room, { expansion, recordBytes, wanted }: Progress): number =>
  Math.max(1, Math.min(Math.ceil(wanted * expansion), room.records, Math.floor(room.bytes / recordBytes)))

const openIterator = (
  context: Steps.ReaderContext,
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
          return Steps.doubted(context, run, lane, progress, error)
        case "InvalidArgument":
          return lane.read._tag === "AfterSequence"
            ? Steps.doubted(context, run, lane, progress, error)
            // A moment that is still to come is refused until it is there.
            : Steps.retry(context, run, progress, error)
        default:
          return Steps.retry(context, run, progress, error)
      }
    })
  )
}

const poll = (
  context: Steps.ReaderContext,
  run: Run.Run,
  lane: Lane.Lane,
  progress: Progress,
  room: Room,
  iterator: string
): Effect.Effect<Progress> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function*() {
      const { budget, env } = context
      const reserved = yield* budget.reserve(within(room, progress))
      const limit = Math.max(1, Math.min(progress.wanted, Math.floor(reserved / progress.expansion)))
      const askedAt = yield* Monotonic.now
      const deadline = yield* context.deadlines.add(askedAt, (fiber) => late(context, run, progress, fiber))
      const exit = yield* Effect.exit(
        Effect.map(
          restore(env.kinesis.getRecords(run.stream.id, run.shard.shardId, { iterator, limit })),
          (answer) => ({ answer, isEmpty: Content.isEmpty(answer) })
        )
      )
      yield* context.deadlines.remove(deadline)
      if (Exit.isFailure(exit)) {
        yield* budget.settle(reserved, 0, 0)
        const error = Cause.failureOrCause(exit.cause)
        if (Either.isRight(error)) return yield* Effect.failCause(error.right)
        return yield* restore(failed(context, run, lane, progress, error.left))
      }
      const { answer, isEmpty } = exit.value
      // So it is mostly, at the tip. Nothing changes then, in the lane or in the buffer.
      if (Option.isSome(answer.nextIterator) && isEmpty) {
        yield* budget.settle(reserved, 0, 0)
        yield* Steps.answered(context, run, answer.millisBehindLatest)
        const iterator = Option.some({ token: answer.nextIterator.value, at: lane.read })
        return { ...paced(context, progress, answer, nothing, askedAt), iterator, isEndSeen: false }
      }
      const { content, isTaken, page } = yield* take(
        context,
        run,
        lane,
        { records: reserved, bytes: room.bytes },
        answer
      )
      const next = paced(context, progress, answer, content, askedAt)
      yield* Steps.answered(context, run, answer.millisBehindLatest)
      // The next iterator is behind what was refused: the same page is asked for again.
      if (!isTaken) return next
      const to = yield* restore(
        Steps.put(context, run, page.to, content, page.records, answer, env.config.polling.limit)
      )
      if (Option.isNone(to)) return next
      if (Option.isSome(answer.nextIterator)) {
        return {
          ...next,
          iterator: Option.some({ token: answer.nextIterator.value, at: to.value }),
          isEndSeen: false
        }
      }
      const last: Progress = { ...next, iterator: Option.none(), failures: progress.failures }
      return yield* restore(Steps.atEnd(context, run, lane, last, answer.childShards))
    })
  )

/** An answer that can't be understood must not keep the room that was reserved for it. */
const reading = <A>(budget: Budget, reserved: number, read: () => A): Effect.Effect<A> =>
  Effect.tapErrorCause(Effect.sync(read), () => budget.settle(reserved, 0, 0))

/**
 * Puts a page into the lane, as much of it as there is room for: aggregates can hold more records than were reserved, and
 * records more bytes than there are. Where it is refused meanwhile the page is dropped.
 */
const take = (
  context: Steps.ReaderContext,
  run: Run.Run,
  lane: Lane.Lane,
  room: Room,
  answer: GetRecordsResult
): Effect.Effect<{ readonly isTaken: boolean; readonly content: Content.Content; readonly page: Page.Page }> =>
  Effect.gen(function*() {
    const { budget, env } = context
    const { bufferBytes, bufferSize } = env.config
    const { content, page } = yield* reading(budget, room.records, () => {
      const content = Content.make(run, lane.read, answer, env.config.aggregation)
      const most = { records: bufferSize, bytes: Math.min(bufferBytes, room.bytes) }
      return { content, page: Page.make(run, lane.read, content.records, room, answer, most) }
    })
    const isTaken = yield* Steps.push(run, lane.generation, page.slices)
    yield* isTaken
      ? budget.settle(room.records, page.records, page.bytes)
      : budget.settle(room.records, 0, 0)
    yield* Steps.tellDropped(context, run, content)
    if (isTaken && page.records > 0) {
      yield* context.arrived(run)
    }
    return { isTaken, content, page }
  })

/** What an answer brings: records of Kinesis, and those to deliver. */
interface Brought {
  readonly brought: Room
  readonly records: { readonly count: number; readonly bytes: number }
}

const nothing: Brought = { brought: { records: 0, bytes: 0 }, records: { count: 0, bytes: 0 } }

/** When the next call may be: at once while behind, within the limits of a shard; at the tip after the idle interval. */
const paced = (
  context: Steps.ReaderContext,
  progress: Progress,
  answer: GetRecordsResult,
  { brought, records }: Brought,
  askedAt: number
): Progress => {
  const { idleInterval, limit } = context.env.config.polling
  const isBehind = Option.exists(answer.millisBehindLatest, (millis) => millis > 0)
  const pace = Math.max(callMillis, Math.ceil(brought.bytes / bytesPerMilli))
  return {
    ...progress,
    failures: 0,
    notBefore: askedAt + (isBehind ? pace : Math.max(pace, Duration.toMillis(idleInterval))),
    recordBytes: records.count === 0 ? progress.recordBytes : records.bytes / records.count,
    expansion: records.count === 0 ? progress.expansion : Math.max(1, records.count / brought.records),
    wanted: isBehind ? limit : Math.min(limit, Math.max(expectedAtTip, brought.records * 2))
  }
}

const failed = (
  context: Steps.ReaderContext,
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
        : Steps.retry(context, run, anew, error)
    case "NotFound":
      return Steps.doubted(context, run, lane, anew, error)
    case "Throttled":
    case "Timeout":
      return Steps.retry(context, run, progress, error)
    default:
      // An iterator that is no good looks like any other fault to some servers, so a new one is asked for.
      return Steps.retry(context, run, anew, error)
  }
}

/** Ends the fiber that waits for an answer, whatever it has got to, and another one reads on. */
const late = (
  context: Steps.ReaderContext,
  run: Run.Run,
  progress: Progress,
  reading: Fiber.Fiber<unknown, unknown>
): Effect.Effect<void> =>
  context.readOn(
    run,
    Steps.retry(context, run, progress, timedOut(context.env, run, "getRecords")).pipe(
      Effect.zipLeft(Fiber.interrupt(reading)),
      Effect.flatMap((next) => loop(context, run, next))
    )
  )

const withTimeout =
  (env: Environment, run: Run.Run, operation: string) =>
  <A>(call: Effect.Effect<A, KinesisError>): Effect.Effect<A, KinesisError> =>
    onFreshTurn(Effect.timeoutFail(call, {
      duration: env.config.polling.timeout,
      onTimeout: () => timedOut(env, run, operation)
    }))

const timedOut = (env: Environment, run: Run.Run, operation: string): KinesisError =>
  new KinesisError({
    reason: "Timeout",
    operation,
    stream: run.stream.label,
    shardId: run.shard.shardId,
    detail: `no answer within ${Duration.format(env.config.polling.timeout)} (polling.timeout)`
  })
