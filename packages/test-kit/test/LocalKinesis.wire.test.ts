/** The local Kinesis as raw requests see it: the CBOR of the SDK for Java, errors, and what is no request at all. */
import { assert, describe, it, vi } from "@effect/vitest"
import { LocalKinesis } from "@kinesumer/test-kit"
import { cbor, tag } from "@smithy/core/cbor"
import { Effect, FastCheck } from "effect"
import { connect } from "node:net"

interface Answer {
  readonly status: number
  readonly contentType: string | null
  readonly body: Uint8Array
}

const post = (
  endpoint: string,
  headers: Readonly<Record<string, string>>,
  body: Uint8Array | string,
  path = "/"
): Effect.Effect<Answer> =>
  Effect.promise(async (signal) => {
    const response = await fetch(`${endpoint}${path}`, { method: "POST", headers, body, signal })
    return {
      status: response.status,
      contentType: response.headers.get("content-type"),
      body: new Uint8Array(await response.arrayBuffer())
    }
  })

/** What of an answer is looked at here. */
interface Body {
  readonly __type?: string
  readonly message?: string
  readonly ShardId?: string
  readonly SequenceNumber?: string
  readonly ShardIterator?: string
  readonly NextShardIterator?: string
  readonly NextToken?: string
  readonly FailedRecordCount?: number
  readonly Records?: ReadonlyArray<{
    readonly Data?: Uint8Array
    readonly SequenceNumber?: string
    readonly ErrorCode?: string
    readonly ApproximateArrivalTimestamp?: { readonly tag: number; readonly value: number }
  }>
  readonly Shards?: ReadonlyArray<{ readonly ShardId: string }>
  readonly ChildShards?: ReadonlyArray<{ readonly ShardId: string }>
}

const target = (operation: string) => ({ "x-amz-target": `Kinesis_20131202.${operation}` })
const jsonType = { "content-type": "application/x-amz-json-1.1" }
const cborType = { "content-type": "application/x-amz-cbor-1.1" }

const askJson = (endpoint: string, operation: string, input: unknown) =>
  Effect.map(
    post(endpoint, { ...jsonType, ...target(operation) }, JSON.stringify(input)),
    ({ body, status }) => ({ status, body: JSON.parse(Buffer.from(body).toString()) as Body })
  )

const askCbor = (endpoint: string, operation: string, input: unknown) =>
  Effect.map(
    post(endpoint, { ...cborType, ...target(operation) }, cbor.serialize(input)),
    ({ body, contentType, status }) => ({ status, contentType, body: cbor.deserialize(body) as Body })
  )

const idsOf = (shards: Body["Shards"]) => shards?.map(({ ShardId }) => ShardId)

const shard = (index: number) => `shardId-${`${index}`.padStart(12, "0")}`
const mebibyte = 1024 * 1024
const blank = (size: number) => Buffer.alloc(size).toString("base64")
const arn = "arn:aws:kinesis:us-east-1:000000000000:stream/orders"

describe("CBOR of the SDK for Java", () => {
  it.scopedLive("has times in milliseconds, tagged or not, and binary data as it is", () =>
    Effect.gen(function*() {
      const { endpoint } = yield* LocalKinesis.make({ streams: [{ name: "orders" }] })
      const before = Date.now()
      const data = Uint8Array.of(0, 255, 10)
      const put = yield* askCbor(endpoint, "PutRecord", { StreamName: "orders", PartitionKey: "key", Data: data })
      assert.strictEqual(put.status, 200)
      assert.strictEqual(put.contentType, "application/x-amz-cbor-1.1")
      for (const time of [before - 1000, tag({ tag: 1, value: before - 1000 })]) {
        const { body: { ShardIterator } } = yield* askCbor(endpoint, "GetShardIterator", {
          StreamName: "orders",
          ShardId: put.body.ShardId,
          ShardIteratorType: "AT_TIMESTAMP",
          Timestamp: time
        })
        const { body: { Records } } = yield* askCbor(endpoint, "GetRecords", { ShardIterator })
        assert.lengthOf(Records ?? [], 1)
        const [record] = Records ?? []
        assert.deepStrictEqual(new Uint8Array(record?.Data ?? []), data)
        assert.strictEqual(record?.SequenceNumber, put.body.SequenceNumber)
        assert.strictEqual(record?.ApproximateArrivalTimestamp?.tag, 1)
        assert.closeTo(record?.ApproximateArrivalTimestamp?.value ?? 0, before, 5_000)
      }
      const missing = yield* askCbor(endpoint, "DescribeStream", { StreamName: "none" })
      assert.strictEqual(missing.status, 400)
      assert.strictEqual(missing.body.__type, "ResourceNotFoundException")
    }))
})

