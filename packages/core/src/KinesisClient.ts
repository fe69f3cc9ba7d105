/**
 * The calls to Kinesis that a group needs, with typed errors. Tests replace it through `Context`.
 *
 * @since 0.1.0
 */
import type * as Sdk from "@aws-sdk/client-kinesis"
import * as Config from "effect/Config"
import type * as ConfigError from "effect/ConfigError"
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import type * as Stream from "effect/Stream"
import * as internal from "./internal/kinesisClient.js"
import type { KinesisError } from "./KinesisError.js"
import type { Position } from "./Position.js"
import type { SequenceNumber } from "./SequenceNumber.js"
import type { Shard } from "./Shard.js"

/**
 * How a stream is addressed in calls: by its ARN where one was configured, else by its name in the client's own account
 * and region.
 *
 * @since 0.1.0
 * @category models
 */
export interface StreamId {
  readonly name: string
  readonly arn: Option.Option<string>
}

/**
 * @since 0.1.0
 * @category models
 */
export interface StreamDescription {
  readonly name: string
  readonly arn: string
  readonly status: "CREATING" | "DELETING" | "ACTIVE" | "UPDATING"
  readonly createdAt: DateTime.Utc
  /** The moment of the answer by Kinesis's own clock (its `Date` header, in whole seconds). */
  readonly answeredAt: DateTime.Utc
}

/**
 * A record as `GetRecords` gives it.
 *
 * @since 0.1.0
 * @category models
 */
export interface RawRecord {
  readonly sequenceNumber: string
  readonly partitionKey: string
  /**
   * A view of the whole answer that it came with, which stays in memory for as long: copy what is kept, or is sent to
   * another thread.
   */
  readonly data: Uint8Array
  readonly arrivalTime: Date | undefined
}

/**
 * @since 0.1.0
 * @category models
 */
export interface GetRecordsResult {
  readonly records: ReadonlyArray<RawRecord>
  /** `none` at the end of a closed shard (absent, null and empty are all one). */
  readonly nextIterator: Option.Option<string>
  /** How far the answer is behind the tip of the shard; `none` where Kinesis does not say. */
  readonly millisBehindLatest: Option.Option<number>
  /** The shards that follow a closed shard. They come with its last answer, if at all. */
  readonly childShards: ReadonlyArray<Shard>
}

/**
 * A consumer of a stream with a throughput of its own (enhanced fan-out): 2 MiB a second for each shard, pushed.
 *
 * @since 0.1.0
 * @category models
 */
export interface ConsumerDescription {
  /** Unique within its stream. */
  readonly name: string
  /** Another one after the consumer was registered anew. */
  readonly arn: string
  /** Only an `ACTIVE` consumer can subscribe. */
  readonly status: "CREATING" | "DELETING" | "ACTIVE"
  readonly createdAt: DateTime.Utc
}

/**
 * One event of a subscription.
 *
 * @since 0.1.0
 * @category models
 */
export interface SubscriptionEvent {
  /** Often none: then the event only tells where the subscription stands. */
  readonly records: ReadonlyArray<RawRecord>
  /** After which record the next subscription goes on; `none` at the end of a closed shard. */
  readonly continuation: Option.Option<SequenceNumber>
  /** How far the event is behind the tip of the shard; `none` where Kinesis does not say. */
  readonly millisBehindLatest: Option.Option<number>
  /** The shards that follow a closed shard. They come with its last event, if at all. */
  readonly childShards: ReadonlyArray<Shard>
}

/**
 * @since 0.1.0
 * @category context
 */
export class KinesisClient extends Context.Tag("@kinesumer/core/KinesisClient")<KinesisClient, {
  /** The region that the client speaks to, such as `ap-northeast-2`. */
  readonly region: Effect.Effect<string, KinesisError>

  /** `DescribeStreamSummary`: 20 calls a second for an account. */
  readonly describeStream: (stream: StreamId) => Effect.Effect<StreamDescription, KinesisError>

  /** One page of `ListShards`, at most 1,000 shards. Its token lives 5 minutes. */
  readonly listShards: (
    stream: StreamId,
    nextToken: Option.Option<string>
  ) => Effect.Effect<
    { readonly shards: ReadonlyArray<Shard>; readonly nextToken: Option.Option<string> },
    KinesisError
  >

  /**
   * `GetShardIterator`: 5 calls a second for a shard; the iterator lives 5 minutes. With a sub-sequence number the
   * iterator stands at the record itself, since its other parts are still to come. `ShardEnd` has no iterator
   * (`InvalidArgument`).
   */
  readonly getShardIterator: (
    stream: StreamId,
    shardId: string,
    position: Position
  ) => Effect.Effect<string, KinesisError>

  /** `GetRecords`: 5 calls and 2 MiB a second for a shard, at most 10,000 records or 10 MiB a call. */
  readonly getRecords: (
    stream: StreamId,
    shardId: string,
    options: { readonly iterator: string; readonly limit: number }
  ) => Effect.Effect<GetRecordsResult, KinesisError>

  /**
   * `RegisterStreamConsumer`: 5 calls a second for a stream. `ResourceInUse` says that the name is taken, or the stream
   * is changing; `LimitExceeded` that the stream has all the consumers it may have: 20 in most accounts. While 5 of them
   * are being created, the next is `Throttled`.
   */
  readonly registerConsumer: (streamArn: string, name: string) => Effect.Effect<ConsumerDescription, KinesisError>

