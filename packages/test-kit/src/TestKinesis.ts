/**
 * A Kinesis in memory that obeys the clock of the test. It answers what AWS answers: irregular sequence numbers,
 * iterators that expire, limits, retention, closed shards and their children. What a faulty Kinesis does comes from
 * `Faults`, which wraps it.
 *
 * @since 0.1.0
 */
import type { GetRecordsResult, RawRecord, StreamDescription } from "@kinesumer/core/KinesisClient"
import { KinesisClient } from "@kinesumer/core/KinesisClient"
import type { KinesisError, KinesisErrorReason } from "@kinesumer/core/KinesisError"
import type { Position } from "@kinesumer/core/Position"
import type { Shard } from "@kinesumer/core/Shard"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as HashKeys from "./internal/hashKeys.js"
import * as RecordLog from "./internal/recordLog.js"
import type { Where } from "./internal/refusal.js"
import { refuse } from "./internal/refusal.js"
import type { TestConsumer } from "./internal/testConsumer.js"
import * as FanOut from "./internal/testFanOut.js"
import * as Server from "./internal/testServer.js"
import * as TestShard from "./internal/testShard.js"
import * as TestStream from "./internal/testStream.js"
import * as Subscription from "./internal/testSubscription.js"

/**
 * @since 0.1.0
 * @category models
 */
export interface Options {
  /** The region of the client, and of streams that name none. Defaults to `us-east-1`. */
  readonly region?: string | undefined
  /** The account of the client, and of streams that name none. Defaults to `000000000000`. */
  readonly account?: string | undefined
  /** Whether calls above AWS's limits are `Throttled`, and a stream has at most 20 consumers. Defaults to `true`. */
  readonly limits?: boolean | undefined
  /** How many shards `ListShards` answers at once. Defaults to 1,000. */
  readonly pageSize?: number | undefined
  /** How far Kinesis's clock is ahead of the members' (negative in milliseconds: behind). Defaults to zero. */
  readonly clockSkew?: Duration.DurationInput | undefined
  /** How long each call takes. Defaults to zero. */
  readonly latency?: Duration.DurationInput | undefined
  /**
   * What an iterator after a record that has vanished is: one at the oldest record (`horizon`), or refused with
   * `InvalidArgument` (`refuse`). Defaults to `horizon`.
   */
  readonly trimmedPosition?: "horizon" | "refuse" | undefined
  /** How long a consumer is `CREATING`, and how long it is `DELETING`. Defaults to zero. */
  readonly consumerDelay?: Duration.DurationInput | undefined
}

/**
 * @since 0.1.0
 * @category models
 */
export interface CreateStreamOptions {
  readonly name: string
  /** Defaults to 1. */
  readonly shards?: number | undefined
  /** How long records stay. Defaults to 24 hours. */
  readonly retention?: Duration.DurationInput | undefined
  /** Defaults to the client's. A stream of another region or account is reached by its ARN only. */
  readonly region?: string | undefined
  /** Defaults to the client's. */
  readonly account?: string | undefined
  /** Defaults to `ACTIVE`. */
  readonly status?: StreamDescription["status"] | undefined
  /**
   * The numbers of the stream begin just above this one. By default those of a stream that was made again are above
   * those of the first, as AWS's are, so that positions of the first one are refused. With the same first number for
   * both they are accepted.
   */
  readonly firstSequenceNumber?: string | undefined
}

/**
 * Where a record was put.
 *
 * @since 0.1.0
 * @category models
 */
export interface PutResult {
  readonly shardId: string
  readonly sequenceNumber: string
}

/**
 * A shard as Kinesis itself knows it.
 *
 * @since 0.1.0
 * @category models
 */
export interface ShardState extends Shard {
  /** No record carries this number or a smaller one. */
  readonly startingSequenceNumber: string
  /** The number that closed the shard. No record carries it. */
  readonly endingSequenceNumber: Option.Option<string>
  readonly children: ReadonlyArray<string>
}

