import { assert, describe, it } from "@effect/vitest"
// That of `assert` takes `some` and `none` for equal.
import { deepStrictEqual } from "@effect/vitest/utils"
import type { KinesisError } from "@kinesumer/core"
import { KinesisClient, Position } from "@kinesumer/core"
import { TestKinesis } from "@kinesumer/test-kit"
import { Cause, Chunk, DateTime, Duration, Effect, Exit, Fiber, Option, Queue, Stream, TestClock } from "effect"

const orders: KinesisClient.StreamId = { name: "orders", arn: Option.none() }
const shard0 = "shardId-000000000000"
const shard1 = "shardId-000000000001"
const shard2 = "shardId-000000000002"

const text = (record: { readonly data: Uint8Array }) => new TextDecoder().decode(record.data)

const reasonOf = <A, R>(effect: Effect.Effect<A, KinesisError.KinesisError, R>) =>
  Effect.map(Effect.flip(effect), (error) => error.reason)

/** A stream with a consumer. */
const setUp = (options: Partial<TestKinesis.CreateStreamOptions> = {}) =>
  Effect.gen(function*() {
    const kinesis = yield* TestKinesis.TestKinesis
    const client = yield* KinesisClient.KinesisClient
    const { arn: streamArn } = yield* kinesis.createStream({ name: "orders", ...options })
    const consumer = yield* client.registerConsumer(streamArn, "reader")
    const put = (...data: ReadonlyArray<string>) =>
      Effect.forEach(data, (data) => kinesis.putTo({ stream: "orders", shardId: shard0, data }))
    const subscribe = (
      position: Position.Position = Position.trimHorizon,
      options: { readonly shardId?: string; readonly consumerArn?: string } = {}
    ) =>
      client.subscribeToShard(orders, options.shardId ?? shard0, {
        consumerArn: options.consumerArn ?? consumer.arn,
        position
      })
    return { kinesis, client, streamArn, consumer, put, subscribe }
  })

/** Runs a subscription, and keeps what it tells and how it ends. */
const watch = (stream: Stream.Stream<KinesisClient.SubscriptionEvent, KinesisError.KinesisError>) =>
  Effect.gen(function*() {
    const events = yield* Queue.unbounded<KinesisClient.SubscriptionEvent>()
    const fiber = yield* Effect.forkScoped(Stream.runForEach(stream, (event) => Queue.offer(events, event)))
    const seen = Effect.map(Queue.takeAll(events), Chunk.toReadonlyArray)
    // What is under way happens, and no time passes.
    const settled = TestClock.adjust(0)
    return {
      fiber,
      /** The events since the last time. */
      events: Effect.zipRight(settled, seen),
      texts: Effect.map(Effect.zipRight(settled, seen), (events) => events.map(({ records }) => records.map(text))),
      end: Effect.zipRight(settled, Fiber.poll(fiber)),
      /** Why it failed; `undefined` while it goes on, or where it did not fail. */
      failure: Effect.map(Effect.zipRight(settled, Fiber.poll(fiber)), (exit) =>
        exit.pipe(
          Option.flatMap(Exit.causeOption),
          Option.flatMap(Cause.failureOption),
          Option.getOrUndefined
        )),
      interrupt: Fiber.interrupt(fiber)
    }
  })

const provideKinesis = Effect.provide(TestKinesis.layer)