  /** `DescribeStreamConsumer`: 20 calls a second for a stream. `NotFound` where there is no consumer of this name. */
  readonly describeConsumer: (streamArn: string, name: string) => Effect.Effect<ConsumerDescription, KinesisError>

  /** One page of `ListStreamConsumers`: 5 calls a second for a stream. Its token lives 5 minutes. */
  readonly listConsumers: (
    streamArn: string,
    nextToken: Option.Option<string>
  ) => Effect.Effect<
    { readonly consumers: ReadonlyArray<ConsumerDescription>; readonly nextToken: Option.Option<string> },
    KinesisError
  >

  /** `DeregisterStreamConsumer`: 5 calls a second for a stream. Its subscriptions end; it is `DELETING` for a while. */
  readonly deregisterConsumer: (streamArn: string, name: string) => Effect.Effect<void, KinesisError>

  /**
   * `SubscribeToShard`: one call a second for a consumer and shard. Each run of the stream subscribes anew, and its end
   * unsubscribes. The first event can be long in coming. It ends after 5 minutes, or at the
   * end of a closed shard. Events wait in Kinesis until the stream is pulled.
   *
   * A subscription within 5 seconds of the last one is refused with `ResourceInUse`; a later one takes over, and the
   * earlier one fails with it. With a sub-sequence number it begins at the record itself, since its other parts are still
   * to come. `ShardEnd` has nothing to subscribe to (`InvalidArgument`).
   */
  readonly subscribeToShard: (
    stream: StreamId,
    shardId: string,
    options: { readonly consumerArn: string; readonly position: Position }
  ) => Stream.Stream<SubscriptionEvent, KinesisError>

  /** Waits until the client has gone over to JSON (`protocol`), and gives the refusal that made it. */
  readonly fallback?: Effect.Effect<KinesisError> | undefined
}>() {}

/**
 * Credentials that stand fast. A secret in `Redacted` cannot be logged by mistake; plain text is taken too.
 *
 * @since 0.1.0
 * @category options
 */
export interface StaticCredentials {
  readonly accessKeyId: string
  readonly secretAccessKey: string | Redacted.Redacted
  readonly sessionToken?: string | Redacted.Redacted | undefined
}

/**
 * A function that gives credentials and is asked again when they run out: what the functions of
 * `@aws-sdk/credential-providers` return.
 *
 * @since 0.1.0
 * @category options
 */
export type CredentialsProvider = Extract<
  NonNullable<Sdk.KinesisClientConfig["credentials"]>,
  (...args: ReadonlyArray<never>) => unknown
>

/**
 * How to reach Kinesis. What is left out is looked up as the AWS SDK does it: in the environment, the profile and the
 * metadata of the machine.
 *
 * @since 0.1.0
 * @category options
 */
export interface KinesisClientOptions {
  /** The region of the streams, such as `ap-northeast-2`. */
  readonly region?: string | undefined
  /** Another address than that of the region, for a local server or a VPC endpoint. `http:` speaks HTTP/1.1. */
  readonly endpoint?: string | undefined
  readonly credentials?: StaticCredentials | CredentialsProvider | undefined
  /**
   * A role to assume, with `credentials` if they are given, to read streams of another account. It needs the package
   * `@aws-sdk/credential-providers`. A role that wants more (an external id, say) goes into `credentials` as
   * `fromTemporaryCredentials({ ... })` of that package.
   */
  readonly roleArn?: string | undefined
  /**
   * The form in which records travel. `cbor` takes about a third of the time of `json`, in which data are base64. `auto`
   * asks in CBOR, and in JSON from then on if the server makes nothing of that: a warning in the log, and the event
   * `ProtocolFallback` of each group. For servers that answer CBOR wrongly there is `json`. AWS and the local servers known speak both. Defaults to `auto`.
   */
  readonly protocol?: "auto" | "cbor" | "json" | undefined
}

/**
 * Kinesis through the AWS SDK. Each call is one request: nothing is tried again here, and no call ends by itself for
 * lack of an answer, so put a time limit on it (`Effect.timeout`); interruption aborts the request.
 *
 * It fails when an option is wrong or the package for `roleArn` is missing. It does not call Kinesis.
 *
 * @since 0.1.0
 * @category layers
 * @example
 * import { KinesisClient } from "@kinesumer/core"
 *
 * export const KinesisLive = KinesisClient.layer({ region: "ap-northeast-2" })
 */
export const layer = (options: KinesisClientOptions = {}): Layer.Layer<KinesisClient, KinesisError> =>
  Layer.scoped(KinesisClient, internal.make(options))

/**
 * `layer` with options from configuration.
 *
 * @since 0.1.0
 * @category layers
 * @example
 * import { KinesisClient } from "@kinesumer/core"
 * import { Config } from "effect"
 *
 * export const KinesisLive = KinesisClient.layerConfig({ region: Config.string("KINESIS_REGION") })
 */
export const layerConfig = (
  config: Config.Config.Wrap<KinesisClientOptions>
): Layer.Layer<KinesisClient, KinesisError | ConfigError.ConfigError> =>
  Layer.scoped(KinesisClient, Effect.flatMap(Config.unwrap(config), internal.make))
