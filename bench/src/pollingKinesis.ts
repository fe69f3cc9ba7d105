/** A Kinesis in memory with one stream, which is only polled: what its records are, each bench says itself. */
import { KinesisClient, type Shard } from "@kinesumer/core"
import { DateTime, Effect, Option, Stream } from "effect"

type Client = typeof KinesisClient.KinesisClient.Service

const lastHashKey = (1n << 128n) - 1n

const shardOf = (index: number, count: number): Shard.Shard => ({
  shardId: `shardId-${`${index}`.padStart(12, "0")}`,
  parents: [],
  hashKeyRange: {
    start: `${lastHashKey * BigInt(index) / BigInt(count)}`,
    end: `${lastHashKey * BigInt(index + 1) / BigInt(count)}`
  },
  closed: false
})

export const make = (
  { shards, stream, ...reading }:
    & { readonly stream: string; readonly shards: number }
    & Pick<Client, "getShardIterator" | "getRecords">
): Client => {
  const list = Array.from({ length: shards }, (_, index) => shardOf(index, shards))
  const createdAt = DateTime.unsafeMake(0)
  const none = Effect.dieMessage("nobody asks for consumers")
  return KinesisClient.KinesisClient.of({
    region: Effect.succeed("us-east-1"),
    describeStream: () =>
      Effect.map(DateTime.now, (answeredAt) => ({
        name: stream,
        arn: `arn:aws:kinesis:us-east-1:000000000000:stream/${stream}`,
        status: "ACTIVE",
        createdAt,
        answeredAt
      })),
    listShards: () => Effect.succeed({ shards: list, nextToken: Option.none() }),
    ...reading,
    registerConsumer: () => none,
    describeConsumer: () => none,
    listConsumers: () => none,
    deregisterConsumer: () => none,
    subscribeToShard: () => Stream.die("nobody subscribes")
  })
}
