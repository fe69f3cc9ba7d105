/**
 * How `Kinesumer.process` and `Kinesumer.processBatch` run a handler: their options, and what can fail.
 *
 * @since 0.1.0
 */
import type { NonEmptyReadonlyArray } from "effect/Array"
import type * as Cause from "effect/Cause"
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import * as Inspectable from "effect/Inspectable"
import type * as Schedule from "effect/Schedule"
import type { ConsumeError, InvalidConfig } from "./KinesumerError.js"
import type { KinesumerRecord } from "./KinesumerRecord.js"

/**
 * Which records wait for one another.
 *
 * - `shard`: each record of a shard waits for the one before it
 * - `partitionKey`: each record of a shard waits for the one before it that has the same partition key
 * - `none`: no record waits for another
 *
 * A record waits until the one before it is handled or dead-lettered, retries included.
 *
 * @since 0.1.0
 * @category models
 */
export type Ordering = "shard" | "partitionKey" | "none"

/**
 * What a handler can fail with: its own errors, its time is up, or it died.
 *
 * @since 0.1.0
 * @category errors
 */
export type HandlerError<E> = E | HandlerTimeout | HandlerDefect

/**
 * An attempt took longer than `timeout`, and was interrupted.
 *
 * @since 0.1.0
 * @category errors
 */
export class HandlerTimeout extends Data.TaggedError("HandlerTimeout")<{
  readonly timeout: Duration.Duration
}> {
  override get message(): string {
    return `The handler was not done within ${Duration.format(this.timeout)} (timeout)`
  }
}

/**
 * The handler died, or interrupted itself.
 *
 * @since 0.1.0
 * @category errors
 */
export class HandlerDefect extends Data.TaggedError("HandlerDefect")<{
  readonly defect: unknown
}> {
  override get message(): string {
    return `The handler died: ${textOf(this.defect)}`
  }
}

/**
 * A record whose handling failed, for the last time that `retry` allows.
 *
 * @since 0.1.0
 * @category models
 */
export interface FailedRecord<E> {
  readonly record: KinesumerRecord
  /** The error of the last attempt. */
  readonly error: HandlerError<E>
  /** All of the last failure. For a batch it is that of the whole. */
  readonly cause: Cause.Cause<unknown>
  /** How often it was tried: at least 1. */
  readonly attempts: number
}

/**
 * A failed record under `onFailure: "stop"`. It is not marked: a later run delivers it again.
 *
 * @since 0.1.0
 * @category errors
 */
export class RecordFailed<E = unknown> extends Data.TaggedError("RecordFailed")<
  RecordName & {
    readonly attempts: number
    /** The error of the last attempt. */
    readonly error: HandlerError<E>
  }
> {
  override get message(): string {
    return `Record ${nameOf(this)} failed at attempt ${this.attempts}: ${textOf(this.error)}. ` +
      `It is delivered again by the next run; to go on without it, give onFailure a dead-letter effect`
  }
}

/**
 * The dead-letter effect failed. The record is not marked: a later run delivers it again.
 *
 * @since 0.1.0
 * @category errors
 */
export class DeadLetterFailed<E = unknown> extends Data.TaggedError("DeadLetterFailed")<
  RecordName & { readonly error: E | HandlerDefect }
> {
  override get message(): string {
    return `The dead-letter effect for record ${nameOf(this)} failed: ${
      textOf(this.error instanceof HandlerDefect ? this.error.defect : this.error)
    }. The record is delivered again by the next run`
  }
}

/**
 * A record of a batch that failed.
 *
 * @since 0.1.0
 * @category models
 */
export interface RecordFailure<E> {
  readonly record: Pick<KinesumerRecord, "sequenceNumber" | "subSequenceNumber">
  readonly error: E
}

/**
 * What a batch handler fails with to say which of the records failed; the others are handled, but for those that
 * `ordering` puts behind a failed one. One that names no record, or one that is not in the batch, is a failure of all of
 * them, as any other error is.
 *
 * @since 0.1.0
 * @category errors
 */
export class BatchFailed<E = unknown> extends Data.TaggedError("BatchFailed")<{
  readonly failures: ReadonlyArray<RecordFailure<E>>
}> {
  override get message(): string {
    const [first] = this.failures
    return `${this.failures.length} ${this.failures.length === 1 ? "record" : "records"} of a batch failed` +
      (first === undefined ? "" : `; the first one, ${first.record.sequenceNumber}: ${textOf(first.error)}`)
  }
}

