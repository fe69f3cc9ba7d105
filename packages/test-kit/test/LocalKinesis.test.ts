/** The local Kinesis as the AWS SDK sees it, unmodified, in each protocol that it speaks. */
import * as Sdk from "@aws-sdk/client-kinesis"
import { assert, describe, it } from "@effect/vitest"
import { LocalKinesis } from "@kinesumer/test-kit"
import { Array, Effect, Fiber, Option, Stream } from "effect"
import { connect, protocols, region } from "./utils/sdk.js"

const collect = (events: AsyncIterable<Sdk.SubscribeToShardEventStream> | undefined) =>
  (events === undefined ? Stream.empty : Stream.fromAsyncIterable(events, (error) => error)).pipe(
    Stream.filterMap(({ SubscribeToShardEvent }) => Option.fromNullable(SubscribeToShardEvent)),
    Stream.runCollect,
    Effect.map(Array.fromIterable)
  )

const bytes = (text: string) => new TextEncoder().encode(text)

for (const [name, configure] of protocols) {
  describe(name, () => {
    it.scopedLive("puts and reads records", () =>
      Effect.gen(function*() {
        const { endpoint } = yield* LocalKinesis.make({ limits: false })
        const call = yield* connect(endpoint, configure)
        yield* call((client) => client.send(new Sdk.CreateStreamCommand({ StreamName: "orders", ShardCount: 1 })))
        const { StreamDescriptionSummary: summary } = yield* call((client) =>
          client.send(new Sdk.DescribeStreamSummaryCommand({ StreamName: "orders" }))
        )
        assert.strictEqual(summary?.StreamStatus, "ACTIVE")
        assert.closeTo(summary?.StreamCreationTimestamp?.getTime() ?? 0, Date.now(), 5_000)
        const put = yield* call((client) =>
          client.send(new Sdk.PutRecordCommand({ StreamName: "orders", PartitionKey: "é", Data: bytes("one") }))
        )
        const many = yield* call((client) =>
          client.send(
            new Sdk.PutRecordsCommand({
              StreamName: "orders",
              Records: Array.makeBy(500, (n) => ({ PartitionKey: `key-${n}`, Data: bytes(`${n}`) }))
            })
          )
        )
        assert.strictEqual(many.FailedRecordCount, 0)
        const { ShardIterator } = yield* call((client) =>
          client.send(
            new Sdk.GetShardIteratorCommand({
              StreamName: "orders",
              ShardId: put.ShardId,
              ShardIteratorType: "AT_TIMESTAMP",
              Timestamp: new Date(Date.now() - 60_000)
            })
          )
        )
        const { MillisBehindLatest, NextShardIterator, Records } = yield* call((client) =>
          client.send(new Sdk.GetRecordsCommand({ ShardIterator }))
        )
        assert.strictEqual(MillisBehindLatest, 0)
        assert.isString(NextShardIterator)
        assert.lengthOf(Records ?? [], 501)
        const [first] = Records ?? []
        assert.strictEqual(first?.PartitionKey, "é")
        assert.strictEqual(first?.SequenceNumber, put.SequenceNumber)
        assert.closeTo(first?.ApproximateArrivalTimestamp?.getTime() ?? 0, Date.now(), 5_000)
        assert.deepStrictEqual(
          Records?.map(({ Data }) => new TextDecoder().decode(Data)),
          ["one", ...Array.makeBy(500, String)]
        )
      }))

    it.scopedLive("pushes records to a consumer, to the end of the shard", () =>
      Effect.gen(function*() {
        const { endpoint, kinesis } = yield* LocalKinesis.make({ streams: [{ name: "orders" }] })
        const call = yield* connect(endpoint, configure)
        const StreamARN = `arn:aws:kinesis:${region}:000000000000:stream/orders`
        yield* kinesis.put({ stream: "orders", partitionKey: "key", data: "one" })
        const { Consumer } = yield* call((client) =>
          client.send(new Sdk.RegisterStreamConsumerCommand({ StreamARN, ConsumerName: "reader" }))
        )
        assert.strictEqual(Consumer?.ConsumerStatus, "ACTIVE")
        const { EventStream } = yield* call((client) =>
          client.send(
            new Sdk.SubscribeToShardCommand({
              ConsumerARN: Consumer?.ConsumerARN,
              ShardId: "shardId-000000000000",
              StartingPosition: { Type: "TRIM_HORIZON" }
            })
          )
        )
        const events = yield* Effect.fork(collect(EventStream))
        yield* Effect.yieldNow()
        yield* kinesis.put({ stream: "orders", partitionKey: "key", data: "two" })
        yield* kinesis.split("orders", "shardId-000000000000")
        const all = yield* Fiber.join(events)
        const records = all.flatMap(({ Records = [] }) => Records)
        assert.deepStrictEqual(records.map(({ Data }) => new TextDecoder().decode(Data)), ["one", "two"])
        assert.closeTo(records[0]?.ApproximateArrivalTimestamp?.getTime() ?? 0, Date.now(), 5_000)
        const last = all.at(-1)
        assert.isUndefined(last?.ContinuationSequenceNumber)
        assert.deepStrictEqual(last?.ChildShards?.map(({ ParentShards, ShardId }) => [ShardId, ParentShards]), [
          ["shardId-000000000001", ["shardId-000000000000"]],
          ["shardId-000000000002", ["shardId-000000000000"]]
        ])
        assert.isTrue(all.slice(0, -1).every((event) => event.ContinuationSequenceNumber !== undefined))
      }))
  })
}