interface CallOf<Operation extends string> {
  readonly operation: Operation
  /** The stream as the caller named it: its ARN, or its name. */
  readonly stream: string
  /** When Kinesis answered, in milliseconds of the members' clock. */
  readonly at: number
  readonly error: Option.Option<KinesisError>
}

/**
 * @since 0.1.0
 * @category models
 */
export interface DescribeStreamCall extends CallOf<"describeStream"> {}

/**
 * @since 0.1.0
 * @category models
 */
export interface ListShardsCall extends CallOf<"listShards"> {
  /** `true` for the second and later pages. */
  readonly continued: boolean
  /** The shards that were answered. */
  readonly shardIds: ReadonlyArray<string>
}

/**
 * @since 0.1.0
 * @category models
 */
export interface GetShardIteratorCall extends CallOf<"getShardIterator"> {
  readonly shardId: string
  readonly position: Position
}

/**
 * @since 0.1.0
 * @category models
 */
export interface GetRecordsCall extends CallOf<"getRecords"> {
  readonly shardId: string
  readonly iterator: string
  readonly limit: number
  /** The sequence numbers that were answered. */
  readonly sequenceNumbers: ReadonlyArray<string>
  /** Whether the answer had no next iterator. */
  readonly ended: boolean
  readonly millisBehindLatest: Option.Option<number>
}

/**
 * @since 0.1.0
 * @category models
 */
export interface RegisterConsumerCall extends CallOf<"registerConsumer"> {
  readonly name: string
}

/**
 * @since 0.1.0
 * @category models
 */
export interface DescribeConsumerCall extends CallOf<"describeConsumer"> {
  readonly name: string
}

/**
 * @since 0.1.0
 * @category models
 */
export interface DeregisterConsumerCall extends CallOf<"deregisterConsumer"> {
  readonly name: string
}

/**
 * @since 0.1.0
 * @category models
 */
export interface ListConsumersCall extends CallOf<"listConsumers"> {
  /** `true` for the second and later pages. */
  readonly continued: boolean
  /** The consumers that were answered. */
  readonly names: ReadonlyArray<string>
}

/**
 * The beginning of a subscription.
 *
 * @since 0.1.0
 * @category models
 */
export interface SubscribeToShardCall extends CallOf<"subscribeToShard"> {
  readonly shardId: string
  readonly consumerArn: string
  readonly position: Position
}

/**
 * A call that reached Kinesis.
 *
 * @since 0.1.0
 * @category models
 */
export type Call =
  | DescribeStreamCall
  | ListShardsCall
  | GetShardIteratorCall
  | GetRecordsCall
  | RegisterConsumerCall
  | DescribeConsumerCall
  | DeregisterConsumerCall
  | ListConsumersCall
  | SubscribeToShardCall

/**
 * A subscription that lives.
 *
 * @since 0.1.0
 * @category models
 */
export interface SubscriptionState {
  readonly streamArn: string
  readonly shardId: string
  readonly consumerArn: string
  /** When it began, in milliseconds of Kinesis's clock. */
  readonly startedAt: number
}

/**
 * Which subscriptions; all of them where nothing is named.
 *
 * @since 0.1.0
 * @category models
 */
export interface SubscriptionFilter {
  /** A name or an ARN. */
  readonly stream?: string | undefined
  readonly shardId?: string | undefined
  readonly consumerArn?: string | undefined
}

/**
 * Drives the Kinesis in memory. Streams are given by name, in the client's own account and region, or by ARN. A wrong
 * use fails as AWS would, with a `KinesisError`.
 *
 * @since 0.1.0
 * @category context
 */
export class TestKinesis extends Context.Tag("@kinesumer/test-kit/TestKinesis")<TestKinesis, {
  /** The client that answers from here. */
  readonly client: Context.Tag.Service<typeof KinesisClient>

  readonly createStream: (options: CreateStreamOptions) => Effect.Effect<StreamDescription, KinesisError>

  readonly deleteStream: (stream: string) => Effect.Effect<void, KinesisError>