describe("consumers", () => {
  it.effect("are registered, described, listed and deregistered", () =>
    Effect.gen(function*() {
      yield* TestClock.adjust(Duration.millis(90_500))
      const { client, consumer, kinesis, streamArn } = yield* setUp()
      deepStrictEqual(consumer, {
        name: "reader",
        arn: "arn:aws:kinesis:us-east-1:000000000000:stream/orders/consumer/reader:90",
        status: "ACTIVE",
        createdAt: DateTime.unsafeMake(90_500)
      })
      deepStrictEqual(yield* client.describeConsumer(streamArn, "reader"), consumer)
      assert.strictEqual(yield* reasonOf(client.describeConsumer(streamArn, "writer")), "NotFound")
      assert.strictEqual(yield* reasonOf(client.registerConsumer(streamArn, "reader")), "ResourceInUse")
      assert.strictEqual(yield* reasonOf(client.registerConsumer(streamArn, "no name")), "InvalidArgument")
      assert.strictEqual(yield* reasonOf(client.registerConsumer(`${streamArn}s`, "reader")), "NotFound")
      deepStrictEqual(yield* client.listConsumers(streamArn, Option.none()), {
        consumers: [consumer],
        nextToken: Option.none()
      })
      yield* client.deregisterConsumer(streamArn, "reader")
      assert.strictEqual(yield* reasonOf(client.describeConsumer(streamArn, "reader")), "NotFound")
      yield* TestClock.adjust("1 second")
      const again = yield* client.registerConsumer(streamArn, "reader")
      assert.strictEqual(again.arn, "arn:aws:kinesis:us-east-1:000000000000:stream/orders/consumer/reader:91")
      const calls = yield* kinesis.callsOf("registerConsumer", { stream: streamArn })
      deepStrictEqual(
        calls.map(({ at, error, name }) => ({ at, name, reason: Option.map(error, ({ reason }) => reason) })),
        [
          { at: 90_500, name: "reader", reason: Option.none() },
          { at: 90_500, name: "reader", reason: Option.some("ResourceInUse") },
          { at: 90_500, name: "no name", reason: Option.some("InvalidArgument") },
          { at: 91_500, name: "reader", reason: Option.none() }
        ]
      )
    }).pipe(provideKinesis))

  it.scoped("are being created for a while, and deleted for a while", () =>
    Effect.gen(function*() {
      const { client, consumer, streamArn, subscribe } = yield* setUp()
      assert.strictEqual(consumer.status, "CREATING")
      const early = yield* watch(subscribe())
      assert.strictEqual((yield* early.failure)?.reason, "ResourceInUse")
      yield* TestClock.adjust("2 seconds")
      assert.strictEqual((yield* client.describeConsumer(streamArn, "reader")).status, "ACTIVE")
      const one = yield* watch(subscribe())
      deepStrictEqual(yield* one.end, Option.none())
      yield* client.deregisterConsumer(streamArn, "reader")
      assert.strictEqual((yield* one.failure)?.reason, "NotFound")
      assert.strictEqual((yield* client.describeConsumer(streamArn, "reader")).status, "DELETING")
      assert.strictEqual(yield* reasonOf(client.registerConsumer(streamArn, "reader")), "ResourceInUse")
      yield* TestClock.adjust("2 seconds")
      assert.strictEqual(yield* reasonOf(client.describeConsumer(streamArn, "reader")), "NotFound")
      assert.strictEqual((yield* watch(subscribe()).pipe(Effect.flatMap((two) => two.failure)))?.reason, "NotFound")
    }).pipe(Effect.provide(TestKinesis.layerWith({ consumerDelay: "2 seconds" }))))

  it.effect("are 20 a stream, 5 of them being created, and 5 calls a second", () =>
    Effect.gen(function*() {
      const { client, streamArn } = yield* setUp()
      const register = (index: number) => client.registerConsumer(streamArn, `reader-${index}`)
      for (let index = 1; index < 5; index++) yield* register(index)
      assert.strictEqual(yield* reasonOf(register(5)), "Throttled", "the sixth call in a second")
      yield* TestClock.adjust("1 second")
      assert.strictEqual(yield* reasonOf(register(5)), "Throttled", "five are being created")
      yield* TestClock.adjust("9 seconds")
      for (let index = 5; index < 20; index++) {
        yield* register(index)
        yield* TestClock.adjust("10 seconds")
      }
      const error = yield* Effect.flip(register(20))
      assert.strictEqual(error.reason, "LimitExceeded")
      assert.isFalse(error.retryable)
    }).pipe(Effect.provide(TestKinesis.layerWith({ consumerDelay: "10 seconds" }))))

  it.effect("are listed page by page, with tokens that expire", () =>
    Effect.gen(function*() {
      const { client, kinesis, streamArn } = yield* setUp()
      for (const name of ["b", "a", "c", "d"]) yield* client.registerConsumer(streamArn, name)
      const pages = yield* Stream.paginateEffect(Option.none<string>(), (token) =>
        Effect.map(client.listConsumers(streamArn, token), ({ consumers, nextToken }) =>
          [
            consumers.map(({ name }) =>
              name
            ),
            Option.map(nextToken, Option.some)
          ] as const)).pipe(Stream.runCollect)
      deepStrictEqual(Chunk.toReadonlyArray(pages), [["reader", "b"], ["a", "c"], ["d"]])
      const calls = yield* kinesis.callsOf("listConsumers")
      deepStrictEqual(calls.map(({ continued, names }) => [continued, names]), [
        [false, ["reader", "b"]],
        [true, ["a", "c"]],
        [true, ["d"]]
      ])
      const { nextToken } = yield* client.listConsumers(streamArn, Option.none())
      yield* TestClock.adjust("5 minutes")
      assert.strictEqual(yield* reasonOf(client.listConsumers(streamArn, nextToken)), "ExpiredToken")
    }).pipe(Effect.provide(TestKinesis.layerWith({ pageSize: 2 }))))
})

