/**
 * Reads one shard by enhanced fan-out, for as long as its run goes on: one subscription after another, each where the last
 * one had got to.
 *
 * ```
 *   Waiting ──(room, and its turn)──> Subscribed ──(its end, a fault, reading goes on elsewhere)──> Waiting
 *                                        └─(an event of the shard's end)──> Read
 * ```
 *
 * An event is asked for while there is room, and what it brings waits here for more: Kinesis, whose connection is left
 * unread meanwhile, holds back the rest. Interruption can come at any point: a subscription ends with its scope, and an
 * event that is not in the lane is read again from the position of the lane by whoever comes next.
 */
import type * as Chunk from "effect/Chunk"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Ref from "effect/Ref"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { SubscriptionEvent } from "../KinesisClient.js"
import { KinesisError } from "../KinesisError.js"
import * as Metrics from "../KinesumerMetrics.js"
import * as Position from "../Position.js"
import * as Content from "./content.js"
import { onFreshTurn } from "./freshTurn.js"
import type * as Lane from "./lane.js"
import * as Monotonic from "./monotonic.js"
import * as Steps from "./readerSteps.js"
import type * as Run from "./run.js"
import * as Signal from "./signal.js"

/** Subscriptions begin together and end together after 5 minutes: so far apart a member begins the next ones. */
const spreadMillis = 2

/** As many records of a shard as wait before its next event is asked for. */
const recordsAhead = 10_000

/** So often in a row nothing is found before the position is what is doubted. */
const missingTries = 5

interface Progress extends Steps.Progress {
  /** Where the next subscription goes on. It is ahead of what was read where events came without records. */
  readonly continuation: Option.Option<Continuation>
  /** So many subscriptions in a row found nothing, with a consumer that is there. */
  readonly missing: number
}

interface Continuation {
  /** Where reading stands. The rest is of no use when it has to go on from elsewhere. */
  readonly at: Position.Position
  readonly from: Position.Position
}

/** What a subscription gives when it is asked: events, or that it is over. */
type Pull = Effect.Effect<Chunk.Chunk<SubscriptionEvent>, Option.Option<KinesisError>>

export const run = (context: Steps.ReaderContext, shard: Run.Run): Effect.Effect<never> => {
  const loop = (progress: Progress): Effect.Effect<never> => Effect.flatMap(round(context, shard, progress), loop)
  return Effect.flatMap(
    nextTurn(context),
    (notBefore) => loop({ ...Steps.start, notBefore, continuation: Option.none(), missing: 0 })
  )
}

/** A time to subscribe, apart from those of the member's other shards. */
const nextTurn = ({ running }: Steps.ReaderContext): Effect.Effect<number> =>
  Effect.gen(function*() {
    const delay = yield* Random.nextIntBetween(0, (yield* running) * spreadMillis + 1)
    return (yield* Monotonic.now) + delay
  })

const round = (context: Steps.ReaderContext, run: Run.Run, before: Progress): Effect.Effect<Progress> =>
  Effect.gen(function*() {
    const { lane } = yield* Steps.awaitRoom(context, run, recordsAhead)
    const progress: Progress = {
      ...before,
      continuation: Option.filter(before.continuation, ({ at }) => Position.compare(at, lane.read) === 0)
    }
    const notBefore = Math.max(progress.notBefore, yield* context.pace.notBefore(run.key))
    const wait = notBefore - (yield* Monotonic.now)
    if (wait > 0) {
      yield* Effect.sleep(wait)
      return progress
    }
    const consumer = yield* Effect.either(context.consumers.arnOf(run.stream))
    if (consumer._tag === "Left") return yield* Steps.retry(context, run, progress, consumer.left)
    return yield* Effect.scoped(subscribe(context, run, lane, progress, consumer.right))
  })

/** One subscription, from its call to its end. */
const subscribe = (
  context: Steps.ReaderContext,
  run: Run.Run,
  { read }: Lane.Lane,
  progress: Progress,
  consumerArn: string
): Effect.Effect<Progress, never, Scope.Scope> =>
  Effect.gen(function*() {
    const { env, pace } = context
    const events = env.kinesis.subscribeToShard(run.stream.id, run.shard.shardId, {
      consumerArn,
      position: Option.match(progress.continuation, { onNone: () => read, onSome: ({ from }) => from })
    })
    // It is asked for with the first pull.
    const asked = Effect.zipRight(
      pace.called(run.key),
      env.count(Metrics.subscriptions, 1, { stream: run.stream.label })
    )
    const pull = yield* Stream.toPull(Stream.unwrap(Effect.as(asked, events)))
    return yield* receive(context, run, pull, read, progress, consumerArn)
  })

