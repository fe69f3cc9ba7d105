import { assert, describe, it } from "@effect/vitest"
import { KinesisClient, KinesisError, Position } from "@kinesumer/core"
import { TestKinesis } from "@kinesumer/test-kit"
import {
  Array as Arr,
  Chunk,
  DateTime,
  Duration,
  Effect,
  Exit,
  Fiber,
  Option,
  Queue,
  Scope,
  Stream,
  Take,
  TestClock
} from "effect"

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
const watch = <E>(stream: Stream.Stream<KinesisClient.SubscriptionEvent, E>) =>
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
      interrupt: Fiber.interrupt(fiber)
    }
  })

const provideKinesis = Effect.provide(TestKinesis.layer)

describe("consumers", () => {
  it.scoped("are registered, described, listed and deregistered", () =>
    Effect.gen(function*() {
      yield* TestClock.adjust(Duration.millis(90_500))
      const { client, consumer, streamArn } = yield* setUp()
      assert.deepStrictEqual(consumer, {
        name: "reader",
        arn: "arn:aws:kinesis:us-east-1:000000000000:stream/orders/consumer/reader:90",
        status: "ACTIVE",
        createdAt: DateTime.unsafeMake(90_500)
      })
      assert.deepStrictEqual(yield* client.describeConsumer(streamArn, "reader"), consumer)
      assert.strictEqual(yield* reasonOf(client.describeConsumer(streamArn, "writer")), "NotFound")
      assert.strictEqual(yield* reasonOf(client.registerConsumer(streamArn, "reader")), "ResourceInUse")
      assert.strictEqual(yield* reasonOf(client.registerConsumer(streamArn, "no name")), "InvalidArgument")
      assert.deepStrictEqual(yield* client.listConsumers(streamArn, Option.none()), {
        consumers: [consumer],
        nextToken: Option.none()
      })
      yield* client.deregisterConsumer(streamArn, "reader")
      assert.strictEqual(yield* reasonOf(client.describeConsumer(streamArn, "reader")), "NotFound")
      yield* TestClock.adjust("1 second")
      const again = yield* client.registerConsumer(streamArn, "reader")
      assert.notStrictEqual(again.arn, consumer.arn)
    }).pipe(provideKinesis))

  it.scoped("records are pushed when they are put", () =>
    Effect.gen(function*() {
      const { put, subscribe } = yield* setUp()
      yield* put("a", "b")
      const one = yield* watch(subscribe())
      assert.deepStrictEqual(yield* one.texts, [["a", "b"]])
      yield* put("c")
      assert.deepStrictEqual(yield* one.texts, [["c"]])
      yield* TestClock.adjust(4_999)
      assert.deepStrictEqual(yield* one.texts, [])
      yield* TestClock.adjust(1)
      assert.deepStrictEqual(yield* one.texts, [[]])
      yield* TestClock.adjust("5 minutes")
      assert.deepStrictEqual(yield* one.end, Option.some(Exit.void))
    }).pipe(provideKinesis))
})
