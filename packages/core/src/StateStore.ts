/**
 * The state store keeps what a group must not forget: its members, the shard list, and for each shard the checkpoint
 * and the lease. Every operation is scoped by an app, so that one table serves many groups.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Option from "effect/Option"
import * as MemoryRows from "./internal/memoryRows.js"
import * as TableStateStore from "./internal/tableStateStore.js"
import type { Position } from "./Position.js"
import type { Shard } from "./Shard.js"
import type { MemberMissing, MemberReplaced, StateStoreError } from "./StateStoreError.js"

/**
 * One start of one member. A restart under the same `memberId` has another `incarnation`.
 *
 * @since 0.1.0
 * @category models
 */
export interface Owner {
  readonly memberId: string
  readonly incarnation: string
}

/**
 * The row of a member.
 *
 * @since 0.1.0
 * @category models
 */
export interface Member extends Owner {
  /** Grows with every heartbeat. A member whose counter stands still is dead to whoever watches it. */
  readonly heartbeat: number
  /** Grows each time this member, as leader, has refreshed the shard lists. */
  readonly refreshes: number
  /** The keys of the streams that it reads. */
  readonly streams: ReadonlyArray<string>
  /** The version of the assignment function that it computes with. */
  readonly assignVersion: number
}

/**
 * The row of a shard: the durable position, and beside it the lease.
 *
 * @since 0.1.0
 * @category models
 */
export interface Checkpoint {
  readonly shardId: string
  /** `none` while nothing was committed yet. */
  readonly position: Option.Option<Position>
  readonly owner: Option.Option<Owner>
  /** Grows by at least one with every change of owner and every renewal; 0 while there never was an owner. */
  readonly epoch: number
}

/**
 * The shard list of a stream, shared by the group. `version` grows by one with every write.
 *
 * @since 0.1.0
 * @category models
 */
export interface ShardList {
  readonly version: number
  /** When Kinesis created the stream, in milliseconds. A stream made again under its name has another. */
  readonly createdAt: number
  /** The stream key under which the checkpoints of this stream are kept. */
  readonly checkpointKey: string
  /** Where a shard without a checkpoint starts. Resolved once, so that it is never `Latest`. */
  readonly start: Position
  readonly shards: ReadonlyArray<Shard>
}

/**
 * Names a lease: a shard and the epoch under which it is held. `stream` is the checkpoint key of its stream.
 *
 * @since 0.1.0
 * @category models
 */
export interface Lease {
  readonly stream: string
  readonly shardId: string
  readonly epoch: number
}

/**
 * @since 0.1.0
 * @category models
 */
export interface LeaseRequest {
  readonly stream: string
  readonly shardId: string
  /**
   * The owner that was found and is dead, if any, with the epoch that it was found under: only from this one may the lease
   * be taken. An owner that came to life again has taken a later epoch, and keeps it.
   */
  readonly takeFrom: Option.Option<Owner & Pick<Checkpoint, "epoch">>
  /** The new epoch must be above this one, even if the lease is ours, or the row is gone or was restored from a backup. */
  readonly epochAbove: number
}

/**
 * - `Acquired`: the lease is ours. The row is as it stands now; its epoch is the one to commit under
 * - `Held`: it belongs to somebody else
 * - `Failed`: this one write failed; the others were not touched by it
 *
 * @since 0.1.0
 * @category models
 */
export type AcquireResult = Data.TaggedEnum<{
  readonly Acquired: { readonly checkpoint: Checkpoint }
  readonly Held: { readonly checkpoint: Checkpoint }
  readonly Failed: { readonly error: StateStoreError }
}>

/**
 * @since 0.1.0
 * @category constructors
 */
export const AcquireResult = Data.taggedEnum<AcquireResult>()

/**
 * - `Committed`: the row holds this position, or a later one that was written under this very lease
 * - `Lost`: the lease is no longer current; the row says who has it
 * - `Missing`: the row is not there
 * - `Failed`: this one write failed; the others were not touched by it
 *
 * @since 0.1.0
 * @category models
 */
export type CommitResult = Data.TaggedEnum<{
  readonly Committed: object
  readonly Lost: { readonly checkpoint: Checkpoint }
  readonly Missing: object
  readonly Failed: { readonly error: StateStoreError }
}>

/**
 * @since 0.1.0
 * @category constructors
 */
export const CommitResult = Data.taggedEnum<CommitResult>()

/**
 * The contract of a state store. All reads are as fresh as the last write that was answered, and a write whose answer
 * was lost is resolved by reading the row back: our own write is a success.
 *
 * A stream is an opaque key to the store, and lists have any length: pages, batches and size limits are its business.
 * Passing faults are retried inside, with jitter and for at most a few seconds; what is left fails with a
 * `StateStoreError`.
 *
 * @since 0.1.0
 * @category context
 */
