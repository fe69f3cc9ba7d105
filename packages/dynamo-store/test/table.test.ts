import { CreateTableCommand, DescribeTableCommand, ScalarAttributeType } from "@aws-sdk/client-dynamodb"
import { assert, describe, it } from "@effect/vitest"
import { StateStore } from "@kinesumer/core/StateStore"
import { DynamoStateStore } from "@kinesumer/dynamo-store"
import * as LocalServers from "@kinesumer/test-kit/LocalServers"
import {
  Array as Arr,
  Config,
  ConfigProvider,
  Effect,
  Fiber,
  Layer,
  Option,
  Redacted,
  TestClock,
  TestServices
} from "effect"
import * as Proxy from "./utils/proxy.js"
import { app, client, memberOf, open, tableName } from "./utils/setup.js"

const createTable = Effect.fnUntraced(
  function*(endpoint: string, ...keys: ReadonlyArray<readonly [string, "S" | "N"]>) {
    const sdk = yield* client(endpoint)
    yield* Effect.promise(() =>
      sdk.send(
        new CreateTableCommand({
          TableName: tableName,
          BillingMode: "PAY_PER_REQUEST",
          KeySchema: keys.map(([AttributeName], index) => ({ AttributeName, KeyType: index === 0 ? "HASH" : "RANGE" })),
          AttributeDefinitions: keys.map(([AttributeName, type]) => ({
            AttributeName,
            AttributeType: ScalarAttributeType[type]
          }))
        })
      )
    )
  }
)

const describeTable = Effect.fnUntraced(function*(endpoint: string) {
  const sdk = yield* client(endpoint)
  return (yield* Effect.promise(() => sdk.send(new DescribeTableCommand({ TableName: tableName })))).Table
})

describe("the table", () => {
  it.scopedLive("that is missing is named, with where it was looked for and what to do", () =>
    Effect.gen(function*() {
      const { endpoint } = yield* LocalServers.dynalite()
      const error = yield* Effect.flip(open(endpoint, { createTable: false }))
      assert.strictEqual(error.reason, "TableMissing")
      for (const part of [`"${tableName}"`, "eu-west-1", endpoint, "createTable: true", "\"pk\"", "\"sk\""]) {
        assert.include(error.message, part)
      }
    }))

  it.scopedLive("is created on demand, and used from then on", () =>
    Effect.gen(function*() {
      const { endpoint } = yield* LocalServers.dynalite()
      const store = yield* open(endpoint)
      yield* store.registerMember(app, memberOf("a"))
      const table = yield* describeTable(endpoint)
      assert.strictEqual(table?.BillingModeSummary?.BillingMode, "PAY_PER_REQUEST")
      for (const createTable of [true, false]) {
        const again = yield* open(endpoint, { createTable })
        assert.deepStrictEqual(yield* again.listMembers(app), [memberOf("a")])
      }
    }))

  it.scopedLive("is created by one of many that start together", () =>
    Effect.gen(function*() {
      const { endpoint } = yield* LocalServers.dynalite({ changeTime: "200 millis" })
      const stores = yield* Effect.forEach(Arr.range(1, 10), () => open(endpoint), { concurrency: "unbounded" })
      yield* Effect.forEach(stores, (store, index) => store.registerMember(app, memberOf(`${index}`)))
      const seen = yield* Effect.forEach(stores, (store) => store.listMembers(app))
      assert.deepStrictEqual(seen.map((members) => members.length), Arr.replicate(10, 10))
    }))

  it.scopedLive("is waited for while it is being created", () =>
    Effect.gen(function*() {
      const { endpoint } = yield* LocalServers.dynalite({ changeTime: "500 millis" })
      yield* createTable(endpoint, ["pk", "S"], ["sk", "S"])
      const store = yield* open(endpoint, { createTable: false })
      assert.deepStrictEqual(yield* store.listMembers(app), [])
    }))

  it.scoped("is not waited for longer than a minute", () =>
    Effect.gen(function*() {
      const { endpoint } = yield* LocalServers.dynalite({ changeTime: "1 hour" })
      yield* createTable(endpoint, ["pk", "S"], ["sk", "S"])
      const fiber = yield* Effect.fork(Effect.flip(open(endpoint, { requestTimeout: "1 hour" })))
      yield* TestClock.adjust("5 seconds").pipe(
        Effect.zipRight(TestServices.provideLive(Effect.sleep("10 millis"))),
        Effect.zipRight(Fiber.poll(fiber)),
        Effect.repeat({ until: Option.isSome })
      )
      const error = yield* Fiber.join(fiber)
      assert.strictEqual(error.reason, "Timeout")
      assert.include(error.message, "1m")
    }))

  for (
    const [name, keys, parts] of [
      ["without a sort key", [["pk", "S"]], ["sort key \"sk\" is missing"]],
      ["with other keys", [["id", "S"], ["range", "S"]], [
        "partition key \"pk\" is missing",
        "\"id\"",
        "\"sk\"",
        "\"range\""
      ]],
      ["with a number for a key", [["pk", "S"], ["sk", "N"]], ["sort key \"sk\" is not a String"]]
    ] as const
  ) {
    it.scopedLive(`${name} is refused`, () =>
      Effect.gen(function*() {
        const { endpoint } = yield* LocalServers.dynalite()
        yield* createTable(endpoint, ...keys)
        const error = yield* Effect.flip(open(endpoint))
        assert.strictEqual(error.reason, "TableInvalid")
        for (const part of [...parts, tableName, endpoint]) assert.include(error.message, part)
      }))
  }

  it.scopedLive("whose name cannot be is refused", () =>
    Effect.gen(function*() {
      const { endpoint } = yield* LocalServers.dynalite()
      const error = yield* Effect.flip(open(endpoint, { tableName: "no such name!" }))
      assert.strictEqual(error.reason, "TableInvalid")
    }))

  it.scopedLive("that is archived is refused", () =>
    Effect.gen(function*() {
      const { endpoint } = yield* LocalServers.dynalite()
      yield* open(endpoint)
      const proxy = yield* Proxy.make(endpoint)
      proxy.fault = () =>
        Proxy.Fault.Answer({ status: 200, body: { Table: { TableName: tableName, TableStatus: "ARCHIVED" } } })
      const error = yield* Effect.flip(open(proxy.endpoint))
      assert.strictEqual(error.reason, "TableInvalid")
      assert.include(error.message, "ARCHIVED")
    }))
})