/**
 * What a batch handler that fails with `E` says of a record that it names.
 *
 * @since 0.1.0
 * @category errors
 */
export type NamedError<E> = E extends BatchFailed<infer F> ? F : never

/**
 * What a record of a batch fails with: the error that it was named with, or one of the whole batch. That can be a
 * `BatchFailed` too, where it does not name the records that failed.
 *
 * @since 0.1.0
 * @category errors
 */
export type BatchError<E> = E | NamedError<E>

/**
 * What ends `process`, beside interruption.
 *
 * @since 0.1.0
 * @category errors
 */
export type ProcessError<E, DE> = ConsumeError | InvalidConfig | RecordFailed<E> | DeadLetterFailed<DE>

/**
 * The options that `process` and `processBatch` share. `In` is what a handler fails with, `E` what one record does.
 *
 * @since 0.1.0
 * @category models
 */
export interface HandlingOptions<In, E, RR, DE, DR> {
  /** Which records wait for one another. Defaults to `shard`. */
  readonly ordering?: Ordering | undefined
  /** Handlers that run at the same time, over all shards of this member. Defaults to 16. */
  readonly concurrency?: number | undefined
  /**
   * Records that were taken from the buffer and are not finished: those in a handler, those that wait for their turn, and
   * those that wait to be tried again, over all shards; at most 10,000. They come on top of `bufferSize`. While this
   * member has several shards, none of them takes more than half of it, whether the others have records or not, so that
   * one that is stuck leaves places to those that get records later. Defaults to 1,000.
   */
  readonly maxInFlight?: number | undefined
  /**
   * When a failed attempt is made again. What waits holds no place in `concurrency`. Defaults to never.
   */
  readonly retry?: Schedule.Schedule<unknown, HandlerError<In>, RR> | undefined
  /**
   * What one attempt may take, before it is interrupted and counts as failed: 1 millisecond or more. Defaults to no limit.
   */
  readonly timeout?: Duration.DurationInput | undefined
  /**
   * What becomes of a record that failed for the last time. `stop`: the whole fails with `RecordFailed`. An effect takes
   * care of it, for example puts it into another stream: then the record counts as processed, which is told by the event
   * `DeadLettered` and counted. If that effect fails, the whole fails with `DeadLetterFailed`. `timeout` is not for it, and
   * while it is not done the records behind it wait: `Effect.timeout` around it makes a failure of one that hangs. Defaults
   * to `stop`.
   */
  readonly onFailure?: "stop" | ((failed: FailedRecord<E>) => Effect.Effect<unknown, DE, DR>) | undefined
}

/**
 * The options of `process`.
 *
 * @since 0.1.0
 * @category models
 */
export interface ProcessOptions<E, RR = never, DE = never, DR = never> extends HandlingOptions<E, E, RR, DE, DR> {}

/**
 * The options of `processBatch`.
 *
 * @since 0.1.0
 * @category models
 */
export interface BatchOptions<E, RR = never, DE = never, DR = never>
  extends HandlingOptions<E, BatchError<E>, RR, DE, DR>
{
  /**
   * Records in a batch at most; no more than `maxInFlight`, of which a shard may have half where there are others. Defaults
   * to 100.
   */
  readonly size?: number | undefined
  /** How long a record waits for a batch to become full: 1 millisecond or more. Defaults to 100 milliseconds. */
  readonly maxWait?: Duration.DurationInput | undefined
}

/**
 * Handles one record.
 *
 * @since 0.1.0
 * @category models
 */
export interface Handler<E, R> {
  (record: KinesumerRecord): Effect.Effect<unknown, E, R>
}

/**
 * Handles some records of one shard, in the order of the shard.
 *
 * @since 0.1.0
 * @category models
 */
export interface BatchHandler<E, R> {
  (records: NonEmptyReadonlyArray<KinesumerRecord>): Effect.Effect<unknown, E, R>
}

type RecordName = Pick<KinesumerRecord, "stream" | "shardId" | "sequenceNumber" | "subSequenceNumber">

const nameOf = ({ sequenceNumber, shardId, stream, subSequenceNumber }: RecordName): string =>
  `${stream}/${shardId}/${sequenceNumber}` + (subSequenceNumber === undefined ? "" : `/${subSequenceNumber}`)

/** An error of Effect need not have a message; then its name tells more. */
const textOf = (error: unknown): string =>
  error instanceof Error ? error.message || error.name : Inspectable.toStringUnknown(error, 0)
