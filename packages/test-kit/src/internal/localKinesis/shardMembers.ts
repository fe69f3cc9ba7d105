import type * as TestShard from "../testShard.js"
import type { Members } from "./format.js"

const rangeMembers = (shard: TestShard.TestShard): Members => ({
  StartingHashKey: `${shard.range.start}`,
  EndingHashKey: `${shard.range.end}`
})

/**
 * A shard in a list.
 *
 * @internal
 */
export const shardMembers = (shard: TestShard.TestShard): Members => ({
  ShardId: shard.shardId,
  ParentShardId: shard.parents[0],
  AdjacentParentShardId: shard.parents[1],
  HashKeyRange: rangeMembers(shard),
  SequenceNumberRange: {
    StartingSequenceNumber: shard.startingSequenceNumber,
    EndingSequenceNumber: shard.endingSequenceNumber
  }
})

/**
 * A shard that follows another one, in the last answer of that.
 *
 * @internal
 */
export const childMembers = (shard: TestShard.TestShard): Members => ({
  ShardId: shard.shardId,
  ParentShards: shard.parents,
  HashKeyRange: rangeMembers(shard)
})
