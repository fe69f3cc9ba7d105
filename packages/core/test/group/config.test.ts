/** Wrong configuration is refused by name, before anything is registered. */
import { assert, describe, it } from "@effect/vitest"
import { KinesisClient, Kinesumer, KinesumerConfig, KinesumerError, StateStore } from "@kinesumer/core"
import { TestKinesis } from "@kinesumer/test-kit"
import { Config, ConfigProvider, Duration, Effect, Layer, Option } from "effect"
import { member, until, world } from "./support.js"

const refused = (options: Partial<KinesumerConfig.KinesumerOptions>) =>
  Effect.gen(function*() {
    const w = yield* world()
    yield* w.kinesis.createStream({ name: "orders" })
    const error = yield* Effect.flip(member(w, options))
    assert.deepStrictEqual(yield* w.store.listMembers("app"), [])
    assert.deepStrictEqual(yield* w.store.listShardVersions("app"), new Map())
    return error
  })

const wrong: ReadonlyArray<readonly [field: string, options: Partial<KinesumerConfig.KinesumerOptions>]> = [
  ["app", { app: "" }],
  ["app", { app: "x".repeat(256) }],
  ["memberId", { memberId: "" }],
  ["streams", { streams: [] }],
  ["streams[0]", { streams: [""] }],
  ["streams[1]", { streams: ["orders", "no spaces"] }],
  ["streams[0]", { streams: ["arn:aws:s3:::bucket"] }],
  ["streams[0].startFrom", { streams: [{ stream: "orders", startFrom: { timestamp: "tomorrow" } }] }],
  ["syncInterval", { syncInterval: 0 }],
  ["syncInterval", { syncInterval: "-1 seconds" }],
  ["livenessTimeout", { syncInterval: "5 seconds", livenessTimeout: "9 seconds" }],
  ["closeTimeout", { closeTimeout: Infinity }],
  ["bufferSize", { bufferSize: 0 }],
  ["bufferSize", { bufferSize: 1.5 }],
  ["bufferBytes", { bufferBytes: -1 }],
  ["commit.interval", { commit: { interval: 0 } }],
  ["commit.timeout", { commit: { timeout: "nonsense" as "1 seconds" } }],
  ["polling.limit", { polling: { limit: 10_001 } }],
  ["polling.limit", { polling: { limit: 0 } }],
  ["polling.idleInterval", { polling: { idleInterval: "100 millis" } }],
  ["fanOut.consumerName", { mode: "fanOut", app: "an app" }],
  ["fanOut.consumerName", { mode: "fanOut", app: "x".repeat(129) }],
  ["fanOut.consumerName", { mode: "fanOut", fanOut: { consumerName: "" } }],
  ["fanOut.consumerName", { fanOut: { consumerName: "a/b" } }],
  ["aggregation.expand", { aggregation: { expand: JSON.parse("\"no\"") as boolean } }],
  ["aggregation.outOfRange", { aggregation: { outOfRange: JSON.parse("\"ignore\"") as "drop" } }],
  ["fanOut.watchdog", { fanOut: { watchdog: "999 millis" } }],
  ["fanOut.registerTimeout", { fanOut: { registerTimeout: Infinity } }],
  ["fanOut.registerTimeout", { fanOut: { registerTimeout: 0 } }]
]

describe("wrong configuration", () => {
  for (const [field, options] of wrong) {
    it.scoped(`${field}: ${JSON.stringify(options)}`, () =>
      Effect.gen(function*() {
        const error = yield* refused(options)
        assert.instanceOf(error, KinesumerError.InvalidConfig)
        assert.strictEqual(error.field, field)
        assert.include(error.message, "must be")
      }))
  }

  it.scoped("a mode that does not exist", () =>
    Effect.gen(function*() {
      const mode = JSON.parse("\"push\"") as "polling"
      const error = yield* refused({ mode })
      assert.strictEqual(error.message, "mode is \"push\", but it must be \"polling\" or \"fanOut\"")
    }))

  it.scoped("an app that cannot be the name of a consumer is told what to do", () =>
    Effect.gen(function*() {
      const error = yield* refused({ mode: "fanOut", app: "the orders" })
      assert.strictEqual(
        error.message,
        "fanOut.consumerName is \"the orders\", but it must be 1 to 128 letters, digits, _ . or -. " +
          "It defaults to app, which is no such name: give the consumer one of its own"
      )
    }))

  it.scoped("an ARN of another region than the client's names both", () =>
    Effect.gen(function*() {
      const arn = "arn:aws:kinesis:eu-west-1:000000000000:stream/orders"
      const error = yield* refused({ streams: [arn] })
      assert.instanceOf(error, KinesumerError.InvalidConfig)
      assert.include(error.message, arn)
      assert.include(error.message, "us-east-1")
    }))

  it.scoped("a stream that does not exist is named", () =>
    Effect.gen(function*() {
      const error = yield* refused({ streams: ["orders", "nowhere"] })
      assert.strictEqual(error._tag, "KinesisError")
      assert.include(error.message, "nowhere")
    }))

  it.scoped("a stream that is not configured cannot be paused", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders" })
      const m = yield* member(w)
      const error = yield* Effect.flip(m.service.pause("payments"))
      assert.include(error.message, "orders")
    }))

  it.scoped("refresh refuses wrong streams and changes nothing", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders" })
      const m = yield* member(w)
      const before = yield* m.service.assignment
      for (const streams of [[], ["nowhere"], ["no spaces"]]) yield* Effect.flip(m.service.refresh(streams))
      assert.deepStrictEqual(yield* m.service.assignment, before)
    }))
})

