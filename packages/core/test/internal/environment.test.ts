/** What every part of a member shares. */
import { assert, describe, it } from "@effect/vitest"
import { type KinesisError, KinesumerConfig, StateStore } from "@kinesumer/core"
import { Faults, TestKinesis } from "@kinesumer/test-kit"
import { Effect, Fiber, Metric, MetricKeyType, type MetricLabel, Option, TestClock } from "effect"
import * as Environment from "../../src/internal/environment.js"

const environmentOn = (kinesis: Environment.Environment["kinesis"]) =>
  Effect.gen(function*() {
    return yield* Environment.make({
      config: yield* KinesumerConfig.make({ app: "app", streams: ["orders"] }),
      self: { memberId: "a", incarnation: "1" },
      kinesis,
      store: yield* StateStore.makeMemory
    })
  })

const environment = Effect.flatMap(TestKinesis.make(), ({ client }) => environmentOn(client))

describe("calls to Kinesis", () => {
  it.effect("about a stream or its consumers end after polling.timeout", () =>
    Effect.gen(function*() {
      const faults = yield* Faults.make
      yield* faults.addKinesis({}, Faults.hang)
      const { kinesis } = yield* environmentOn(faults.wrapKinesis((yield* TestKinesis.make()).client))
      const calls: Readonly<Record<string, Effect.Effect<unknown, KinesisError.KinesisError>>> = {
        region: kinesis.region,
        describeStream: kinesis.describeStream({ name: "orders", arn: Option.none() }),
        listShards: kinesis.listShards({ name: "orders", arn: Option.none() }, Option.none()),
        registerConsumer: kinesis.registerConsumer("the-arn", "reader"),
        describeConsumer: kinesis.describeConsumer("the-arn", "reader"),
        listConsumers: kinesis.listConsumers("the-arn", Option.none()),
        deregisterConsumer: kinesis.deregisterConsumer("the-arn", "reader")
      }
      for (const [operation, call] of Object.entries(calls)) {
        const asked = yield* Effect.fork(Effect.flip(call))
        yield* TestClock.adjust("9 seconds")
        assert.isTrue(Option.isNone(yield* Fiber.poll(asked)), operation)
        yield* TestClock.adjust("1 second")
        const error = yield* Fiber.join(asked)
        assert.strictEqual(error.reason, "Timeout")
        assert.strictEqual(error.operation, operation)
        assert.strictEqual(
          error.stream,
          operation.includes("onsumer") ? "the-arn" : operation === "region" ? "*" : "orders"
        )
      }
    }))
})

describe("metrics", () => {
  it.effect("are tagged with the app and what they belong to, once for each stream", () =>
    Effect.gen(function*() {
      const env = yield* environment
      const labels: Array<ReadonlyArray<MetricLabel.MetricLabel>> = []
      const counter: Metric.Metric.Counter<number> = Metric.make(
        MetricKeyType.counter<number>(),
        (_: number, tags) => {
          labels.push(tags)
        },
        () => Effect.runSync(Metric.value(Metric.counter("unused"))),
        () => {}
      )
      for (const stream of ["orders", "payments", "orders", "payments"]) yield* env.count(counter, 1, { stream })
      assert.deepStrictEqual(
        labels.slice(0, 2).map((tags) => tags.map(({ key, value }) => [key, value])),
        [[["app", "app"], ["stream", "orders"]], [["app", "app"], ["stream", "payments"]]]
      )
      assert.strictEqual(labels[2], labels[0])
      assert.strictEqual(labels[3], labels[1])
    }))
})