describe("errors", () => {
  it.scopedLive("are named as AWS names them", () =>
    Effect.gen(function*() {
      const { endpoint, kinesis } = yield* LocalKinesis.make({ streams: [{ name: "orders" }] })
      const iterator = yield* askJson(endpoint, "GetShardIterator", {
        StreamName: "orders",
        ShardId: shard(0),
        ShardIteratorType: "TRIM_HORIZON"
      })
      const { ShardIterator } = iterator.body
      const cases: ReadonlyArray<readonly [operation: string, input: unknown, code: string]> = [
        ["DescribeStream", { StreamName: "none" }, "ResourceNotFoundException"],
        ["DescribeStream", {}, "InvalidArgumentException"],
        ["DescribeStream", { StreamName: "with space" }, "ValidationException"],
        ["DescribeStream", { StreamName: "long".repeat(1000) }, "ValidationException"],
        ["DescribeStream", { StreamName: 1 }, "SerializationException"],
        ["CreateStream", { StreamName: "orders", ShardCount: 1 }, "ResourceInUseException"],
        ["CreateStream", { StreamName: "none", ShardCount: 10_001 }, "LimitExceededException"],
        [
          "GetShardIterator",
          { StreamName: "orders", ShardId: shard(0), ShardIteratorType: "NEWEST" },
          "ValidationException"
        ],
        ["CreateStream", { ShardCount: 1 }, "ValidationException"],
        ["GetRecords", { ShardIterator: "none" }, "InvalidArgumentException"],
        ["GetRecords", { ShardIterator, Limit: 10_001 }, "ValidationException"],
        ["PutRecord", { StreamName: "orders", PartitionKey: "key", Data: "!" }, "SerializationException"],
        ["PutRecords", { StreamName: "orders", Records: [] }, "ValidationException"],
        [
          "PutRecord",
          { StreamName: "orders", PartitionKey: "key", Data: blank(10 * mebibyte + 3) },
          "ValidationException"
        ],
        [
          "PutRecords",
          {
            StreamName: "orders",
            // Without its keys, this call would be small enough.
            Records: Array.from({ length: 2 }, () => ({ PartitionKey: "key", Data: blank(5 * mebibyte - 2) }))
          },
          "InvalidArgumentException"
        ],
        [
          "SplitShard",
          { StreamName: "orders", ShardToSplit: shard(0), NewStartingHashKey: "0" },
          "InvalidArgumentException"
        ],
        [
          "MergeShards",
          { StreamName: "orders", ShardToMerge: shard(0), AdjacentShardToMerge: shard(7) },
          "ResourceNotFoundException"
        ],
        [
          "UpdateShardCount",
          { StreamName: "orders", TargetShardCount: 3, ScalingType: "UNIFORM_SCALING" },
          "InvalidArgumentException"
        ],
        [
          "IncreaseStreamRetentionPeriod",
          { StreamName: "orders", RetentionPeriodHours: 23 },
          "InvalidArgumentException"
        ],
        ["ListShards", { NextToken: "none" }, "InvalidArgumentException"],
        ["DescribeStreamConsumer", { StreamARN: arn, ConsumerName: "none" }, "ResourceNotFoundException"],
        ["SubscribeToShard", {
          ConsumerARN: `${arn}/consumer/none:1`,
          ShardId: shard(0),
          StartingPosition: { Type: "LATEST" }
        }, "ResourceNotFoundException"],
        ["NoSuchOperation", {}, "UnknownOperationException"]
      ]
      for (const [operation, input, code] of cases) {
        const { body, status } = yield* askJson(endpoint, operation, input)
        assert.deepStrictEqual([operation, body.__type, status], [operation, code, 400])
        assert.isAtMost(body.message?.length ?? Infinity, 1003)
      }
      yield* kinesis.expireIterators
      const expired = yield* askJson(endpoint, "GetRecords", { ShardIterator })
      assert.strictEqual(expired.body.__type, "ExpiredIteratorException")
      const calls = yield* Effect.replicateEffect(
        askJson(endpoint, "GetShardIterator", {
          StreamName: "orders",
          ShardId: shard(0),
          ShardIteratorType: "LATEST"
        }),
        6
      )
      assert.strictEqual(calls.at(-1)?.body.__type, "ProvisionedThroughputExceededException")
    }))

  it.scopedLive("refuse some records of a call and take the others", () =>
    Effect.gen(function*() {
      const { endpoint } = yield* LocalKinesis.make({ streams: [{ name: "orders" }] })
      const record = { PartitionKey: "key", Data: "AAAA" }
      const input = { StreamName: "orders", Records: Array.from({ length: 400 }, () => record) }
      const answers = yield* Effect.replicateEffect(askJson(endpoint, "PutRecords", input), 3)
      assert.deepStrictEqual(answers.map(({ body }) => body.FailedRecordCount), [0, 0, 200])
      const last = answers.at(-1)?.body.Records
      assert.isString(last?.[0]?.SequenceNumber)
      assert.strictEqual(last?.[399]?.ErrorCode, "ProvisionedThroughputExceededException")
    }))
})