describe("a subscription", () => {
  it.scoped("tells records when they are put, and every 5 silent seconds where it stands", () =>
    Effect.gen(function*() {
      const { put, subscribe } = yield* setUp()
      yield* put("a", "b")
      yield* TestClock.adjust(700)
      const one = yield* watch(subscribe())
      const [first] = yield* one.events
      assert.exists(first)
      deepStrictEqual(first.records.map(text), ["a", "b"])
      deepStrictEqual(first.records[0]?.arrivalTime, new Date(0))
      deepStrictEqual(first.continuation, Option.some(first.records[1]?.sequenceNumber))
      deepStrictEqual(first.millisBehindLatest, Option.some(0))
      yield* TestClock.adjust("1 second")
      yield* put("c", "d")
      deepStrictEqual(yield* one.texts, [["c", "d"]])
      yield* TestClock.adjust(4_999)
      deepStrictEqual(yield* one.events, [])
      yield* TestClock.adjust(1)
      const [silent] = yield* one.events
      assert.exists(silent)
      deepStrictEqual(silent.records, [])
      deepStrictEqual(silent.millisBehindLatest, Option.some(0))
      yield* put("e")
      deepStrictEqual(yield* one.texts, [["e"]])
      // The number of the empty event belongs to no record, and a subscription goes on after it.
      yield* one.interrupt
      yield* TestClock.adjust("5 seconds")
      const two = yield* watch(subscribe(Position.afterSequence(yield* silent.continuation)))
      deepStrictEqual(yield* two.texts, [["e"]])
    }).pipe(provideKinesis))

  it.scoped("begins at each kind of position, or is refused", () =>
    Effect.gen(function*() {
      const { kinesis, put, subscribe } = yield* setUp({ shards: 2 })
      const [a, b] = yield* put("a", "b")
      const other = yield* kinesis.putTo({ stream: "orders", shardId: shard1, data: "x" })
      yield* TestClock.adjust("1 second")
      yield* put("c")
      const from = (position: Position.Position, shardId = shard0) =>
        Effect.scoped(Effect.gen(function*() {
          const one = yield* watch(subscribe(position, { shardId }))
          const texts = yield* one.texts
          const failure = yield* one.failure
          yield* TestClock.adjust("5 seconds")
          return failure?.reason ?? texts.flat().join("")
        }))
      const after = Position.afterSequence
      assert.strictEqual(yield* from(Position.trimHorizon), "abc")
      assert.strictEqual(yield* from(after(a?.sequenceNumber ?? "")), "bc")
      assert.strictEqual(yield* from(after(a?.sequenceNumber ?? "", 0)), "abc")
      assert.strictEqual(yield* from(after(b?.sequenceNumber ?? "", 7)), "bc")
      assert.strictEqual(yield* from(Position.atTimestamp(DateTime.unsafeMake(1000))), "c")
      assert.strictEqual(yield* from(Position.atTimestamp(DateTime.unsafeMake(10_000_000))), "InvalidArgument")
      assert.strictEqual(yield* from(Position.shardEnd), "InvalidArgument")
      assert.strictEqual(yield* from(after("SHARD_END")), "InvalidArgument")
      assert.strictEqual(yield* from(after(other.sequenceNumber)), "InvalidArgument")
      assert.strictEqual(yield* from(Position.trimHorizon, shard2), "NotFound")
      yield* kinesis.trim({ stream: "orders", shardId: shard0, through: b?.sequenceNumber })
      assert.strictEqual(yield* from(after(a?.sequenceNumber ?? "")), "c", "what is left of a trimmed position")
    }).pipe(provideKinesis))

  it.scoped("is refused where a trimmed position is, and loses what vanishes before it is read", () =>
    Effect.gen(function*() {
      const { kinesis, put, subscribe } = yield* setUp()
      const [a] = yield* put("a", "b")
      const pull = yield* Stream.toPull(subscribe())
      yield* pull
      yield* put("c")
      yield* kinesis.trim({ stream: "orders", shardId: shard0 })
      yield* put("d")
      deepStrictEqual(Chunk.toReadonlyArray(yield* pull).map(({ records }) => records.map(text)), [["d"]])
      yield* TestClock.adjust("5 seconds")
      const two = yield* watch(subscribe(Position.afterSequence(a?.sequenceNumber ?? "")))
      assert.strictEqual((yield* two.failure)?.reason, "InvalidArgument")
    }).pipe(Effect.provide(TestKinesis.layerWith({ trimmedPosition: "refuse" }))))

  it.scoped("ends after 5 minutes, and the next one goes on after it", () =>
    Effect.gen(function*() {
      const { kinesis, put, subscribe } = yield* setUp()
      const one = yield* watch(subscribe())
      yield* TestClock.adjust(Duration.minutes(5).pipe(Duration.subtract(Duration.millis(1))))
      deepStrictEqual(yield* one.end, Option.none())
      yield* put("a")
      const last = (yield* one.events).at(-1)
      assert.exists(last)
      deepStrictEqual(last.records.map(text), ["a"])
      yield* TestClock.adjust(1)
      deepStrictEqual(yield* one.end, Option.some(Exit.void))
      deepStrictEqual(yield* kinesis.subscriptions(), [])
      yield* put("b")
      const two = yield* watch(subscribe(Position.afterSequence(yield* last.continuation)))
      deepStrictEqual(yield* two.texts, [["b"]])
    }).pipe(provideKinesis))

  it.scoped("ends with the children of a closed shard, after all of its records", () =>
    Effect.gen(function*() {
      const { kinesis, put, subscribe } = yield* setUp()
      yield* put("a")
      const live = yield* watch(subscribe())
      deepStrictEqual(yield* live.texts, [["a"]])
      const [low, high] = yield* kinesis.split("orders", shard0)
      const children = [low, high].map(({ hashKeyRange, parents, shardId }) => ({
        shardId,
        parents,
        hashKeyRange,
        closed: false
      }))
      deepStrictEqual(yield* live.events, [
        { records: [], continuation: Option.none(), millisBehindLatest: Option.some(0), childShards: children }
      ])
      deepStrictEqual(yield* live.end, Option.some(Exit.void))

      yield* TestClock.adjust("5 seconds")
      const late = yield* watch(subscribe())
      const [only, ...none] = yield* late.events
      assert.exists(only)
      deepStrictEqual(none, [])
      deepStrictEqual(only.records.map(text), ["a"])
      deepStrictEqual(only.continuation, Option.none())
      deepStrictEqual(only.childShards, children)
      deepStrictEqual(yield* late.end, Option.some(Exit.void))
    }).pipe(provideKinesis))

  it.scoped("reads no further than it is pulled, and batches what is there then", () =>
    Effect.gen(function*() {
      const { kinesis, put, subscribe } = yield* setUp()
      const pull = yield* Stream.toPull(subscribe())
      const next = Effect.map(pull, (chunk) => Chunk.toReadonlyArray(chunk).map(({ records }) => records.length))
      yield* put("a")
      deepStrictEqual(yield* next, [1])
      yield* kinesis.putTo({ stream: "orders", shardId: shard0, data: new Uint8Array(2 * 1024 * 1024) })
      yield* put(...Array.from({ length: 12_000 }, () => "x"))
      yield* TestClock.adjust("10 seconds")
      const large = yield* pull
      deepStrictEqual(
        Chunk.toReadonlyArray(large).map(({ records }) => records.length),
        [1],
        "a large one alone"
      )
      deepStrictEqual(
        Option.map(Chunk.head(large), (event) => event.millisBehindLatest),
        Option.some(Option.some(10_000))
      )
      deepStrictEqual(yield* next, [10_000])
      deepStrictEqual(yield* next, [2_000])
      const mib = new Uint8Array(400 * 1024)
      yield* Effect.replicateEffect(kinesis.putTo({ stream: "orders", shardId: shard0, data: mib }), 3)
      deepStrictEqual(yield* next, [2])
      deepStrictEqual(yield* next, [1])
      yield* TestClock.adjust("5 minutes")
      deepStrictEqual(yield* Effect.flip(pull), Option.none(), "the end comes to who does not pull, too")
    }).pipe(provideKinesis))

  it.scoped("does not count against GetRecords", () =>
    Effect.gen(function*() {
      const { client, kinesis, subscribe } = yield* setUp()
      const data = new Uint8Array(1024 * 1024)
      yield* Effect.replicateEffect(kinesis.putTo({ stream: "orders", shardId: shard0, data }), 8)
      const one = yield* watch(subscribe())
      assert.lengthOf(yield* one.events, 8)
      const iterator = yield* client.getShardIterator(orders, shard0, Position.trimHorizon)
      const page = yield* client.getRecords(orders, shard0, { iterator, limit: 1 })
      assert.lengthOf(page.records, 1)
    }).pipe(provideKinesis))
})

