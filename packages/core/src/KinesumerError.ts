/**
 * What can go wrong in a group, beside `KinesisError` and `StateStoreError`.
 *
 * @since 0.1.0
 */
import * as Data from "effect/Data"
import type { KinesisError } from "./KinesisError.js"
import type { KinesumerRecord } from "./KinesumerRecord.js"
import type { MemberReplaced, StateStoreError } from "./StateStoreError.js"

/**
 * A value of the configuration is wrong. Nothing was registered yet.
 *
 * @since 0.1.0
 * @category errors
 */
export class InvalidConfig extends Data.TaggedError("InvalidConfig")<{
  /** The path of the field, for example `polling.limit`. */
  readonly field: string
  readonly value: unknown
  /** What is allowed, in words. */
  readonly allowed: string
}> {
  override get message(): string {
    return `${this.field} is ${describe(this.value)}, but it must be ${this.allowed}`
  }
}

const describe = (value: unknown): string => {
  switch (typeof value) {
    case "string":
      return `"${value}"`
    case "object":
      return JSON.stringify(value)
    default:
      return String(value)
  }
}

/**
 * The lease of a shard is no longer this member's (or no longer of this epoch): what is marked under it moves nothing.
 * Another member, or the same one under a later epoch, delivers the record again.
 *
 * @since 0.1.0
 * @category errors
 */
export class LeaseLost extends Data.TaggedError("LeaseLost")<{
  readonly stream: string
  readonly shardId: string
  /** The epoch that is over. */
  readonly epoch: number
}> {
  override get message(): string {
    return `The lease of ${this.stream}/${this.shardId} under epoch ${this.epoch} is over; ` +
      `its unprocessed records are delivered again by the next owner`
  }
}

/**
 * Only one run of `records`, `shards` or `process` at a time: two would share the records of a shard between them.
 *
 * @since 0.1.0
 * @category errors
 */
export class AlreadyRunning extends Data.TaggedError("AlreadyRunning")<{
  readonly view: "records" | "shards" | "process"
}> {
  override get message(): string {
    return `A run of "${this.view}" is under way in this member. End it first, or use "shards" to read in parallel`
  }
}

/**
 * The data of a record are not what they were said to be.
 *
 * - `Invalid`: they are not of the schema. The `cause` is its `ParseError`, whose message shows what was found: payloads
 *   that are secret do not belong into a log with it
 * - `Compression`: they are not compressed in the format that was said, or not whole
 * - `TooLarge`: they hold more than `maxBytes`
 *
 * @since 0.1.0
 * @category errors
 */
export class DecodeError extends Data.TaggedError("DecodeError")<{
  readonly record: KinesumerRecord
  readonly reason: "Invalid" | "Compression" | "TooLarge"
  readonly cause: Error
}> {
  override get message(): string {
    const { sequenceNumber, shardId, stream, subSequenceNumber } = this.record
    const part = subSequenceNumber === undefined ? "" : `, part ${subSequenceNumber}`
    return `Record ${sequenceNumber}${part} of ${stream}/${shardId} does not decode (${this.reason}): ` +
      this.cause.message
  }
}

/**
 * This Node.js cannot read what is compressed so.
 *
 * @since 0.1.0
 * @category errors
 */
export class UnsupportedCompression extends Data.TaggedError("UnsupportedCompression")<{
  readonly compression: string
  /** The version of Node.js. */
  readonly node: string
}> {
  override get message(): string {
    return `Node.js ${this.node} has no codec for ${this.compression}: it needs 22.15, or 23.8 and later`
  }
}

/**
 * What can fail while a member starts, and `refresh`.
 *
 * @since 0.1.0
 * @category errors
 */
export type StartError = InvalidConfig | KinesisError | StateStoreError

/**
 * What ends `records` and `shards`: only what needs a person. Everything else is tried again and told.
 *
 * @since 0.1.0
 * @category errors
 */
export type ConsumeError = AlreadyRunning | KinesisError | StateStoreError | MemberReplaced

/**
 * @since 0.1.0
 * @category errors
 */
export type CommitError = LeaseLost | StateStoreError