describe("fanOut", () => {
  const checked = (options: Partial<KinesumerConfig.KinesumerOptions>) =>
    KinesumerConfig.make({ app: "an app", streams: ["orders"], ...options })

  it.effect("has defaults, in both modes", () =>
    Effect.gen(function*() {
      const { fanOut, mode } = yield* checked({})
      assert.strictEqual(mode, "polling")
      // Whatever the app is called: the name is not used.
      assert.strictEqual(fanOut.consumerName, "an app")
      assert.deepStrictEqual(fanOut.watchdog, Duration.seconds(30))
      assert.deepStrictEqual(fanOut.registerTimeout, Duration.minutes(2))
      assert.strictEqual((yield* checked({ mode: "fanOut", app: "an.app" })).fanOut.consumerName, "an.app")
    }))

  it.effect("takes a name for the consumer beside any app", () =>
    Effect.gen(function*() {
      const { fanOut, mode } = yield* checked({
        mode: "fanOut",
        fanOut: { consumerName: "x".repeat(128), watchdog: "1 second", registerTimeout: "5 minutes" }
      })
      assert.strictEqual(mode, "fanOut")
      assert.strictEqual(fanOut.consumerName.length, 128)
      assert.deepStrictEqual(fanOut.watchdog, Duration.seconds(1))
      assert.deepStrictEqual(fanOut.registerTimeout, Duration.minutes(5))
    }))
})

describe("aggregation", () => {
  it.effect("is taken apart and nothing of it dropped, unless something else is said", () =>
    Effect.gen(function*() {
      const checked = (aggregation: KinesumerConfig.KinesumerOptions["aggregation"]) =>
        Effect.map(
          KinesumerConfig.make({ app: "app", streams: ["orders"], aggregation }),
          (config) => config.aggregation
        )
      assert.deepStrictEqual(yield* checked(undefined), { expand: true, outOfRange: "deliver" })
      assert.deepStrictEqual(yield* checked({ expand: false }), { expand: false, outOfRange: "deliver" })
      assert.deepStrictEqual(yield* checked({ outOfRange: "drop" }), { expand: true, outOfRange: "drop" })
    }))
})

describe("layerConfig", () => {
  it.scoped("takes the options from Config", () =>
    Effect.gen(function*() {
      const kinesis = yield* TestKinesis.make()
      yield* kinesis.createStream({ name: "orders" })
      const live = Kinesumer.layerConfig({
        app: Config.string("APP"),
        streams: Config.array(Config.string(), "STREAMS"),
        syncInterval: Config.duration("SYNC"),
        aggregation: {
          expand: Config.boolean("EXPAND"),
          outOfRange: Config.literal("deliver", "drop")("OUT_OF_RANGE")
        }
      }).pipe(
        Layer.provide(Layer.succeed(KinesisClient.KinesisClient, kinesis.client)),
        Layer.provide(StateStore.layerMemory),
        Layer.provide(Layer.setConfigProvider(ConfigProvider.fromMap(
          new Map([["APP", "shop"], ["STREAMS", "orders"], ["SYNC", "2 seconds"], ["EXPAND", "yes"], [
            "OUT_OF_RANGE",
            "drop"
          ]])
        )))
      )
      const context = yield* Layer.build(live)
      const kinesumer = yield* Effect.provide(Kinesumer.Kinesumer, context)
      assert.strictEqual((yield* kinesumer.assignment).length, 1)
    }))
})

describe("names and ARNs", () => {
  it.scoped("a name and its ARN are one stream, read once, under one key", () =>
    Effect.gen(function*() {
      const w = yield* world()
      const { arn } = yield* w.kinesis.createStream({ name: "orders" })
      const m = yield* member(w, { streams: [arn, "orders"] })
      assert.deepStrictEqual((yield* m.service.assignment).map(({ stream }) => stream), [arn])
      assert.deepStrictEqual([...(yield* w.store.listShardVersions("app")).keys()], ["orders"])
    }))

  it.scoped("streams of one name in two accounts do not share a row", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders" })
      const { arn } = yield* w.kinesis.createStream({ name: "orders", account: "111111111111" })
      const m = yield* member(w, { streams: ["orders", arn] })
      yield* until(Effect.map(m.service.assignment, (shards) => shards.length === 2))
      assert.deepStrictEqual(new Set((yield* w.store.listShardVersions("app")).keys()), new Set(["orders", arn]))
      for (const key of ["orders", arn]) {
        assert.isTrue((yield* w.store.listCheckpoints("app", key)).every(({ owner }) => Option.isSome(owner)))
      }
    }))
})