/** Takes one event after the other, until there is none or reading has to go on elsewhere than at its place. */
const receive = (
  context: Steps.ReaderContext,
  run: Run.Run,
  pull: Pull,
  begin: Position.Position,
  before: Progress,
  consumerArn: string
): Effect.Effect<Progress> =>
  Effect.gen(function*() {
    let at = begin
    let progress = before
    let hasAnswered = false
    for (;;) {
      const { lane } = yield* Steps.awaitRoom(context, run, recordsAhead)
      if (!Steps.isAt(lane, at)) return progress
      const given = yield* Effect.either(pullUnlessMoved(context, run, pull, at))
      if (given._tag === "Left") {
        return yield* Option.match(given.left, {
          onNone: () =>
            hasAnswered
              ? Effect.map(nextTurn(context), (notBefore) => ({ ...progress, notBefore }))
              : failed(context, run, lane, progress, endedEarly(run), consumerArn),
          onSome: (error) => failed(context, run, lane, progress, error, consumerArn)
        })
      }
      if (Option.isNone(given.right)) return progress
      hasAnswered = true
      for (const event of given.right.value) {
        yield* Steps.answered(context, run, event.millisBehindLatest)
        const to = yield* put(context, run, at, event)
        if (Option.isNone(to)) return progress
        at = to.value
        const continuation = Option.orElse(
          Option.map(
            event.continuation,
            (last): Continuation => ({ at, from: later(at, Position.afterSequence(last)) })
          ),
          () => progress.continuation
        )
        if (Option.isNone(event.continuation)) {
          const current = yield* Ref.get(run.lane)
          return Steps.isAt(current, at)
            ? yield* Steps.atEnd(context, run, current, { ...progress, continuation }, event.childShards)
            : progress
        }
        progress = { ...progress, continuation, failures: 0, missing: 0, isEndSeen: false }
      }
    }
  })

/** A subscription that brings nothing is no answer, however well it ends: many in a row must not look like a quiet shard. */
const endedEarly = (run: Run.Run): KinesisError =>
  new KinesisError({
    reason: "Unavailable",
    operation: "subscribeToShard",
    stream: run.stream.label,
    shardId: run.shard.shardId,
    detail: "the subscription ended before its first event"
  })

const later = (self: Position.Position, that: Position.Position): Position.Position =>
  Position.compare(self, that) < 0 ? that : self

/**
 * Waits for events. It gives none when reading is sent elsewhere meanwhile, and fails when the subscription is silent for
 * too long: that of a dead connection is. Time in which nothing was asked for does not count.
 */
const pullUnlessMoved = (
  { env }: Steps.ReaderContext,
  run: Run.Run,
  pull: Pull,
  at: Position.Position
): Effect.Effect<Option.Option<Chunk.Chunk<SubscriptionEvent>>, Option.Option<KinesisError>> =>
  onFreshTurn(Effect.raceFirst(
    Effect.asSome(pull),
    Signal.awaitUntil(
      run.room,
      Effect.map(Ref.get(run.lane), (lane) => Steps.isAt(lane, at) ? undefined : Option.none())
    ).pipe(
      Effect.timeoutFail({
        duration: env.config.fanOut.watchdog,
        onTimeout: () =>
          Option.some(
            new KinesisError({
              reason: "Timeout",
              operation: "subscribeToShard",
              stream: run.stream.label,
              shardId: run.shard.shardId,
              detail: `no event within ${Duration.format(env.config.fanOut.watchdog)} (fanOut.watchdog)`
            })
          )
      })
    )
  ))

/** Puts an event into the lane, and gives the place where it ends. */
const put = (
  context: Steps.ReaderContext,
  run: Run.Run,
  at: Position.Position,
  event: SubscriptionEvent
): Effect.Effect<Option.Option<Position.Position>> =>
  Effect.suspend(() => {
    const content = Content.make(run, at, event, context.env.config.aggregation)
    return Effect.zipRight(
      Steps.tellDropped(context, run, content),
      Steps.put(context, run, at, content, 0, event, recordsAhead)
    )
  })

const failed = (
  context: Steps.ReaderContext,
  run: Run.Run,
  lane: Lane.Lane,
  progress: Progress,
  error: KinesisError,
  consumerArn: string
): Effect.Effect<Progress> => {
  switch (error.reason) {
    case "NotFound":
      return context.consumers.renew(run.stream, consumerArn).pipe(
        Effect.flatMap((arn) => {
          const counted = { ...progress, missing: arn === consumerArn ? progress.missing + 1 : 0 }
          return counted.missing > missingTries
            ? Steps.doubted(context, run, lane, counted, error)
            : Steps.retry(context, run, counted, error)
        }),
        Effect.catchAll((error) => Steps.retry(context, run, progress, error))
      )
    case "InvalidArgument":
      return Option.isNone(progress.continuation) && lane.read._tag === "AfterSequence"
        ? Steps.doubted(context, run, lane, progress, error)
        // Where only the continuation is refused, the next one begins where reading really stands.
        : Steps.retry(context, run, { ...progress, continuation: Option.none() }, error)
    default:
      return Steps.retry(context, run, progress, error)
  }
}