describe("the end of a shard", () => {
  it.scopedLive("is the answer without a next iterator, and names the children", () =>
    Effect.gen(function*() {
      const { endpoint, kinesis } = yield* LocalKinesis.make({ limits: false, streams: [{ name: "orders" }] })
      yield* kinesis.put({ stream: "orders", partitionKey: "key", data: "last" })
      yield* kinesis.split("orders", shard(0))
      const { body: { ShardIterator } } = yield* askJson(endpoint, "GetShardIterator", {
        StreamName: "orders",
        ShardId: shard(0),
        ShardIteratorType: "TRIM_HORIZON"
      })
      const { body } = yield* askJson(endpoint, "GetRecords", { ShardIterator })
      assert.lengthOf(body.Records ?? [], 1)
      assert.isUndefined(body.NextShardIterator)
      assert.deepStrictEqual(idsOf(body.ChildShards), [shard(1), shard(2)])
    }))
})

describe("lists", () => {
  it.scopedLive("go on with the same filter, page by page", () =>
    Effect.gen(function*() {
      const { endpoint, kinesis } = yield* LocalKinesis.make({ streams: [{ name: "orders", shards: 5 }] })
      yield* kinesis.split("orders", shard(2))
      const input = { StreamName: "orders", MaxResults: 4, ShardFilter: { Type: "AT_LATEST" } }
      const first = yield* askJson(endpoint, "ListShards", input)
      const second = yield* askJson(endpoint, "ListShards", { NextToken: first.body.NextToken })
      assert.deepStrictEqual(
        [first, second].map(({ body }) => idsOf(body.Shards)),
        [[0, 1, 3, 4].map(shard), [5, 6].map(shard)]
      )
      assert.isUndefined(second.body.NextToken)
    }))
})

describe("garbage", () => {
  const raw = (port: number, bytes: Uint8Array) =>
    Effect.async<void>((resume) => {
      const socket = connect(port, "127.0.0.1", () => socket.end(bytes))
      socket.resume().on("error", () => {}).on("close", () => resume(Effect.void))
      return Effect.sync(() => socket.destroy())
    })

  const operations = ["GetRecords", "PutRecords", "SubscribeToShard", "ListShards", "CreateStream", "none"]

  it.scopedLive("is refused, and the server goes on", () =>
    Effect.gen(function*() {
      const { endpoint, port } = yield* LocalKinesis.make({ streams: [{ name: "orders" }] })
      const warn = yield* Effect.acquireRelease(
        Effect.sync(() => vi.spyOn(console, "warn")),
        (spy) => Effect.sync(() => spy.mockRestore())
      )
      const bodies = FastCheck.sample(FastCheck.uint8Array({ maxLength: 200 }), { numRuns: 150, seed: 7 })
      const values = FastCheck.sample(FastCheck.object({ maxDepth: 3 }), { numRuns: 50, seed: 7 })
      for (const [index, body] of [...bodies, ...values.map((value) => Buffer.from(JSON.stringify(value)))].entries()) {
        const operation = operations[index % operations.length] ?? ""
        const answers = yield* Effect.all([
          post(endpoint, { ...jsonType, ...target(operation) }, body),
          post(endpoint, { ...cborType, ...target(operation) }, body),
          post(
            endpoint,
            { "smithy-protocol": "rpc-v2-cbor" },
            body,
            `/service/Kinesis_20131202/operation/${operation}`
          ),
          post(endpoint, { "content-type": "text/plain" }, body)
        ])
        for (const { status } of answers) assert.isTrue(status >= 400 && status < 500, `${operation}: ${status}`)
      }
      const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
      for (const body of bodies.slice(0, 50)) {
        yield* raw(port, body)
        yield* raw(port, Buffer.concat([preface, body]))
        yield* raw(port, preface.subarray(0, body.length % preface.length))
      }
      const { status } = yield* askJson(endpoint, "DescribeStream", { StreamName: "orders" })
      assert.strictEqual(status, 200)
      assert.lengthOf(warn.mock.calls, 0, "a decoder prints what it thinks of the garbage")
    }))

  it.scopedLive("a taken port is told", () =>
    Effect.gen(function*() {
      const { port } = yield* LocalKinesis.make()
      const error = yield* Effect.flip(LocalKinesis.make({ port }))
      assert.strictEqual(error.reason, "StartFailed")
      assert.include(error.message, `${port}`)
    }))
})