  readonly setStatus: (stream: string, status: StreamDescription["status"]) => Effect.Effect<void, KinesisError>

  readonly setRetention: (stream: string, retention: Duration.DurationInput) => Effect.Effect<void, KinesisError>

  /** Puts a record into the open shard that has the MD5 of its key, or its `explicitHashKey`. Text becomes UTF-8. */
  readonly put: (options: {
    readonly stream: string
    readonly partitionKey: string
    readonly data: Uint8Array | string
    readonly explicitHashKey?: string | undefined
  }) => Effect.Effect<PutResult, KinesisError>

  /** Puts a record into this shard, whatever its key. `partitionKey` defaults to `key`. */
  readonly putTo: (options: {
    readonly stream: string
    readonly shardId: string
    readonly data: Uint8Array | string
    readonly partitionKey?: string | undefined
  }) => Effect.Effect<PutResult, KinesisError>

  /** Closes a shard and opens two children. `at` is the first hash key of the second; defaults to the middle. */
  readonly split: (
    stream: string,
    shardId: string,
    at?: string
  ) => Effect.Effect<readonly [ShardState, ShardState], KinesisError>

  /** Closes two neighbours and opens one child. */
  readonly merge: (stream: string, shardId: string, other: string) => Effect.Effect<ShardState, KinesisError>

  /** Splits and merges until `count` shards are open, all of the same size. Answers these, in order of hash keys. */
  readonly reshard: (stream: string, count: number) => Effect.Effect<ReadonlyArray<ShardState>, KinesisError>

  /** The shards that are listed now, closed ones included. */
  readonly shards: (stream: string) => Effect.Effect<ReadonlyArray<ShardState>, KinesisError>

  /** The records that a shard holds now, oldest first. */
  readonly records: (stream: string, shardId: string) => Effect.Effect<ReadonlyArray<RawRecord>, KinesisError>

  /** Lets records vanish before their time: all of the shard, or those up to and including `through`. */
  readonly trim: (options: {
    readonly stream: string
    readonly shardId: string
    readonly through?: string | undefined
  }) => Effect.Effect<void, KinesisError>

  /** Lets a closed shard vanish before its time. */
  readonly forgetShard: (stream: string, shardId: string) => Effect.Effect<void, KinesisError>

  /** All iterators that were handed out so far have expired. */
  readonly expireIterators: Effect.Effect<void>

  /**
   * The next `count` answers of a shard are empty and stay where they are, with a next iterator. With `atEnd` they come
   * when everything in a closed shard has been read, before the answer that ends it.
   */
  readonly emptyPages: (options: {
    readonly stream: string
    readonly shardId: string
    readonly count: number
    readonly atEnd?: boolean | undefined
  }) => Effect.Effect<void, KinesisError>

  /** The subscriptions that live, oldest first. */
  readonly subscriptions: (of?: SubscriptionFilter) => Effect.Effect<ReadonlyArray<SubscriptionState>>

  /**
   * Ends subscriptions before their time: as after 5 minutes, or with an error of this reason. Answers how many it
   * ended.
   */
  readonly endSubscriptions: (
    options?: SubscriptionFilter & { readonly error?: KinesisErrorReason | undefined }
  ) => Effect.Effect<number>

  /** All calls that reached Kinesis, oldest first. */
  readonly calls: Effect.Effect<ReadonlyArray<Call>>

  /** The calls of one operation; of one stream, as the caller named it, or of one shard. */
  readonly callsOf: <Operation extends Call["operation"]>(
    operation: Operation,
    where?: { readonly stream?: string | undefined; readonly shardId?: string | undefined }
  ) => Effect.Effect<ReadonlyArray<Extract<Call, { readonly operation: Operation }>>>

  readonly clearCalls: Effect.Effect<void>
}>() {}

const encoder = new TextEncoder()

const bytes = (data: Uint8Array | string) => typeof data === "string" ? encoder.encode(data) : data

