/**
 * The consumer group: several processes share the shards of one or more Kinesis streams, each shard is read by one of
 * them at a time, in order, from a durable checkpoint.
 *
 * @since 0.1.0
 */
import * as Config from "effect/Config"
import type { ConfigError } from "effect/ConfigError"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Consumers from "./internal/consumers.js"
import * as MemberHealth from "./internal/health.js"
import * as Leased from "./internal/leased.js"
import * as Member from "./internal/member.js"
import * as ProcessingOptions from "./internal/processingOptions.js"
import { KinesisClient } from "./KinesisClient.js"
import type { KinesisError } from "./KinesisError.js"
import * as KinesumerConfig from "./KinesumerConfig.js"
import type { CommitError, ConsumeError, InvalidConfig, LeaseLost, StartError } from "./KinesumerError.js"
import type { KinesumerEvent } from "./KinesumerEvent.js"
import type { KinesumerRecord } from "./KinesumerRecord.js"
import type * as Processing from "./Processing.js"
import type { StateStore } from "./StateStore.js"

/**
 * The records of one shard, for as long as this member runs it.
 *
 * @since 0.1.0
 * @category models
 */
export interface ShardStream {
  /** The stream, as it was configured. */
  readonly stream: string
  readonly shardId: string
  /** The epoch of the lease. */
  readonly epoch: number
  /** Ends when the shard is handed over, lost, or read to its end. It can be run again, but not twice at once. */
  readonly records: Stream.Stream<KinesumerRecord, ConsumeError>
}

/**
 * A shard that this member runs.
 *
 * @since 0.1.0
 * @category models
 */
export interface AssignedShard {
  readonly stream: string
  readonly shardId: string
  readonly epoch: number
}

/**
 * How a member is doing. `healthy` is `false` while any part of it does not get on.
 *
 * @since 0.1.0
 * @category models
 */
export interface Health extends MemberHealth.Health {}

/**
 * @since 0.1.0
 * @category context
 */
export class Kinesumer extends Context.Tag("@kinesumer/core/Kinesumer")<Kinesumer, {
  /** The name of this process in the group. */
  readonly memberId: string

  /**
   * The records of all shards of this member, shard by shard in slices, each shard in order.
   *
   * With `commit.mode` `auto` a slice counts as processed when the same run of the stream comes back for more. An
   * operator that reads ahead (`Stream.buffer`, `Stream.mapEffect` with concurrency) comes back before it has processed:
   * use `manual` with it.
   *
   * A run that ends early gives back what it has not marked: the next run starts there. One run at a time.
   */
  readonly records: Stream.Stream<KinesumerRecord, ConsumeError>

  /**
   * A stream of each shard that this member runs, for running them in parallel. What is done with the records of a shard
   * belongs into its own stream, since a `flatMap` with concurrency comes back for more before what follows it is done:
   *
   * ```ts
   * Stream.flatMap(kinesumer.shards, (shard) => Stream.mapEffect(shard.records, handle), { concurrency: "unbounded" })
   * ```
   *
   * Only shards whose stream runs are read, and these streams end with the run of `shards` that they came from. One run at
   * a time, and not beside `records`.
   */
  readonly shards: Stream.Stream<ShardStream, ConsumeError>

  /**
   * Marks records as processed, in any order. A position is committed when every record up to it is marked, so a record
   * that was left out is never covered by a later one. Fails with `LeaseLost` if a record's epoch is over. A copy of a
   * record, or one that was made by hand, is a defect: it takes the record that was delivered.
   */
  readonly mark: (records: KinesumerRecord | Iterable<KinesumerRecord>) => Effect.Effect<void, LeaseLost>

  /**
   * Marks a record that cannot be processed, so that it holds up nothing, and tells of it: with the event `RecordSkipped`
   * and the metric `kinesumer_skipped_records_total`. `cause` says why. Fails as `mark` does, and then nothing is told.
   */
  readonly skip: (record: KinesumerRecord, cause: unknown) => Effect.Effect<void, LeaseLost>