describe("a second subscription", () => {
  it.scoped("is one a second, is refused for 5 seconds, and takes over then", () =>
    Effect.gen(function*() {
      const { consumer, kinesis, put, subscribe } = yield* setUp({ shards: 2 })
      const first = yield* watch(subscribe())
      const failureOf = Effect.flatMap(watch(subscribe()), (one) => one.failure)
      yield* TestClock.adjust(999)
      assert.strictEqual((yield* failureOf)?.reason, "Throttled")
      yield* TestClock.adjust(1)
      assert.strictEqual((yield* failureOf)?.reason, "ResourceInUse")
      yield* TestClock.adjust(3_999)
      assert.strictEqual((yield* failureOf)?.reason, "ResourceInUse")
      yield* TestClock.adjust(1_001)
      deepStrictEqual(yield* first.end, Option.none(), "those that were refused leave it alone")
      const second = yield* watch(subscribe())
      deepStrictEqual(yield* second.end, Option.none())
      const failure = yield* first.failure
      assert.exists(failure)
      assert.strictEqual(failure.reason, "ResourceInUse")
      assert.strictEqual(failure.operation, "subscribeToShard")
      assert.strictEqual(failure.shardId, shard0)
      yield* put("a")
      assert.deepInclude(yield* second.texts, ["a"])
      deepStrictEqual(yield* kinesis.subscriptions(), [{
        streamArn: "arn:aws:kinesis:us-east-1:000000000000:stream/orders",
        shardId: shard0,
        consumerArn: consumer.arn,
        startedAt: 6_000
      }])
      const calls = yield* kinesis.callsOf("subscribeToShard", { shardId: shard0 })
      deepStrictEqual(
        calls.map(({ at, error }) => [at, Option.getOrUndefined(Option.map(error, ({ reason }) => reason))]),
        [[0, undefined], [999, "Throttled"], [1000, "ResourceInUse"], [4999, "ResourceInUse"], [6000, undefined]]
      )
      assert.isTrue(calls.every((call) => call.consumerArn === consumer.arn && call.position._tag === "TrimHorizon"))
    }).pipe(provideKinesis))

  it.scoped("of another shard or another consumer is another one", () =>
    Effect.gen(function*() {
      const { client, put, streamArn, subscribe } = yield* setUp({ shards: 2 })
      const other = yield* client.registerConsumer(streamArn, "other")
      yield* put("a")
      const all = yield* Effect.all([
        watch(subscribe()),
        watch(subscribe(Position.trimHorizon, { shardId: shard1 })),
        watch(subscribe(Position.trimHorizon, { consumerArn: other.arn }))
      ])
      const seen = yield* Effect.forEach(all, (one) => one.texts)
      deepStrictEqual(seen, [[["a"]], [], [["a"]]])
      yield* put("b")
      deepStrictEqual(yield* Effect.forEach(all, (one) => one.texts), [[["b"]], [], [["b"]]])
    }).pipe(provideKinesis))

  it.scoped("is free to come 5 seconds after one that was given up", () =>
    Effect.gen(function*() {
      const { kinesis, subscribe } = yield* setUp()
      const first = yield* watch(subscribe())
      yield* TestClock.adjust("2 seconds")
      assert.lengthOf(yield* kinesis.subscriptions({ shardId: shard0, stream: "orders" }), 1)
      yield* first.interrupt
      deepStrictEqual(yield* kinesis.subscriptions(), [])
      assert.strictEqual((yield* Effect.flatMap(watch(subscribe()), (one) => one.failure))?.reason, "ResourceInUse")
      yield* TestClock.adjust("3 seconds")
      deepStrictEqual(yield* Effect.flatMap(watch(subscribe()), (one) => one.end), Option.none())
    }).pipe(provideKinesis))
})