describe("access", () => {
  it.scopedLive("that is denied names the permissions", () =>
    Effect.gen(function*() {
      const proxy = yield* Proxy.make("http://127.0.0.1:1")
      proxy.fault = () => Proxy.exception("AccessDeniedException")
      const error = yield* Effect.flip(open(proxy.endpoint))
      assert.strictEqual(error.reason, "AccessDenied")
      assert.include(error.message, "dynamodb:DescribeTable")
    }))

  it.scopedLive("without credentials is denied when the layer is built", () =>
    Effect.gen(function*() {
      const { endpoint } = yield* LocalServers.dynalite()
      const cause = Object.assign(new Error("Could not load credentials from any providers"), {
        name: "CredentialsProviderError"
      })
      const error = yield* Effect.flip(open(endpoint, { credentials: () => Promise.reject(cause) }))
      assert.strictEqual(error.reason, "AccessDenied")
      assert.include(error.message, "Could not load credentials")
    }))

  it.scopedLive("asks a provider of credentials", () =>
    Effect.gen(function*() {
      const { endpoint } = yield* LocalServers.dynalite()
      let asked = 0
      const store = yield* open(endpoint, {
        credentials: () => {
          asked++
          return Promise.resolve({ accessKeyId: "key", secretAccessKey: "secret" })
        }
      })
      assert.deepStrictEqual(yield* store.listMembers(app), [])
      assert.isAbove(asked, 0)
    }))
})

describe("layers", () => {
  const settings = (endpoint: string) =>
    Layer.setConfigProvider(ConfigProvider.fromMap(
      new Map([["TABLE", tableName], ["ENDPOINT", endpoint], ["KEY", "key"], ["SECRET", "secret"], [
        "TIMEOUT",
        "2 seconds"
      ]])
    ))

  it.scopedLive("layerConfig reads its options from the configuration", () =>
    Effect.gen(function*() {
      const { endpoint } = yield* LocalServers.dynalite()
      const layer = DynamoStateStore.layerConfig({
        tableName: Config.string("TABLE"),
        region: Config.succeed("eu-west-1"),
        endpoint: Config.string("ENDPOINT"),
        credentials: Config.all({
          accessKeyId: Config.string("KEY"),
          secretAccessKey: Config.redacted("SECRET")
        }),
        createTable: Config.boolean("CREATE").pipe(Config.withDefault(true)),
        requestTimeout: Config.duration("TIMEOUT")
      }).pipe(Layer.provide(settings(endpoint)))
      const members = yield* Effect.provide(Effect.flatMap(StateStore, (store) => store.listMembers(app)), layer)
      assert.deepStrictEqual(members, [])
    }))

  it.scopedLive("layer takes secrets as they are kept", () =>
    Effect.gen(function*() {
      const { endpoint } = yield* LocalServers.dynalite()
      const layer = DynamoStateStore.layer({
        tableName,
        region: "eu-west-1",
        endpoint,
        credentials: {
          accessKeyId: "key",
          secretAccessKey: Redacted.make("secret"),
          sessionToken: Redacted.make("token")
        },
        createTable: true
      })
      const members = yield* Effect.provide(Effect.flatMap(StateStore, (store) => store.listMembers(app)), layer)
      assert.deepStrictEqual(members, [])
    }))
})
