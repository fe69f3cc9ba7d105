/**
 * What a group tells of itself: every change of the assignment, every retry, every loss.
 *
 * @since 0.1.0
 */
import type * as Cause from "effect/Cause"
import * as Data from "effect/Data"
import type * as Duration from "effect/Duration"
import type { KinesisError } from "./KinesisError.js"
import type { Position } from "./Position.js"
import type { MemberMissing, MemberReplaced, StateStoreError } from "./StateStoreError.js"

/**
 * @since 0.1.0
 * @category models
 */
export interface ShardName {
  /** The stream, as it was configured. */
  readonly stream: string
  readonly shardId: string
}

/**
 * @since 0.1.0
 * @category models
 */
export interface RecordName extends ShardName {
  readonly sequenceNumber: string
  readonly subSequenceNumber: number | undefined
}

/**
 * - `AssignmentChanged`: a sync published an assignment that starts or stops something
 * - `LeaseLost`: a shard was stopped because its lease is somebody else's
 * - `LeaseRestored`: the lease of a running shard was acquired anew under a later epoch: its row had vanished, or others
 *   may have taken this member for dead
 * - `ShardEnded`: a closed shard was read, processed and committed to its end
 * - `RecordsLost`: records between the committed position and the oldest one left may be lost. `Refused`: Kinesis no
 *   longer accepts the position, reading goes on at `TrimHorizon`. `ShardGone`: the whole shard is no longer there
 * - `OutOfRangeDropped`: parts of aggregates were dropped because their hash keys belong to other shards
 *   (`aggregation.outOfRange`); told once for an answer of Kinesis, and again where that is read again
 * - `RecordSkipped`: a record counts as processed although it could not be (`skip`, or `onInvalid: "skip"` of
 *   `Payload.decode`)
 * - `StreamRecreated`: the stream is another one than the stored positions belong to; it is read from its beginning
 * - `Retrying`: a call failed and is tried again after `delay`
 * - `CommitFailed`: marks could not be written; they are written with the next commit
 * - `SyncFailed`: a sync changed nothing; the previous assignment goes on
 * - `HeartbeatFailed`: the member could not tell that it lives
 * - `DeliverySuspended`: nothing is delivered, because the leases may be somebody else's by now, until they are
 *   verified (`DeliveryResumed`)
 * - `MemberRegisteredAgain`: the row of this member had vanished
 * - `LoopFailed`: a background loop met a defect and goes on with its next round
 * - `HandlerFailed`: an attempt to handle a record, or a batch that begins with it, failed
 * - `DeadLettered`: a record failed for the last time, and the dead-letter effect has taken care of it
 * - `ProtocolFallback`: the server does not speak CBOR, so records are asked for in JSON (`protocol` of `KinesisClient`)
 * - `CloseIncomplete`: a step of closing could not be done in time
 *
 * @since 0.1.0
 * @category models
 */
export type KinesumerEvent = Data.TaggedEnum<{
  readonly AssignmentChanged: {
    readonly acquired: ReadonlyArray<ShardName>
    readonly released: ReadonlyArray<ShardName>
    readonly shards: number
  }
  readonly LeaseLost: ShardName & { readonly epoch: number }
  readonly LeaseRestored: ShardName & { readonly epoch: number }
  readonly ShardEnded: ShardName
  readonly RecordsLost: ShardName & { readonly position: Position; readonly reason: "Refused" | "ShardGone" }
  readonly OutOfRangeDropped: ShardName & { readonly records: number }
  readonly RecordSkipped: ShardName & {
    readonly sequenceNumber: string
    readonly subSequenceNumber: number | undefined
    readonly cause: unknown
  }
  readonly StreamRecreated: { readonly stream: string; readonly createdAt: number }
  readonly Retrying: {
    readonly operation: string
    readonly stream: string
    readonly shardId: string | undefined
    readonly attempt: number
    readonly delay: Duration.Duration
    readonly error: KinesisError | StateStoreError
  }
  readonly CommitFailed: { readonly shards: ReadonlyArray<ShardName>; readonly error: StateStoreError }
  readonly SyncFailed: { readonly error: KinesisError | StateStoreError }
  readonly HeartbeatFailed: { readonly error: StateStoreError | MemberMissing | MemberReplaced }
  readonly DeliverySuspended: object
  readonly DeliveryResumed: object
  readonly MemberRegisteredAgain: object
  readonly LoopFailed: { readonly loop: string; readonly cause: Cause.Cause<unknown> }
  readonly HandlerFailed: RecordName & { readonly attempt: number; readonly error: unknown }
  readonly DeadLettered: RecordName & { readonly attempts: number; readonly error: unknown }
  readonly ProtocolFallback: { readonly error: KinesisError }
  readonly CloseIncomplete: { readonly step: string; readonly cause: Cause.Cause<unknown> }
}>

/**
 * @since 0.1.0
 * @category constructors
 */
export const {
  $is: is,
  $match: match,
  AssignmentChanged,
  CloseIncomplete,
  CommitFailed,
  DeadLettered,
  DeliveryResumed,
  DeliverySuspended,
  HandlerFailed,
  HeartbeatFailed,
  LeaseLost,
  LeaseRestored,
  LoopFailed,
  MemberRegisteredAgain,
  OutOfRangeDropped,
  ProtocolFallback,
  RecordSkipped,
  RecordsLost,
  Retrying,
  ShardEnded,
  StreamRecreated,
  SyncFailed
} = Data.taggedEnum<KinesumerEvent>()
