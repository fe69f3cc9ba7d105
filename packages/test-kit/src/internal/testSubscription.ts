import type { SubscriptionEvent } from "@kinesumer/core/KinesisClient"
import type { KinesisErrorReason } from "@kinesumer/core/KinesisError"
import { KinesisError } from "@kinesumer/core/KinesisError"
import type { Position } from "@kinesumer/core/Position"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as RateLimit from "./rateLimit.js"
import * as RecordLog from "./recordLog.js"
import type { Where } from "./refusal.js"
import { refuse } from "./refusal.js"
import type { TestConsumer } from "./testConsumer.js"
import * as FanOut from "./testFanOut.js"
import type { Server, Subscription } from "./testServer.js"
import * as TestServer from "./testServer.js"
import * as TestShard from "./testShard.js"
import * as TestStream from "./testStream.js"

/**
 * An event of a subscription, which tells the places of its records.
 *
 * @internal
 */
export interface Event extends TestShard.Page {
  readonly shard: TestShard.TestShard
  /** `undefined` at the end of the shard. */
  readonly continuation: string | undefined
  readonly millisBehindLatest: number
  readonly children: ReadonlyArray<TestShard.TestShard>
}

type Result<A> = Either.Either<A, KinesisError>

const lifetime = 5 * 60_000

/** Within this time of a subscription no other one takes its place. */
const exclusive = 5_000

/** After so long without an event an empty one tells where the subscription stands. */
const silence = 5_000

const eventRecords = 10_000
const eventBytes = 1024 * 1024

const admit = (server: Server, consumer: TestConsumer, shardId: string, where: Where): Result<void> => {
  const now = server.now()
  if (server.limits) {
    const calls = consumer.calls.get(shardId) ?? RateLimit.window()
    consumer.calls.set(shardId, calls)
    if (RateLimit.total(calls, now) >= 1) {
      return refuse(where, "Throttled", "More than one SubscribeToShard call in a second for this consumer and shard")
    }
    RateLimit.add(calls, now, 1)
  }
  const last = consumer.subscribedAt.get(shardId)
  return last !== undefined && now - last < exclusive
    ? refuse(where, "ResourceInUse", "The consumer subscribed to this shard less than 5 seconds ago")
    : Either.right(undefined)
}

/** Nothing more comes: with this error, or because it is the end. */
const finish = (server: Server, subscription: Subscription, error: Option.Option<KinesisError>): void => {
  subscription.over ??= error
  server.subscriptions.delete(subscription)
  TestShard.wake(subscription.shard)
}

const failure = ({ where }: Subscription, reason: KinesisErrorReason, detail: string): KinesisError =>
  new KinesisError({ ...where, reason, detail })

/**
 * Ends a subscription before its time, with an error of this reason if there is one.
 *
 * @internal
 */
export const cut = (server: Server, subscription: Subscription, reason: KinesisErrorReason | undefined): void => {
  const error = Option.map(Option.fromNullable(reason), (reason) => failure(subscription, reason, "Cut by the test"))
  finish(server, subscription, error)
}

/**
 * Begins a subscription, which takes the place of the one before it.
 *
 * @internal
 */
export const open = (
  server: Server,
  shardId: string,
  options: { readonly consumerArn: string; readonly position: Position },
  where: Where
): Result<Subscription> =>
  Either.gen(function*() {
    const { consumerArn, position } = options
    const { consumer, stream } = yield* FanOut.find(server, consumerArn, where)
    const status = FanOut.statusOf(server, consumer)
    if (status !== "ACTIVE") return yield* refuse(where, "ResourceInUse", `Consumer ${consumerArn} is ${status}`)
    const shard = yield* TestStream.findShard(stream, shardId, where)
    const place = yield* TestServer.startingPlace(server, stream, shard, position, where)
    yield* admit(server, consumer, shardId, where)
    for (const other of server.subscriptions) {
      if (other.consumer === consumer && other.shard === shard) {
        finish(server, other, Option.some(failure(other, "ResourceInUse", "Another subscription has taken over")))
      }
    }
    const now = server.now()
    consumer.subscribedAt.set(shardId, now)
    const subscription: Subscription = {
      consumer,
      stream,
      shard,
      where,
      startedAt: now,
      place,
      lastEventAt: now,
      over: undefined
    }
    server.subscriptions.add(subscription)
    return subscription
  })

type Step = Event | { readonly until: number }

/** Whether the shard can still be read through this consumer. */
const check = (server: Server, { consumer, shard, stream, where }: Subscription): Result<TestShard.TestShard> =>
  Either.flatMap(TestServer.findActive(server, { ...where, stream: stream.arn }), (found) => {
    if (found !== stream) return refuse(where, "NotFound", `Stream ${stream.name} was deleted and made again`)
    return consumer.deregisteredAt === undefined
      ? TestStream.findShard(stream, shard.shardId, where)
      : refuse(where, "NotFound", `Consumer ${consumer.arn} was deregistered`)
  })