const toState = (shard: TestShard.TestShard): ShardState => ({
  ...TestShard.toShard(shard),
  startingSequenceNumber: shard.startingSequenceNumber,
  endingSequenceNumber: Option.fromNullable(shard.endingSequenceNumber),
  children: [...shard.children]
})

/**
 * Makes a Kinesis without streams. It keeps the clock that it is made under.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make: (options?: Options) => Effect.Effect<TestKinesis["Type"]> = (options = {}) =>
  Effect.flatMap(Server.make(options), (server) => fromServer(server, options.latency))

/**
 * The driver of a server that others answer from as well.
 *
 * @internal
 */
export const fromServer: (
  server: Server.Server,
  latency?: Duration.DurationInput
) => Effect.Effect<TestKinesis["Type"]> = Effect.fnUntraced(function*(server, latencyInput = 0) {
  const clock = yield* Effect.clock
  const latency = Duration.decode(latencyInput)
  let calls: Array<Call> = []

  type Base = { readonly stream: string; readonly at: number; readonly error: Option.Option<KinesisError> }

  const underWay = Duration.equals(latency, Duration.zero) ? Effect.void : Effect.sleep(latency)

  const arrive = <A>(
    where: Where,
    step: (where: Where) => Either.Either<A, KinesisError>,
    log: (base: Base, answer: A | undefined) => Call
  ): Effect.Effect<A, KinesisError> =>
    Effect.suspend(() => {
      const at = clock.unsafeCurrentTimeMillis()
      const result = step(where)
      const error = Either.getLeft(result)
      calls.push(log({ stream: where.stream, at, error }, Either.getOrElse(result, () => undefined)))
      return result
    })

  const answer = <A>(
    where: Where,
    step: (where: Where) => Either.Either<A, KinesisError>,
    log: (base: Base, answer: A | undefined) => Call
  ): Effect.Effect<A, KinesisError> => Effect.zipRight(underWay, arrive(where, step, log))

  const toConsumer = (consumer: TestConsumer) => FanOut.toDescription(server, consumer)

  const client = KinesisClient.of({
    region: Effect.succeed(server.region),
    describeStream: (stream) =>
      answer(
        { operation: "describeStream", stream: Server.label(stream) },
        (where) => Either.map(Server.find(server, where.stream, where), (found) => Server.describe(server, found)),
        (base) => ({ ...base, operation: "describeStream" })
      ),
    listShards: (stream, nextToken) =>
      answer(
        { operation: "listShards", stream: Server.label(stream) },
        (where) => Server.listShards(server, nextToken, where),
        (base, page) => ({
          ...base,
          operation: "listShards",
          continued: Option.isSome(nextToken),
          shardIds: page?.shards.map((shard) => shard.shardId) ?? []
        })
      ),
    getShardIterator: (stream, shardId, position) =>
      answer(
        { operation: "getShardIterator", stream: Server.label(stream), shardId },
        (where) => Server.getShardIterator(server, shardId, position, where),
        (base) => ({ ...base, operation: "getShardIterator", shardId, position })
      ),
    getRecords: (stream, shardId, options) =>
      answer<GetRecordsResult>(
        { operation: "getRecords", stream: Server.label(stream), shardId },
        (where) => Server.getRecords(server, shardId, options, where),
        (base, page) => ({
          ...base,
          operation: "getRecords",
          shardId,
          iterator: options.iterator,
          limit: options.limit,
          sequenceNumbers: page?.records.map((record) => record.sequenceNumber) ?? [],
          ended: page !== undefined && Option.isNone(page.nextIterator),
          millisBehindLatest: page?.millisBehindLatest ?? Option.none()
        })
      ),
    registerConsumer: (stream, name) =>
      answer(
        { operation: "registerConsumer", stream },
        (where) => Either.map(FanOut.register(server, name, where), toConsumer),
        (base) => ({ ...base, operation: "registerConsumer", name })
      ),
    describeConsumer: (stream, name) =>
      answer(
        { operation: "describeConsumer", stream },
        (where) => Either.map(FanOut.describe(server, name, where), toConsumer),
        (base) => ({ ...base, operation: "describeConsumer", name })
      ),
    listConsumers: (stream, nextToken) =>
      answer(
        { operation: "listConsumers", stream },
        (where) =>
          Either.map(FanOut.list(server, nextToken, where), ({ consumers, nextToken }) => ({
            consumers: consumers.map(toConsumer),
            nextToken
          })),
        (base, page) => ({
          ...base,
          operation: "listConsumers",
          continued: Option.isSome(nextToken),
          names: page?.consumers.map((consumer) => consumer.name) ?? []
        })
      ),
    deregisterConsumer: (stream, name) =>
      answer<void>(
        { operation: "deregisterConsumer", stream },
        (where) => Either.map(FanOut.deregister(server, name, where), () => undefined),
        (base) => ({ ...base, operation: "deregisterConsumer", name })
      ),
    subscribeToShard: (stream, shardId, options) => {
      const begin = arrive(
        { operation: "subscribeToShard", stream: Server.label(stream), shardId },
        (where) => Subscription.open(server, shardId, options, where),
        (base) => ({ ...base, ...options, operation: "subscribeToShard", shardId })
      )
      return Stream.unwrapScoped(Effect.zipRight(underWay, Subscription.scoped(server, begin))).pipe(
        Stream.map(Subscription.toSubscriptionEvent)
      )
    }
  })

  const toSubscription = ({ consumer, shard, startedAt, stream }: Server.Subscription): SubscriptionState => ({
    streamArn: stream.arn,
    shardId: shard.shardId,
    consumerArn: consumer.arn,
    startedAt
  })

  const onStream = <A>(
    operation: string,
    stream: string,
    step: (stream: TestStream.TestStream, where: Where) => Either.Either<A, KinesisError>
  ): Effect.Effect<A, KinesisError> =>
    Effect.suspend(() => {
      const where = { operation, stream }
      return Either.flatMap(Server.find(server, stream, where), (found) => step(found, where))
    })

  const onShard = <A>(
    operation: string,
    stream: string,
    shardId: string,
    step: (shard: TestShard.TestShard, stream: TestStream.TestStream, where: Where) => Either.Either<A, KinesisError>
  ): Effect.Effect<A, KinesisError> =>
    onStream(
      operation,
      stream,
      (found, where) =>
        Either.flatMap(
          TestStream.findShard(found, shardId, where),
          (shard) => step(shard, found, { ...where, shardId })
        )
    )

  return TestKinesis.of({
    client,
    createStream: (options) =>
      Effect.suspend(() => {
        const { name } = options
        const arn = Server.arnOf(server, name, options.region, options.account)
        const created = Server.createStream(server, {
          name,
          arn,
          shards: options.shards ?? 1,
          retention: Duration.toMillis(options.retention ?? "24 hours"),
          status: options.status ?? "ACTIVE",
          firstSequenceNumber: options.firstSequenceNumber
        }, { operation: "createStream", stream: name })
        return Either.map(created, (stream) => Server.describe(server, stream))
      }),
    deleteStream: (stream) =>
      onStream("deleteStream", stream, (found) => {
        Server.deleteStream(server, found)
        return Either.right(undefined)
      }),
    setStatus: (stream, status) =>
      onStream("setStatus", stream, (found) => {
        found.status = status
        return Either.right(undefined)
      }),
    setRetention: (stream, retention) =>
      onStream("setRetention", stream, (found) => {
        found.retention = Duration.toMillis(retention)
        return Either.right(undefined)
      }),
    put: ({ data, explicitHashKey, partitionKey, stream }) =>
      onStream("put", stream, (found, where) => {
        const hashKey = explicitHashKey === undefined ? HashKeys.ofPartitionKey(partitionKey) : BigInt(explicitHashKey)
        return TestStream.put(found, { partitionKey, data: bytes(data), hashKey }, server.now(), where)
      }),
    putTo: ({ data, partitionKey = "key", shardId, stream }) =>
      onStream(
        "putTo",
        stream,
        (found, where) => TestStream.putTo(found, shardId, { partitionKey, data: bytes(data) }, server.now(), where)
      ),
    split: (stream, shardId, at) =>
      onStream(
        "split",
        stream,
        (found, where) =>
          TestStream.split(found, shardId, at === undefined ? undefined : BigInt(at), server.now(), where).pipe(
            Either.map(([low, high]) => [toState(low), toState(high)] as const)
          )
      ),
    merge: (stream, shardId, other) =>
      onStream(
        "merge",
        stream,
        (found, where) => Either.map(TestStream.merge(found, shardId, other, server.now(), where), toState)
      ),
    reshard: (stream, count) =>
      onStream("reshard", stream, (found, where) => {
        if (!Number.isInteger(count) || count < 1) {
          return refuse(where, "InvalidArgument", `A stream has one shard or more, not ${count}`)
        }
        TestStream.reshard(found, count, server.now())
        return Either.right(TestStream.openShards(found).map(toState))
      }),
    shards: (stream) => onStream("shards", stream, (found) => Either.right(Array.from(found.shards.values(), toState))),
    records: (stream, shardId) =>
      onShard(
        "records",
        stream,
        shardId,
        (shard) => Either.right(RecordLog.slice(shard.log, shard.log.first, shard.log.next).map(TestShard.toRawRecord))
      ),
    trim: ({ shardId, stream, through }) =>
      onShard("trim", stream, shardId, (shard) => {
        const last = through === undefined ? undefined : BigInt(through)
        TestShard.trimWhile(shard, (record) => last === undefined || BigInt(record.sequenceNumber) <= last)
        return Either.right(undefined)
      }),
    forgetShard: (stream, shardId) =>
      onShard("forgetShard", stream, shardId, (shard, found, where) => {
        if (shard.closedAt === undefined) {
          return refuse(where, "InvalidArgument", `Shard ${shardId} is open; only closed shards vanish`)
        }
        found.shards.delete(shardId)
        return Either.right(undefined)
      }),
    expireIterators: Effect.sync(() => {
      server.firstValidIterator = server.iteratorsMade
    }),
    emptyPages: ({ atEnd = false, count, shardId, stream }) =>
      onShard("emptyPages", stream, shardId, (shard) => {
        if (atEnd) shard.emptyPagesAtEnd = count
        else shard.emptyPages = count
        return Either.right(undefined)
      }),
    subscriptions: (of = {}) => Effect.sync(() => Subscription.select(server, of).map(toSubscription)),
    endSubscriptions: ({ error, ...of } = {}) =>
      Effect.sync(() => {
        const ended = Subscription.select(server, of)
        for (const subscription of ended) Subscription.cut(server, subscription, error)
        return ended.length
      }),
    calls: Effect.sync(() => [...calls]),
    callsOf: <Operation extends Call["operation"]>(
      operation: Operation,
      where: { readonly stream?: string | undefined; readonly shardId?: string | undefined } = {}
    ) =>
      Effect.sync(() =>
        calls.filter((call): call is Extract<Call, { readonly operation: Operation }> =>
          call.operation === operation &&
          (where.stream === undefined || call.stream === where.stream) &&
          (where.shardId === undefined || ("shardId" in call && call.shardId === where.shardId))
        )
      ),
    clearCalls: Effect.sync(() => {
      calls = []
    })
  })
})

/**
 * Both the client and the driver of one Kinesis in memory. Bind the result: each call makes a layer, and so a Kinesis,
 * of its own.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerWith = (options: Options): Layer.Layer<TestKinesis | KinesisClient> =>
  Layer.effectContext(
    Effect.map(make(options), (kinesis) =>
      Context.make(TestKinesis, kinesis).pipe(Context.add(KinesisClient, kinesis.client)))
  )

/**
 * `layerWith` with the defaults.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer: Layer.Layer<TestKinesis | KinesisClient> = layerWith({})
