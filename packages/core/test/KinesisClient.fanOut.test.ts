import { assert, describe, it } from "@effect/vitest"
// That of `assert` takes `some` and `none` for equal.
import { deepStrictEqual } from "@effect/vitest/utils"
import * as KinesisClient from "@kinesumer/core/KinesisClient"
import type { KinesisErrorReason } from "@kinesumer/core/KinesisError"
import * as Position from "@kinesumer/core/Position"
import { Chunk, Context, DateTime, Effect, Fiber, Layer, Option, Stream } from "effect"
import type { ServerResponse } from "node:http"
import { trusting } from "./utils/certificate.js"
import * as Stub from "./utils/stubKinesis.js"
import * as StubSubscriptions from "./utils/stubSubscriptions.js"

const streamArn = "arn:aws:kinesis:us-east-1:123456789012:stream/orders"
const consumerArn = `${streamArn}/consumer/reader:1735689600`
const orders: KinesisClient.StreamId = { name: "orders", arn: Option.none() }
const shardId = "shardId-000000000001"

const clientOf = (endpoint: string) =>
  Effect.map(
    Layer.build(KinesisClient.layer({
      endpoint,
      region: "us-east-1",
      credentials: { accessKeyId: "AKID", secretAccessKey: "secret" },
      // The stubs speak nothing else.
      protocol: "json"
    })),
    Context.get(KinesisClient.KinesisClient)
  )

const against = (answer: (response: ServerResponse, request: Stub.StubRequest) => void) =>
  Effect.gen(function*() {
    const stub = yield* Stub.make(answer)
    return { stub, client: yield* clientOf(stub.endpoint) }
  })

const consumer = {
  ConsumerName: "reader",
  ConsumerARN: consumerArn,
  ConsumerStatus: "ACTIVE",
  ConsumerCreationTimestamp: 1735689600
}

const described: KinesisClient.ConsumerDescription = {
  name: "reader",
  arn: consumerArn,
  status: "ACTIVE",
  createdAt: DateTime.unsafeMake("2025-01-01T00:00:00Z")
}

describe("consumers", () => {
  it.scopedLive("are asked for by the ARN of the stream and a name", () =>
    Effect.gen(function*() {
      const { client, stub } = yield* against((response, { body, operation }) =>
        Stub.json(
          operation === "RegisterStreamConsumer"
            ? { Consumer: { ...consumer, ConsumerStatus: "CREATING" } }
            : operation === "DescribeStreamConsumer"
            ? { ConsumerDescription: { ...consumer, StreamARN: streamArn } }
            : operation === "ListStreamConsumers"
            ? { Consumers: [consumer], ...(body.includes("NextToken") ? {} : { NextToken: "token" }) }
            : {}
        )(response)
      )
      deepStrictEqual(yield* client.registerConsumer(streamArn, "reader"), { ...described, status: "CREATING" })
      deepStrictEqual(yield* client.describeConsumer(streamArn, "reader"), described)
      const page = yield* client.listConsumers(streamArn, Option.none())
      deepStrictEqual(page, { consumers: [described], nextToken: Option.some("token") })
      deepStrictEqual((yield* client.listConsumers(streamArn, page.nextToken)).nextToken, Option.none())
      assert.isUndefined(yield* client.deregisterConsumer(streamArn, "reader"))
      deepStrictEqual(stub.requests.map(({ body, operation }): unknown => [operation, JSON.parse(body)]), [
        ["RegisterStreamConsumer", { StreamARN: streamArn, ConsumerName: "reader" }],
        ["DescribeStreamConsumer", { StreamARN: streamArn, ConsumerName: "reader" }],
        ["ListStreamConsumers", { StreamARN: streamArn }],
        ["ListStreamConsumers", { StreamARN: streamArn, NextToken: "token" }],
        ["DeregisterStreamConsumer", { StreamARN: streamArn, ConsumerName: "reader" }]
      ])
    }))

  it.scopedLive("too many of them are told apart from too many calls", () =>
    Effect.gen(function*() {
      let message = ""
      const { client } = yield* against((response) =>
        Stub.json({ __type: "LimitExceededException", message }, 400)(response)
      )
      const failure = Effect.flip(client.registerConsumer(streamArn, "reader"))
      message = "Stream orders has reached its limit of 20 registered consumers"
      const full = yield* failure
      assert.strictEqual(full.reason, "LimitExceeded")
      assert.isFalse(full.retryable)
      assert.include(full.message, streamArn)
      assert.include(full.message, "Deregister consumers")
      for (message of ["Rate exceeded for stream orders", "5 consumers are in CREATING status"]) {
        const error = yield* failure
        assert.strictEqual(error.reason, "Throttled", message)
        assert.isTrue(error.retryable)
      }
      message = "the message"
      assert.strictEqual((yield* Effect.flip(client.describeConsumer(streamArn, "reader"))).reason, "Throttled")
    }))

  it.scopedLive("are not supported by a server that does not know them", () =>
    Effect.gen(function*() {
      const answers: ReadonlyArray<(response: ServerResponse) => void> = [
        Stub.failure("UnknownOperationException", 400),
        Stub.failure("UnknownOperationException", 404),
        (response) =>
          response.writeHead(404, { "content-type": "application/xml" }).end("<UnknownOperationException/>\n"),
        (response) => response.writeHead(404).end(),
        Stub.failure("InternalFailure", 501)
      ]
      for (const answer of answers) {
        const { client } = yield* against(answer)
        const errors = yield* Effect.all([
          Effect.flip(client.describeConsumer(streamArn, "reader")),
          Effect.flip(client.registerConsumer(streamArn, "reader")),
          Effect.flip(client.listConsumers(streamArn, Option.none())),
          Effect.flip(client.deregisterConsumer(streamArn, "reader")),
          Effect.flip(Stream.runDrain(
            client.subscribeToShard(orders, shardId, { consumerArn, position: Position.trimHorizon })
          ))
        ])
        for (const error of errors) {
          assert.strictEqual(error.reason, "Unsupported", error.message)
          assert.isFalse(error.retryable)
          assert.include(error.message, "read with mode \"polling\"")
        }
      }
    }))

  it.scopedLive("without an identity are refused", () =>
    Effect.gen(function*() {
      const { client } = yield* against((response) =>
        Stub.json({ Consumer: { ...consumer, ConsumerARN: undefined }, Consumers: [{}] })(response)
      )
      assert.strictEqual((yield* Effect.flip(client.registerConsumer(streamArn, "reader"))).reason, "Unknown")
      assert.strictEqual((yield* Effect.flip(client.describeConsumer(streamArn, "reader"))).reason, "Unknown")
      assert.strictEqual((yield* Effect.flip(client.listConsumers(streamArn, Option.none()))).reason, "Unknown")
    }))
})