describe("a subscription is broken off", () => {
  it.scoped("by the test, with an error or without", () =>
    Effect.gen(function*() {
      const { kinesis, subscribe } = yield* setUp({ shards: 3 })
      const [a, b, c] = yield* Effect.all([
        watch(subscribe()),
        watch(subscribe(Position.trimHorizon, { shardId: shard1 })),
        watch(subscribe(Position.trimHorizon, { shardId: shard2 }))
      ])
      deepStrictEqual(yield* c.end, Option.none())
      assert.strictEqual(yield* kinesis.endSubscriptions({ shardId: shard0, error: "Unavailable" }), 1)
      assert.strictEqual((yield* a.failure)?.reason, "Unavailable")
      deepStrictEqual(yield* b.end, Option.none())
      assert.strictEqual(yield* kinesis.endSubscriptions({ stream: "payments" }), 0)
      assert.strictEqual(yield* kinesis.endSubscriptions(), 2)
      deepStrictEqual(yield* b.end, Option.some(Exit.void))
      deepStrictEqual(yield* c.end, Option.some(Exit.void))
    }).pipe(provideKinesis))

  it.scoped("by a stream that is deleted, also when it is made again", () =>
    Effect.gen(function*() {
      const { kinesis, subscribe } = yield* setUp({ shards: 2 })
      const one = yield* watch(subscribe())
      const two = yield* Stream.toPull(subscribe(Position.trimHorizon, { shardId: shard1 }))
      yield* kinesis.putTo({ stream: "orders", shardId: shard1, data: "a" })
      yield* two
      assert.isUndefined(yield* one.failure)
      yield* kinesis.deleteStream("orders")
      assert.strictEqual((yield* one.failure)?.reason, "NotFound")
      yield* kinesis.createStream({ name: "orders", shards: 2 })
      assert.strictEqual(Option.getOrUndefined(yield* Effect.flip(two))?.reason, "NotFound")
    }).pipe(provideKinesis))

  it.scoped("by a shard that passes its retention", () =>
    Effect.gen(function*() {
      const { kinesis, subscribe } = yield* setUp()
      const one = yield* Stream.toPull(subscribe())
      const waiting = yield* Effect.fork(one)
      yield* TestClock.adjust(0)
      yield* kinesis.split("orders", shard0)
      yield* Fiber.join(waiting)
      deepStrictEqual(yield* Effect.flip(one), Option.none())
      yield* TestClock.adjust("5 seconds")
      yield* kinesis.forgetShard("orders", shard0)
      assert.strictEqual((yield* Effect.flatMap(watch(subscribe()), (late) => late.failure))?.reason, "NotFound")
    }).pipe(provideKinesis))
})