const lastOf = ({ log }: TestShard.TestShard, { first, next }: TestShard.Page) =>
  next > first ? RecordLog.at(log, next - 1) : undefined

const read = (server: Server, subscription: Subscription): Step => {
  const { shard, stream } = subscription
  const now = server.now()
  const page = TestShard.page(shard, subscription.place, eventRecords, eventBytes)
  const unread = RecordLog.at(shard.log, page.next)
  const ended = shard.closedAt !== undefined && unread === undefined
  const due = subscription.lastEventAt + silence
  if (page.next === page.first && !ended && now < due) {
    return { until: Math.min(due, subscription.startedAt + lifetime) }
  }
  subscription.place = page.next
  subscription.lastEventAt = now
  if (ended) finish(server, subscription, Option.none())
  return {
    ...page,
    shard,
    // Without records it is a number that no record has, as AWS's is.
    continuation: ended ? undefined : lastOf(shard, page)?.sequenceNumber ?? stream.numbers.next(shard.index),
    millisBehindLatest: unread === undefined ? 0 : Math.max(1, now - unread.arrival),
    children: ended ? TestStream.childrenOf(stream, shard) : []
  }
}

/** What comes next, or until when nothing comes by itself. The left side is the end. */
const next = (server: Server, subscription: Subscription): Either.Either<Step, Option.Option<KinesisError>> => {
  if (subscription.over === undefined) {
    const error = Either.getLeft(check(server, subscription))
    if (Option.isSome(error) || server.now() >= subscription.startedAt + lifetime) finish(server, subscription, error)
  }
  return subscription.over === undefined ? Either.right(read(server, subscription)) : Either.left(subscription.over)
}

/** Something happened to the shard or to one of its subscriptions. */
const change = (shard: TestShard.TestShard): Effect.Effect<void> =>
  Effect.async((resume) => {
    const wake = () => resume(Effect.void)
    shard.waiting.add(wake)
    return Effect.sync(() => shard.waiting.delete(wake))
  })

/**
 * The events of a subscription. Each is read when it is asked for.
 *
 * @internal
 */
export const events = (server: Server, subscription: Subscription): Stream.Stream<Event, KinesisError> => {
  const pull: Effect.Effect<Event, Option.Option<KinesisError>> = Effect.suspend(() =>
    Effect.flatMap(
      next(server, subscription),
      (step) =>
        "until" in step
          ? Effect.zipRight(Effect.race(server.sleep(step.until - server.now()), change(subscription.shard)), pull)
          : Effect.succeed(step)
    )
  )
  return Stream.repeatEffectOption(pull)
}

/**
 * The events of the subscription that `begin` opens, which ends with the scope.
 *
 * @internal
 */
export const scoped = (
  server: Server,
  begin: Effect.Effect<Subscription, KinesisError>
): Effect.Effect<Stream.Stream<Event, KinesisError>, KinesisError, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(begin, (subscription) => Effect.sync(() => finish(server, subscription, Option.none()))),
    (subscription) => events(server, subscription)
  )

/**
 * Subscribes for as long as the scope lives. What is refused at once fails here, what happens later fails the stream.
 *
 * @internal
 */
export const subscribe = (
  server: Server,
  shardId: string,
  options: { readonly consumerArn: string; readonly position: Position },
  where: Where
): Effect.Effect<Stream.Stream<Event, KinesisError>, KinesisError, Scope.Scope> =>
  scoped(server, Effect.suspend(() => open(server, shardId, options, where)))

/** @internal */
export const toSubscriptionEvent = (event: Event): SubscriptionEvent => ({
  records: TestShard.recordsOf(event.shard, event).map(TestShard.toRawRecord),
  continuation: Option.fromNullable(event.continuation),
  millisBehindLatest: Option.some(event.millisBehindLatest),
  childShards: event.children.map((child) => ({ ...TestShard.toShard(child), closed: false }))
})

/**
 * The subscriptions that live: of all, or of what is named.
 *
 * @internal
 */
export const select = (
  server: Server,
  of: {
    readonly consumerArn?: string | undefined
    readonly shardId?: string | undefined
    readonly stream?: string | undefined
  }
): ReadonlyArray<Subscription> =>
  Array.from(server.subscriptions).filter(({ consumer, shard, stream }) =>
    (of.consumerArn === undefined || of.consumerArn === consumer.arn) &&
    (of.shardId === undefined || of.shardId === shard.shardId) &&
    (of.stream === undefined || of.stream === stream.arn || TestServer.arnOf(server, of.stream) === stream.arn)
  )
