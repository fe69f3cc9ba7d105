import type { TestShard } from "../testShard.js"
import type { TestStream } from "../testStream.js"

/**
 * Which shards a list is about, as `ListShards` names it.
 *
 * @internal
 */
export interface ShardFilter {
  readonly type:
    | "AFTER_SHARD_ID"
    | "AT_TRIM_HORIZON"
    | "FROM_TRIM_HORIZON"
    | "AT_LATEST"
    | "AT_TIMESTAMP"
    | "FROM_TIMESTAMP"
  readonly shardId?: string | undefined
  /** In milliseconds. */
  readonly time?: number | undefined
}

/** A shard opens when its parents close. One whose parents have vanished was there before all that is left. */
const openedAt = (stream: TestStream, shard: TestShard): number =>
  Math.max(stream.createdAt, ...shard.parents.map((parent) => stream.shards.get(parent)?.closedAt ?? stream.createdAt))

const openAt = (stream: TestStream, shard: TestShard, time: number): boolean =>
  openedAt(stream, shard) <= time && (shard.closedAt === undefined || shard.closedAt > time)

/** @internal */
export const includes = (filter: ShardFilter, stream: TestStream, now: number): (shard: TestShard) => boolean => {
  const { shardId = "", time = 0, type } = filter
  const horizon = Math.max(stream.createdAt, now - stream.retention)
  switch (type) {
    case "AFTER_SHARD_ID":
      return (shard) => shard.shardId > shardId
    case "AT_TRIM_HORIZON":
      return (shard) => openAt(stream, shard, horizon)
    case "FROM_TRIM_HORIZON":
      return () => true
    case "AT_LATEST":
      return (shard) => shard.closedAt === undefined
    case "AT_TIMESTAMP":
      return (shard) => openAt(stream, shard, Math.max(time, horizon))
    case "FROM_TIMESTAMP":
      return (shard) => shard.closedAt === undefined || shard.closedAt > time
  }
}

/** @internal */
export const toFields = ({ shardId = "", time = 0, type }: ShardFilter): ReadonlyArray<string | number> => [
  type,
  shardId,
  time
]

const types: ReadonlyArray<ShardFilter["type"]> = [
  "AFTER_SHARD_ID",
  "AT_TRIM_HORIZON",
  "FROM_TRIM_HORIZON",
  "AT_LATEST",
  "AT_TIMESTAMP",
  "FROM_TIMESTAMP"
]

/** @internal */
export const fromFields = (fields: ReadonlyArray<string>): ShardFilter | undefined => {
  const type = types.find((type) => type === fields[0])
  return type === undefined ? undefined : { type, shardId: fields[1], time: Number(fields[2]) }
}