describe("the clock", () => {
  it.scoped("is the one that Kinesis was made under, and an answer takes its time", () =>
    Effect.gen(function*() {
      const { consumer, put, subscribe } = yield* setUp().pipe(
        Effect.tap(() => TestClock.adjust(10)),
        Effect.fork,
        Effect.tap(() => TestClock.adjust("1 second")),
        Effect.flatMap(Fiber.join)
      )
      assert.strictEqual(consumer.createdAt.epochMillis, 3_600_010)
      yield* put("a")
      const one = yield* watch(subscribe())
      deepStrictEqual(yield* one.texts, [])
      yield* TestClock.adjust(9)
      deepStrictEqual(yield* one.texts, [])
      yield* TestClock.adjust(1)
      deepStrictEqual(yield* one.texts, [["a"]])
    }).pipe(Effect.provide(TestKinesis.layerWith({ latency: 10, clockSkew: "1 hour" }))))

  it.scoped("an answer that is under way can be interrupted", () =>
    Effect.gen(function*() {
      const { kinesis, subscribe } = yield* Effect.flatMap(Effect.fork(setUp()), (fiber) =>
        Effect.zipRight(TestClock.adjust("1 second"), Fiber.join(fiber)))
      const one = yield* watch(subscribe())
      yield* TestClock.adjust(5)
      yield* one.interrupt
      yield* TestClock.adjust("1 second")
      deepStrictEqual(yield* kinesis.callsOf("subscribeToShard"), [])
      deepStrictEqual(yield* kinesis.subscriptions(), [])
    }).pipe(Effect.provide(TestKinesis.layerWith({ latency: 10 }))))
})
