/** The local Kinesis as the AWS SDK sees it, unmodified, in each protocol that it speaks. */
import * as Sdk from "@aws-sdk/client-kinesis"
import { AwsSmithyRpcV2CborProtocol } from "@aws-sdk/core/protocols"
import { assert, describe, it } from "@effect/vitest"
import { LocalKinesis } from "@kinesumer/test-kit"
import { NodeHttpHandler } from "@smithy/node-http-handler"
import { Array, Effect } from "effect"

const region = "us-east-1"
const credentials = { accessKeyId: "any", secretAccessKey: "any" }

const protocols: ReadonlyArray<readonly [string, Sdk.KinesisClientConfig]> = [
  ["JSON over HTTP/2", {}],
  ["JSON over HTTP/1.1", { requestHandler: new NodeHttpHandler() }],
  ["CBOR over HTTP/2", { protocol: AwsSmithyRpcV2CborProtocol }],
  ["CBOR over HTTP/1.1", { protocol: AwsSmithyRpcV2CborProtocol, requestHandler: new NodeHttpHandler() }]
]

const connect = (endpoint: string, config: Sdk.KinesisClientConfig = {}) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => new Sdk.KinesisClient({ endpoint, region, credentials, maxAttempts: 1, ...config })),
      (client) => Effect.sync(() => client.destroy())
    ),
    (client) => <A>(call: (client: Sdk.KinesisClient) => Promise<A>) => Effect.tryPromise(() => call(client))
  )

const bytes = (text: string) => new TextEncoder().encode(text)

for (const [name, config] of protocols) {
  describe(name, () => {
    it.scopedLive("puts and reads records", () =>
      Effect.gen(function*() {
        const { endpoint } = yield* LocalKinesis.make({ limits: false })
        const call = yield* connect(endpoint, config)
        yield* call((client) => client.send(new Sdk.CreateStreamCommand({ StreamName: "orders", ShardCount: 1 })))
        const { StreamDescriptionSummary: summary } = yield* call((client) =>
          client.send(new Sdk.DescribeStreamSummaryCommand({ StreamName: "orders" }))
        )
        assert.strictEqual(summary?.StreamStatus, "ACTIVE")
        assert.closeTo(summary.StreamCreationTimestamp?.getTime() ?? 0, Date.now(), 5_000)
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
        assert.strictEqual(first.SequenceNumber, put.SequenceNumber)
        assert.closeTo(first.ApproximateArrivalTimestamp?.getTime() ?? 0, Date.now(), 5_000)
        assert.deepStrictEqual(
          Records?.map(({ Data }) => new TextDecoder().decode(Data)),
          ["one", ...Array.makeBy(500, String)]
        )
      }))
  })
}