export class StateStore extends Context.Tag("@kinesumer/core/StateStore")<StateStore, {
  /** Writes the row of a member, in place of any earlier incarnation's. */
  readonly registerMember: (app: string, member: Member) => Effect.Effect<void, StateStoreError>

  /** Rewrites the row of a member while it is its own. */
  readonly heartbeat: (
    app: string,
    member: Member
  ) => Effect.Effect<void, StateStoreError | MemberMissing | MemberReplaced>

  /** Removes the row of a member. One that is gone or another's is left alone, and that is no error. */
  readonly deregisterMember: (app: string, member: Owner) => Effect.Effect<void, StateStoreError>

  readonly listMembers: (app: string) => Effect.Effect<ReadonlyArray<Member>, StateStoreError>

  /** Removes dead members, each only if its row is still the one that was seen (incarnation and heartbeat). */
  readonly pruneMembers: (app: string, members: ReadonlyArray<Member>) => Effect.Effect<void, StateStoreError>

  /** The version of every shard list of the app, by stream key, in one cheap read. */
  readonly listShardVersions: (app: string) => Effect.Effect<ReadonlyMap<string, number>, StateStoreError>

  readonly getShards: (app: string, stream: string) => Effect.Effect<Option.Option<ShardList>, StateStoreError>

  /**
   * Writes a shard list if the stored version is still `list.version - 1` (0 where there is none); `false` if another
   * writer came first.
   */
  readonly updateShards: (app: string, stream: string, list: ShardList) => Effect.Effect<boolean, StateStoreError>

  /** All rows of a stream. */
  readonly listCheckpoints: (
    app: string,
    stream: string
  ) => Effect.Effect<ReadonlyArray<Checkpoint>, StateStoreError>

  /**
   * Asks for leases, one conditional write each; answers stand in the order of the requests. A lease is granted where
   * the row is missing or without an owner, is already held by this owner, by an earlier incarnation of it, or by
   * `takeFrom`. The epoch grows above the row's and above `epochAbove`; only a lease that this owner holds under an epoch
   * above `epochAbove` stays as it is. The position is not touched.
   */
  readonly acquireLeases: (
    app: string,
    owner: Owner,
    requests: ReadonlyArray<LeaseRequest>
  ) => Effect.Effect<ReadonlyArray<AcquireResult>, StateStoreError>

  /** Gives leases back. One that is no longer ours is left alone, and that is no error. */
  readonly releaseLeases: (
    app: string,
    owner: Owner,
    leases: ReadonlyArray<Lease>
  ) => Effect.Effect<void, StateStoreError>

  /**
   * Writes positions, each only under its current lease (owner and epoch) and never backwards; answers stand in the
   * order of the commits. Committing `ShardEnd` gives the lease back in the same write, and no write replaces it.
   */
  readonly commitCheckpoints: (
    app: string,
    owner: Owner,
    commits: ReadonlyArray<Lease & { readonly position: Position }>
  ) => Effect.Effect<ReadonlyArray<CommitResult>, StateStoreError>

  /** Removes rows that nobody owns, and says which ones it removed, as they were. */
  readonly removeCheckpoints: (
    app: string,
    stream: string,
    shardIds: ReadonlyArray<string>
  ) => Effect.Effect<ReadonlyArray<Checkpoint>, StateStoreError>
}>() {}

/**
 * A store in memory that keeps the whole contract: it grants a lease to one owner only, fences commits, and never moves
 * a position backwards. For tests, and for groups of one process that need not remember anything. Each one that is
 * made is a store of its own; members share one by sharing its layer.
 *
 * @since 0.1.0
 * @category constructors
 */
export const makeMemory: Effect.Effect<StateStore["Type"]> = Effect.map(
  Effect.all({
    members: MemoryRows.make<Member>(),
    shardLists: MemoryRows.make<ShardList>(),
    checkpoints: MemoryRows.make<Checkpoint>()
  }),
  TableStateStore.make
)

/**
 * Provides `makeMemory`.
 *
 * @since 0.1.0
 * @category layers
 * @example
 * import { KinesisClient, Kinesumer, StateStore } from "@kinesumer/core"
 * import { Layer } from "effect"
 *
 * export const KinesumerLive = Kinesumer.layer({ app: "orders", streams: ["orders"] }).pipe(
 *   Layer.provide(KinesisClient.layer({ region: "ap-northeast-2" })),
 *   Layer.provide(StateStore.layerMemory)
 * )
 */
export const layerMemory: Layer.Layer<StateStore> = Layer.effect(StateStore, makeMemory)
