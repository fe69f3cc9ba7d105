/**
 * What can go wrong between a member and Kinesis.
 *
 * @since 0.1.0
 */
import * as Data from "effect/Data"

/**
 * - `Throttled`: a limit of Kinesis or of KMS was met
 * - `LimitExceeded`: the stream has all the consumers that it may have
 * - `Timeout`, `Unavailable`: no answer in time; a network fault, a fault of the service, credentials that could not be
 *   had just now
 * - `ExpiredIterator`, `ExpiredToken`: the shard iterator, or the token of a `ListShards` page, is older than 5 minutes
 * - `InvalidArgument`: Kinesis refuses a parameter, such as a position that does not belong to the shard
 * - `NotFound`: the stream or the shard does not exist
 * - `ResourceInUse`: the stream or the consumer is changing
 * - `AccessDenied`: credentials or permissions are missing
 * - `Unsupported`: the endpoint does not know the operation, as some local servers do not know enhanced fan-out
 * - `Unknown`: none of these; `cause` has it
 *
 * @since 0.1.0
 * @category errors
 */
export type KinesisErrorReason =
  | "Throttled"
  | "LimitExceeded"
  | "Timeout"
  | "Unavailable"
  | "ExpiredIterator"
  | "ExpiredToken"
  | "InvalidArgument"
  | "NotFound"
  | "ResourceInUse"
  | "AccessDenied"
  | "Unsupported"
  | "Unknown"

/**
 * A call to Kinesis failed: which one, for which stream and shard, and why.
 *
 * @since 0.1.0
 * @category errors
 */
export class KinesisError extends Data.TaggedError("KinesisError")<{
  readonly reason: KinesisErrorReason
  /** The operation of `KinesisClient` that failed, for example `getRecords`. */
  readonly operation: string
  /** The name or ARN of the stream; `*` where the call is about none. */
  readonly stream: string
  readonly shardId?: string | undefined
  /** What happened and what to do, in words. */
  readonly detail: string
  readonly cause?: unknown
}> {
  override get message(): string {
    const where = this.shardId === undefined ? this.stream : `${this.stream}/${this.shardId}`
    return `${this.operation} ${where}: ${this.reason}: ${this.detail}`
  }

  /** Whether trying the same call again can help without anybody's doing. */
  get retryable(): boolean {
    return this.reason === "Throttled" || this.reason === "Timeout" || this.reason === "Unavailable" ||
      this.reason === "ResourceInUse" || this.reason === "Unknown"
  }
}