  /** See the function `process`. */
  readonly process: <E, R, RR = never, DE = never, DR = never>(
    handler: Processing.Handler<E, R>,
    options?: Processing.ProcessOptions<E, RR, DE, DR>
  ) => Effect.Effect<void, Processing.ProcessError<E, DE>, R | RR | DR>

  /** See the function `processBatch`. */
  readonly processBatch: <E, R, RR = never, DE = never, DR = never>(
    handler: Processing.BatchHandler<E, R>,
    options?: Processing.BatchOptions<E, RR, DE, DR>
  ) => Effect.Effect<void, Processing.ProcessError<Processing.BatchError<E>, DE>, R | RR | DR>

  /** See the function `whileLeased`. */
  readonly whileLeased: <A, E, R>(
    record: KinesumerRecord,
    effect: Effect.Effect<A, E, R>
  ) => Effect.Effect<A, E | LeaseLost, R>

  /** Writes what is marked now, without waiting for `commit.interval`. */
  readonly commit: Effect.Effect<void, CommitError>

  /**
   * Reads these streams from now on, in place of those before. Shards of streams that stay go on undisturbed. If it
   * fails, nothing has changed.
   */
  readonly refresh: (
    streams: ReadonlyArray<string | KinesumerConfig.StreamOptions>
  ) => Effect.Effect<void, StartError>

  /** Stops delivering and reading a stream (as it was configured). Its leases are kept. */
  readonly pause: (stream: string) => Effect.Effect<void, InvalidConfig>

  readonly resume: (stream: string) => Effect.Effect<void, InvalidConfig>

  /** The shards that this member runs now. */
  readonly assignment: Effect.Effect<ReadonlyArray<AssignedShard>>

  /** What the member tells of itself, from the moment on at which the stream is run. */
  readonly events: Stream.Stream<KinesumerEvent>

  readonly health: Effect.Effect<Health>
}>() {}

/**
 * Starts a member of a group and gives the service. Its scope is the membership: closing it stops the shards, commits
 * what was marked, releases the leases and leaves the group, within `closeTimeout`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (
  options: KinesumerConfig.KinesumerOptions
): Effect.Effect<Kinesumer["Type"], StartError, KinesisClient | StateStore | Scope.Scope> =>
  Effect.gen(function*() {
    const config = yield* KinesumerConfig.make(options)
    const member = yield* Member.make(config)
    const setPaused = (stream: string, paused: boolean) =>
      Effect.flatMap(Member.findStream(member, stream), (found) => member.delivery.setPaused(found.key, paused))
    return Kinesumer.of({
      memberId: config.memberId,
      records: member.delivery.records,
      shards: member.delivery.shards,
      mark: (records) => member.delivery.mark(Symbol.iterator in records ? records : [records]),
      skip: (record, cause) => Member.skip(member, record, cause),
      process: (handler, options) => ProcessingOptions.process(member.env, member.delivery, handler, options),
      processBatch: (handler, options) => ProcessingOptions.processBatch(member.env, member.delivery, handler, options),
      whileLeased: (record, effect) => Leased.whileLeased(member.env, member.membership, record, effect),
      commit: member.commit,
      refresh: member.refresh,
      pause: (stream) => setPaused(stream, true),
      resume: (stream) => setPaused(stream, false),
      assignment: Effect.map(member.assignment.running, (runs) =>
        [...runs.values()].map(({ epoch, shard, stream }) => ({
          stream: stream.label,
          shardId: shard.shardId,
          epoch
        }))),
      events: Stream.fromPubSub(member.env.events),
      health: MemberHealth.make(member)
    })
  })

/**
 * A member of a group as a layer.
 *
 * Fails with `InvalidConfig` before anything is registered, and with the first `KinesisError` or `StateStoreError` that
 * no retry mends: a layer that was built is a member of its group.
 *
 * @since 0.1.0
 * @category layers
 * @example
 * import { KinesisClient, Kinesumer, StateStore } from "@kinesumer/core"
 * import { Effect, Layer, Stream } from "effect"
 *
 * export const program = Effect.gen(function*() {
 *   const kinesumer = yield* Kinesumer.Kinesumer
 *   yield* Stream.runForEach(kinesumer.records, (record) => Effect.log(record.sequenceNumber))
 * })
 *
 * export const KinesumerLive = Kinesumer.layer({ app: "orders", streams: ["orders", "payments"] }).pipe(
 *   Layer.provide(KinesisClient.layer({ region: "ap-northeast-2" })),
 *   Layer.provide(StateStore.layerMemory)
 * )
 */
