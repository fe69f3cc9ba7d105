/** Splits and merges the shards of a stream while it is read. */
import * as Sdk from "@aws-sdk/client-kinesis"
import { Array, Data, Effect, Order } from "effect"
import * as Kinesis from "./kinesis.js"
import { shardLabel } from "./report.js"

/** The stream has no shards that could be split or merged. */
export class NoSuchShards extends Data.TaggedError("NoSuchShards")<{ readonly stream: string }> {
  override get message(): string {
    return `${this.stream} does not have the shards to be resharded`
  }
}

/** Splits the open shard with the lowest hash keys in the middle, and says which one it was. */
export const split = (
  stream: string
): Effect.Effect<string, Kinesis.KinesisFailed | NoSuchShards, Kinesis.Kinesis> =>
  Effect.gen(function*() {
    const { use } = yield* Kinesis.Kinesis
    const [shard] = yield* openShards(stream)
    if (shard === undefined) return yield* new NoSuchShards({ stream })
    yield* use("SplitShard", (client, abort) =>
      client.send(
        new Sdk.SplitShardCommand({
          StreamName: stream,
          ShardToSplit: shard.shardId,
          NewStartingHashKey: `${(shard.start + shard.end + 1n) / 2n}`
        }),
        abort
      ))
    return shardLabel(shard)
  })

/** Merges the two open shards with the highest hash keys, and says which they were. */
export const merge = (
  stream: string
): Effect.Effect<string, Kinesis.KinesisFailed | NoSuchShards, Kinesis.Kinesis> =>
  Effect.gen(function*() {
    const { use } = yield* Kinesis.Kinesis
    const [left, right] = (yield* openShards(stream)).slice(-2)
    if (left === undefined || right === undefined) return yield* new NoSuchShards({ stream })
    yield* use("MergeShards", (client, abort) =>
      client.send(
        new Sdk.MergeShardsCommand({
          StreamName: stream,
          ShardToMerge: left.shardId,
          AdjacentShardToMerge: right.shardId
        }),
        abort
      ))
    return `${shardLabel(left)} and ${shardLabel(right)}`
  })

/** In the order of their hash keys, so that neighbours are adjacent. Waits for an earlier change to be done. */
const openShards = (stream: string) =>
  Effect.gen(function*() {
    const { use } = yield* Kinesis.Kinesis
    yield* Kinesis.untilActive(stream)
    const { Shards = [] } = yield* use("ListShards", (client, abort) =>
      client.send(new Sdk.ListShardsCommand({ StreamName: stream }), abort))
    const open = Shards.filter(({ SequenceNumberRange }) =>
      SequenceNumberRange?.EndingSequenceNumber === undefined
    )
    return Array.sort(
      open.map(({ HashKeyRange, ShardId = "" }) => ({
        stream,
        shardId: ShardId,
        start: BigInt(HashKeyRange?.StartingHashKey ?? 0),
        end: BigInt(HashKeyRange?.EndingHashKey ?? 0)
      })),
      Order.mapInput(Order.bigint, ({ start }: { readonly start: bigint }) => start)
    )
  })
