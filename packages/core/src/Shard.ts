/**
 * The shards of a stream and their lineage.
 *
 * @since 0.1.0
 */

/**
 * A shard as `ListShards` shows it. A split gives two shards one parent each, a merge gives one shard two parents.
 *
 * @since 0.1.0
 * @category models
 */
export interface Shard {
  /** For example `shardId-000000000002`. Unique within its stream only. */
  readonly shardId: string
  /** None, one or two. A parent that Kinesis no longer lists may still be named. */
  readonly parents: ReadonlyArray<string>
  /** The first and the last hash key of the shard, both included: decimal numbers from 0 to 2^128 - 1. */
  readonly hashKeyRange: { readonly start: string; readonly end: string }
  /** A closed shard takes no more records. It may still hold unread ones. */
  readonly closed: boolean
}