export const layer = (
  options: KinesumerConfig.KinesumerOptions
): Layer.Layer<Kinesumer, StartError, KinesisClient | StateStore> => Layer.scoped(Kinesumer, make(options))

/**
 * The same with options from `Config`.
 *
 * @since 0.1.0
 * @category layers
 * @example
 * import { Kinesumer } from "@kinesumer/core"
 * import { Config } from "effect"
 *
 * export const KinesumerLive = Kinesumer.layerConfig({
 *   app: Config.string("APP"),
 *   streams: Config.array(Config.string(), "STREAMS")
 * })
 */
export const layerConfig = (
  options: Config.Config.Wrap<KinesumerConfig.KinesumerOptions>
): Layer.Layer<Kinesumer, StartError | ConfigError, KinesisClient | StateStore> =>
  Layer.scoped(Kinesumer, Effect.flatMap(Config.unwrap(options), make))

/**
 * Runs a handler for each record of this member, until the group is closed or something fails.
 *
 * A record is marked when its handler is done, whatever `commit.mode` says; completions come in any order, and what is
 * committed is the position up to which every record is finished. So a crash loses nothing that was not finished, and what
 * was finished behind an unfinished record is delivered again.
 *
 * A handler that fails, dies or takes longer than `timeout` is tried again by `retry`, while the records behind it wait for
 * it according to `ordering`; after that `onFailure` decides. Interrupting `process` is no failure: handlers are
 * interrupted, and what they had in hand is delivered again.
 *
 * When a shard is handed over, what was taken of it may be finished for at most one `syncInterval`. Then, and at once when
 * its lease is lost, its handlers are interrupted, since another member handles their records. Closing the group waits for
 * no handler: all of them are interrupted at once, and what they had in hand is delivered again.
 *
 * One run at a time, and not beside `records` or `shards`.
 *
 * @since 0.1.0
 * @category processing
 * @example
 * import { Kinesumer, type KinesumerRecord, type Processing } from "@kinesumer/core"
 * import { Effect, Schedule } from "effect"
 *
 * declare const handle: (record: KinesumerRecord.KinesumerRecord) => Effect.Effect<void, Error>
 * declare const putDeadLetter: (failed: Processing.FailedRecord<Error>) => Effect.Effect<void>
 *
 * export const program = Kinesumer.process(handle, {
 *   ordering: "partitionKey",
 *   concurrency: 32,
 *   timeout: "10 seconds",
 *   retry: Schedule.intersect(Schedule.exponential("100 millis"), Schedule.recurs(5)),
 *   onFailure: putDeadLetter
 * })
 */
export const process = <E, R, RR = never, DE = never, DR = never>(
  handler: Processing.Handler<E, R>,
  options?: Processing.ProcessOptions<E, RR, DE, DR>
): Effect.Effect<void, Processing.ProcessError<E, DE>, R | RR | DR | Kinesumer> =>
  Effect.flatMap(Kinesumer, (kinesumer) => kinesumer.process(handler, options))