const record = (sequenceNumber: string) => ({
  SequenceNumber: sequenceNumber,
  PartitionKey: "key",
  Data: Buffer.from(`record ${sequenceNumber}`).toString("base64"),
  ApproximateArrivalTimestamp: 1735689600.5
})

const eventOf = (...numbers: ReadonlyArray<string>) =>
  StubSubscriptions.event({
    Records: numbers.map(record),
    ContinuationSequenceNumber: numbers.at(-1) ?? "0",
    MillisBehindLatest: 0
  })

const until = (condition: () => boolean) =>
  Effect.sync(condition).pipe(Effect.delay(5), Effect.repeat({ until: (holds) => holds }), Effect.timeout("10 seconds"))

describe.each(["http:", "https:"] as const)("a subscription over %s", (protocol) => {
  const subscribed = (
    answer: (answer: StubSubscriptions.Answer, request: StubSubscriptions.Request) => void,
    position: Position.Position = Position.trimHorizon
  ) =>
    Effect.gen(function*() {
      yield* trusting
      const stub = yield* StubSubscriptions.make(protocol, answer)
      const client = yield* clientOf(stub.endpoint)
      return { stub, client, events: client.subscribeToShard(orders, shardId, { consumerArn, position }) }
    })

  const numbers = (events: Chunk.Chunk<KinesisClient.SubscriptionEvent>) =>
    Chunk.toReadonlyArray(events).map(({ records }) => records.map(({ sequenceNumber }) => sequenceNumber).join())

  it.scopedLive("speaks HTTP/2 where there is TLS, and asks for each kind of position", () =>
    Effect.gen(function*() {
      let position = Position.trimHorizon
      const { client, stub } = yield* subscribed((answer) => answer.end())
      const ask = Effect.suspend(() =>
        Stream.runDrain(client.subscribeToShard(orders, shardId, { consumerArn, position }))
      )
      for (
        position of [
          Position.trimHorizon,
          Position.atTimestamp(DateTime.unsafeMake("2025-01-01T00:00:00.250Z")),
          Position.afterSequence("123"),
          Position.afterSequence("123", 0)
        ]
      ) yield* ask
      const to = { ConsumerARN: consumerArn, ShardId: shardId }
      deepStrictEqual(stub.requests.map(({ body }): unknown => JSON.parse(body)), [
        { ...to, StartingPosition: { Type: "TRIM_HORIZON" } },
        { ...to, StartingPosition: { Type: "AT_TIMESTAMP", Timestamp: 1735689600.25 } },
        { ...to, StartingPosition: { Type: "AFTER_SEQUENCE_NUMBER", SequenceNumber: "123" } },
        { ...to, StartingPosition: { Type: "AT_SEQUENCE_NUMBER", SequenceNumber: "123" } }
      ])
      const authority = new URL(stub.endpoint).host
      for (const { headers, httpVersion, operation } of stub.requests) {
        assert.strictEqual(operation, "SubscribeToShard")
        assert.strictEqual(httpVersion, protocol === "http:" ? "1.1" : "2.0")
        assert.strictEqual(headers[protocol === "http:" ? "host" : ":authority"], authority)
        assert.match(String(headers["authorization"]), /SignedHeaders=[^,]*host/)
      }
      const before = stub.requests.length
      for (position of [Position.shardEnd, Position.afterSequence("LATEST")]) {
        assert.strictEqual((yield* Effect.flip(ask)).reason, "InvalidArgument")
      }
      assert.lengthOf(stub.requests, before)
      // Other calls stay on the connections that are kept alive.
      yield* Effect.exit(client.listShards(orders, Option.none()))
      assert.strictEqual(stub.requests.at(-1)?.httpVersion, "1.1")
    }))

  it.scopedLive("tells each event as it comes, and ends with it", () =>
    Effect.gen(function*() {
      const { events } = yield* subscribed((answer) => {
        answer.write(StubSubscriptions.initialResponse)
        answer.write(eventOf("1", "2"))
        answer.write(StubSubscriptions.unknownEvent)
        // Two in one piece, and one in three pieces.
        answer.write(Buffer.concat([eventOf(), eventOf("3")]))
        const last = StubSubscriptions.event({
          Records: [record("4")],
          MillisBehindLatest: 7,
          ChildShards: [{
            ShardId: "shardId-000000000002",
            ParentShards: [shardId],
            HashKeyRange: { StartingHashKey: "0", EndingHashKey: "9" }
          }]
        })
        answer.write(last.subarray(0, 2))
        answer.write(last.subarray(2, 30))
        answer.write(last.subarray(30))
        answer.end()
      })
      const all = yield* Stream.runCollect(events)
      deepStrictEqual(numbers(all), ["1,2", "", "3", "4"])
      deepStrictEqual(Chunk.unsafeGet(all, 0), {
        records: ["1", "2"].map((sequenceNumber) => ({
          sequenceNumber,
          partitionKey: "key",
          data: new Uint8Array(Buffer.from(`record ${sequenceNumber}`)),
          arrivalTime: new Date("2025-01-01T00:00:00.500Z")
        })),
        continuation: Option.some("2"),
        millisBehindLatest: Option.some(0),
        childShards: []
      })
      const last = Chunk.unsafeLast(all)
      deepStrictEqual(last.continuation, Option.none())
      deepStrictEqual(last.millisBehindLatest, Option.some(7))
      deepStrictEqual(last.childShards, [{
        shardId: "shardId-000000000002",
        parents: [shardId],
        hashKeyRange: { start: "0", end: "9" },
        closed: false
      }])
    }))

  it.scopedLive("comes without a first frame, without any, and subscribes anew with each run", () =>
    Effect.gen(function*() {
      let count = 0
      const { events, stub } = yield* subscribed((answer) => {
        if (++count === 1) answer.write(eventOf("1"))
        answer.end()
      })
      assert.lengthOf(stub.requests, 0)
      deepStrictEqual(numbers(yield* Stream.runCollect(events)), ["1"])
      deepStrictEqual(numbers(yield* Stream.runCollect(events)), [])
      assert.lengthOf(stub.requests, 2)
    }))

  const failures: ReadonlyArray<readonly [string, (answer: StubSubscriptions.Answer) => void, KinesisErrorReason]> = [
    [
      "a refusal",
      (answer) => answer.fail(400, { __type: "ResourceInUseException", message: "the message" }),
      "ResourceInUse"
    ],
    ["a rate", (answer) => answer.fail(400, { __type: "LimitExceededException", message: "the message" }), "Throttled"],
    ["a fault", (answer) => answer.fail(500, { __type: "InternalFailure" }), "Unavailable"],
    ["no answer", (answer) => answer.cut(), "Unavailable"]
  ]

  it.scopedLive("fails with what it is refused with", () =>
    Effect.forEach(failures, ([what, fail, reason]) =>
      Effect.gen(function*() {
        const { events } = yield* subscribed(fail)
        const error = yield* Effect.flip(Stream.runDrain(events))
        assert.strictEqual(error.reason, reason, `${what}: ${error.message}`)
        assert.strictEqual(error.operation, "subscribeToShard")
        assert.strictEqual(error.stream, "orders")
        assert.strictEqual(error.shardId, shardId)
      })))

  const half = eventOf("2").subarray(0, 40)
  const breaks: ReadonlyArray<readonly [string, (answer: StubSubscriptions.Answer) => void, KinesisErrorReason]> = [
    [
      "another subscription",
      (answer) => answer.write(StubSubscriptions.exception("ResourceInUseException")),
      "ResourceInUse"
    ],
    ["the stream", (answer) => answer.write(StubSubscriptions.exception("ResourceNotFoundException")), "NotFound"],
    ["a key", (answer) => answer.write(StubSubscriptions.exception("KMSThrottlingException")), "Throttled"],
    ["a fault", (answer) => answer.write(StubSubscriptions.exception("InternalFailureException")), "Unavailable"],
    ["an unknown exception", (answer) => answer.write(StubSubscriptions.exception("NewException")), "Unknown"],
    ["an error frame", (answer) => answer.write(StubSubscriptions.error("InternalFailure")), "Unavailable"],
    ["an end in the middle of a frame", (answer) => (answer.write(half), answer.end()), "Unavailable"],
    ["a cut in the middle of a frame", (answer) => (answer.write(half), answer.cut()), "Unavailable"],
    ["a cut between frames", (answer) => answer.cut(), "Unavailable"],
    ["a damaged frame", (answer) => answer.write(eventOf("2").fill(0, 60, 70)), "Unknown"]
  ]

  it.scopedLive("fails with what breaks it, after the events before", () =>
    Effect.forEach(breaks, ([what, fail, reason]) =>
      Effect.gen(function*() {
        const { events } = yield* subscribed((answer) => {
          answer.write(StubSubscriptions.initialResponse)
          answer.write(eventOf("1"))
          setTimeout(() => fail(answer), 20)
        })
        let seen = 0
        const error = yield* events.pipe(
          Stream.runForEach(() => Effect.sync(() => seen++)),
          Effect.flip,
          Effect.timeout("10 seconds"),
          Effect.orDieWith(() => new Error(`${what}: did not fail`))
        )
        assert.strictEqual(error.reason, reason, `${what}: ${error.message}`)
        assert.strictEqual(seen, 1, what)
      }).pipe(Effect.scoped)))

  it.scopedLive("is left by interruption: before an answer, before an event, and between two", () =>
    Effect.gen(function*() {
      const { events, stub } = yield* subscribed((answer) => {
        if (stub.requests.length > 1) answer.write(StubSubscriptions.initialResponse)
        if (stub.requests.length > 2) answer.write(eventOf("1"))
      })
      for (const requests of [1, 2, 3]) {
        let seen = 0
        const fiber = yield* Effect.fork(Stream.runForEach(events, () => Effect.sync(() => seen++)))
        yield* until(() => stub.requests.length === requests && seen === (requests === 3 ? 1 : 0))
        yield* Fiber.interrupt(fiber).pipe(Effect.timeout("2 seconds"))
        yield* until(() => stub.abandoned() === requests)
      }
      yield* until(() => stub.connections() === 0)
    }))

  it.scopedLive("is left by who has enough, or takes too long", () =>
    Effect.gen(function*() {
      const { events, stub } = yield* subscribed((answer) => {
        answer.write(eventOf("1"))
        answer.write(eventOf("2"))
      })
      deepStrictEqual(numbers(yield* Stream.runCollect(Stream.take(events, 1))), ["1"])
      yield* until(() => stub.abandoned() === 1)
      const slow = Stream.runForEach(events, () => Effect.never).pipe(Effect.timeout(100), Effect.flip)
      assert.strictEqual((yield* slow)._tag, "TimeoutException")
      yield* until(() => stub.abandoned() === 2)
      yield* until(() => stub.connections() === 0)
    }))

  it.scopedLive("leaves with the sender what is not pulled", () =>
    Effect.gen(function*() {
      const large = StubSubscriptions.event({
        Records: [{ ...record("1"), Data: Buffer.alloc(1024 * 1024).toString("base64") }],
        ContinuationSequenceNumber: "1",
        MillisBehindLatest: 0
      })
      const count = 64
      let sent = 0
      const { events } = yield* subscribed((answer) => {
        const send = () => {
          if (sent++ < count) answer.write(large, send)
        }
        send()
      })
      const pull = yield* Stream.toPull(events)
      yield* pull
      yield* Effect.sleep(200)
      const before = sent
      assert.isBelow(before, count / 2)
      yield* Effect.sleep(100)
      assert.strictEqual(sent, before)
      yield* Effect.replicateEffect(pull, count - 1)
      assert.isAbove(sent, count)
    }))
})