/**
 * The same for batches. A batch holds records of one shard, in the order of the shard. With `partitionKey` several batches
 * of a shard can be handled at once, which have no key in common.
 *
 * A handler that fails with `BatchFailed` says which records failed: these are tried again in a batch of their own, and the
 * others are finished. But those that `ordering` puts behind a failed one come again with it, whether the handler has
 * handled them out of their turn or not, and once more after it was dead-lettered. Any other failure is one of all records.
 * Dead letters are written record by record.
 *
 * @since 0.1.0
 * @category processing
 * @example
 * import { Kinesumer, type KinesumerRecord, Processing } from "@kinesumer/core"
 * import { Effect, Schedule } from "effect"
 *
 * declare const insertAll: (
 *   records: ReadonlyArray<KinesumerRecord.KinesumerRecord>
 * ) => Effect.Effect<ReadonlyArray<Processing.RecordFailure<Error>>>
 *
 * export const program = Kinesumer.processBatch(
 *   (records) =>
 *     Effect.flatMap(insertAll(records), (failures) =>
 *       failures.length === 0 ? Effect.void : new Processing.BatchFailed({ failures })),
 *   { size: 500, maxWait: "200 millis", ordering: "partitionKey", retry: Schedule.recurs(3) }
 * )
 */
export const processBatch = <E, R, RR = never, DE = never, DR = never>(
  handler: Processing.BatchHandler<E, R>,
  options?: Processing.BatchOptions<E, RR, DE, DR>
): Effect.Effect<void, Processing.ProcessError<Processing.BatchError<E>, DE>, R | RR | DR | Kinesumer> =>
  Effect.flatMap(Kinesumer, (kinesumer) => kinesumer.processBatch(handler, options))

/**
 * Runs an effect only while the lease under which the record was read is this member's, as far as the member can know:
 *
 * - it does not begin when the lease is lost, or when the last heartbeat is older than `livenessTimeout`, so that others
 *   may have taken the shard over;
 * - when either happens meanwhile, the effect is interrupted;
 * - both are `LeaseLost`.
 *
 * This keeps late writes rare, and cannot exclude them: a process can be frozen between the check and the write, and a
 * write that was sent cannot be called back. Where that matters, the place that is written to has to decide: store
 * `record.epoch` beside what is written, and refuse a lower one than is stored.
 *
 * The record has to be the one that was delivered: a copy, or one that was made by hand, is a defect. A handler of
 * `process` is interrupted when the lease is lost, with this or without.
 *
 * @since 0.1.0
 * @category processing
 * @example
 * import { Kinesumer, type KinesumerRecord } from "@kinesumer/core"
 * import type { Effect } from "effect"
 *
 * declare const write: (record: KinesumerRecord.KinesumerRecord) => Effect.Effect<void>
 *
 * export const handle = (record: KinesumerRecord.KinesumerRecord) => write(record).pipe(Kinesumer.whileLeased(record))
 */
export const whileLeased =
  (record: KinesumerRecord) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | LeaseLost, R | Kinesumer> =>
    Effect.flatMap(Kinesumer, (kinesumer) => kinesumer.whileLeased(record, effect))

/**
 * Takes the group's consumer away from each of its streams, for when the group is retired: a registered consumer costs by
 * the hour, whether anybody reads through it or not. Closing a member never does this, since the others read on.
 *
 * Members that still read fail to subscribe, and register it again. A stream that has no such consumer is passed over;
 * one that does not exist fails the whole, before anything is deregistered. Errors that pass are tried again for
 * `fanOut.registerTimeout`.
 *
 * @since 0.1.0
 * @category constructors
 * @example
 * import { KinesisClient, Kinesumer } from "@kinesumer/core"
 * import { Effect } from "effect"
 *
 * export const retire = Kinesumer.deregisterConsumers({ app: "orders", streams: ["orders", "payments"] }).pipe(
 *   Effect.provide(KinesisClient.layer({ region: "ap-northeast-2" }))
 * )
 */
export const deregisterConsumers = (
  options: Pick<KinesumerConfig.KinesumerOptions, "app" | "streams" | "fanOut">
): Effect.Effect<void, KinesisError | InvalidConfig, KinesisClient> =>
  Effect.gen(function*() {
    const config = yield* KinesumerConfig.make({ ...options, mode: "fanOut" })
    yield* Consumers.deregister(config, yield* KinesisClient)
  })
