import { assert, describe, it } from "@effect/vitest"
import * as KinesisClient from "@kinesumer/core/KinesisClient"
import { KinesisError, type KinesisErrorReason } from "@kinesumer/core/KinesisError"
import * as Position from "@kinesumer/core/Position"
import {
  Config,
  ConfigProvider,
  Context,
  DateTime,
  Deferred,
  Effect,
  Exit,
  Fiber,
  Layer,
  Option,
  Redacted,
  Scope
} from "effect"
import type { ServerResponse } from "node:http"
import { assumeRole } from "../src/internal/kinesisSdk.js"
import * as Stub from "./utils/stubKinesis.js"

type Service = Context.Tag.Service<KinesisClient.KinesisClient>

const arn = "arn:aws:kinesis:us-east-1:123456789012:stream/orders"
const byName: KinesisClient.StreamId = { name: "orders", arn: Option.none() }
const byArn: KinesisClient.StreamId = { name: "orders", arn: Option.some(arn) }
const shardId = "shardId-000000000001"

const options = {
  region: "us-east-1",
  credentials: { accessKeyId: "AKID", secretAccessKey: Redacted.make("secret") }
}

const clientOf = (options: KinesisClient.KinesisClientOptions) =>
  Effect.map(Layer.build(KinesisClient.layer(options)), Context.get(KinesisClient.KinesisClient))

const against = (answer: (response: ServerResponse, request: Stub.StubRequest) => void) =>
  Effect.gen(function*() {
    const stub = yield* Stub.make(answer)
    // The stub speaks nothing else.
    const client = yield* clientOf({ ...options, endpoint: stub.endpoint, protocol: "json" })
    return { stub, client }
  })

const bodies = (stub: Stub.StubKinesis) => stub.requests.map(({ body }): unknown => JSON.parse(body))

const summary = {
  StreamDescriptionSummary: {
    StreamName: "orders",
    StreamARN: arn,
    StreamStatus: "ACTIVE",
    StreamCreationTimestamp: 1735689600.25,
    RetentionPeriodHours: 24,
    EnhancedMonitoring: [],
    OpenShardCount: 1
  }
}

/** Sets variables of the environment for as long as the scope lives. */
const withEnvironment = (variables: Readonly<Record<string, string | undefined>>) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const before = Object.keys(variables).map((name) => [name, process.env[name]] as const)
      setAll(Object.entries(variables))
      return before
    }),
    (before) => Effect.sync(() => setAll(before))
  )

const setAll = (variables: ReadonlyArray<readonly [string, string | undefined]>) => {
  for (const [name, value] of variables) {
    if (value === undefined) Reflect.deleteProperty(process.env, name)
    else process.env[name] = value
  }
}

/** Nothing of this machine's own set-up. */
const bareEnvironment = {
  AWS_REGION: undefined,
  AWS_DEFAULT_REGION: undefined,
  AWS_PROFILE: undefined,
  AWS_ACCESS_KEY_ID: undefined,
  AWS_SECRET_ACCESS_KEY: undefined,
  AWS_SESSION_TOKEN: undefined,
  AWS_CONFIG_FILE: "/dev/null",
  AWS_SHARED_CREDENTIALS_FILE: "/dev/null",
  AWS_EC2_METADATA_DISABLED: "true"
}

describe("requests", () => {
  it.scopedLive("address a stream by its ARN where there is one, else by its name", () =>
    Effect.gen(function*() {
      const { client, stub } = yield* against((response, { operation }) =>
        Stub.json(
          operation === "DescribeStreamSummary"
            ? summary
            : operation === "GetShardIterator"
            ? { ShardIterator: "iterator" }
            : { Shards: [], Records: [] }
        )(response)
      )
      for (const stream of [byName, byArn]) {
        yield* client.describeStream(stream)
        yield* client.listShards(stream, Option.none())
        yield* client.listShards(stream, Option.some("token"))
        yield* client.getShardIterator(stream, shardId, Position.trimHorizon)
        yield* client.getRecords(stream, shardId, { iterator: "iterator", limit: 10 })
      }
      assert.deepStrictEqual(bodies(stub), [
        { StreamName: "orders" },
        { StreamName: "orders", MaxResults: 1000 },
        { NextToken: "token", MaxResults: 1000 },
        { StreamName: "orders", ShardId: shardId, ShardIteratorType: "TRIM_HORIZON" },
        { ShardIterator: "iterator", Limit: 10 },
        { StreamARN: arn },
        { StreamARN: arn, MaxResults: 1000 },
        { NextToken: "token", MaxResults: 1000 },
        { StreamARN: arn, ShardId: shardId, ShardIteratorType: "TRIM_HORIZON" },
        { StreamARN: arn, ShardIterator: "iterator", Limit: 10 }
      ])
    }))

  it.scopedLive("ask for an iterator at each kind of position", () =>
    Effect.gen(function*() {
      const { client, stub } = yield* against(Stub.json({ ShardIterator: "iterator" }))
      const iterator = (position: Position.Position) => client.getShardIterator(byName, shardId, position)
      yield* iterator(Position.trimHorizon)
      yield* iterator(Position.atTimestamp(DateTime.unsafeMake("2025-01-01T00:00:00.250Z")))
      yield* iterator(Position.afterSequence("123"))
      yield* iterator(Position.afterSequence("123", 0))
      const at = { StreamName: "orders", ShardId: shardId }
      const asked = [
        { ...at, ShardIteratorType: "TRIM_HORIZON" },
        { ...at, ShardIteratorType: "AT_TIMESTAMP", Timestamp: 1735689600.25 },
        { ...at, ShardIteratorType: "AFTER_SEQUENCE_NUMBER", StartingSequenceNumber: "123" },
        { ...at, ShardIteratorType: "AT_SEQUENCE_NUMBER", StartingSequenceNumber: "123" }
      ]
      assert.deepStrictEqual(bodies(stub), asked)
      for (const position of [Position.shardEnd, Position.afterSequence(""), Position.afterSequence("SHARD_END")]) {
        const error = yield* Effect.flip(iterator(position))
        assert.strictEqual(error.reason, "InvalidArgument")
      }
      assert.lengthOf(stub.requests, asked.length)
    }))

  it.scopedLive("are sent once, whatever is answered, so that who paces them hears of every refusal", () =>
    Effect.gen(function*() {
      yield* withEnvironment({ AWS_MAX_ATTEMPTS: "5", AWS_RETRY_MODE: "adaptive" })
      const answers: ReadonlyArray<readonly [(response: ServerResponse) => void, KinesisErrorReason]> = [
        [Stub.failure("ProvisionedThroughputExceededException", 400), "Throttled"],
        [Stub.failure("ExpiredIteratorException", 400), "ExpiredIterator"],
        [Stub.failure("ResourceNotFoundException", 400), "NotFound"],
        [Stub.failure("InternalFailure", 500), "Unavailable"],
        [Stub.failure("com.amazonaws.kinesis#AccessDeniedException", 400), "AccessDenied"],
        [(response) => response.writeHead(502, { "content-type": "text/html" }).end("<html>"), "Unavailable"],
        [(response) => response.writeHead(200).end("<html>"), "Unknown"],
        [(response) => response.destroy(), "Unavailable"],
        [
          (response) => response.writeHead(200, { "content-length": "9" }).write("{", () => response.destroy()),
          "Unavailable"
        ]
      ]
      let next = 0
      const { client, stub } = yield* against((response) => answers[next++]?.[0](response))
      for (const [index, [, reason]] of answers.entries()) {
        const error = yield* Effect.flip(client.getRecords(byName, shardId, { iterator: "iterator", limit: 1 }))
        assert.strictEqual(error.reason, reason, error.message)
        assert.strictEqual(error.operation, "getRecords")
        assert.strictEqual(error.stream, "orders")
        assert.strictEqual(error.shardId, shardId)
        assert.lengthOf(stub.requests, index + 1)
      }
    }))

  it.scopedLive("are aborted by interruption and by a time limit, before an answer and in the middle of one", () =>
    Effect.gen(function*() {
      const received = yield* Deferred.make<void>()
      const { client, stub } = yield* against((response, { body }) => {
        if (body.includes("half")) response.writeHead(200, { "content-length": "100" }).write("{")
        Deferred.unsafeDone(received, Effect.void)
      })
      const aborted = (count: number) =>
        stub.aborted.pipe(Effect.delay(5), Effect.repeat({ until: (actual) => actual === count }))
      const fiber = yield* Effect.fork(client.describeStream(byName))
      yield* Deferred.await(received)
      yield* Fiber.interrupt(fiber)
      yield* aborted(1)
      const get = (iterator: string) =>
        client.getRecords(byName, shardId, { iterator, limit: 1 }).pipe(Effect.timeout(100), Effect.flip)
      assert.strictEqual((yield* get("none"))._tag, "TimeoutException")
      yield* aborted(2)
      assert.strictEqual((yield* get("half"))._tag, "TimeoutException")
      yield* aborted(3)
    }))
})

describe("answers", () => {
  const records = (answer: object) =>
    Effect.flatMap(
      against(Stub.json(answer)),
      ({ client }) => client.getRecords(byName, shardId, { iterator: "iterator", limit: 1 })
    )

  it.scopedLive("hold records with their bytes", () =>
    Effect.gen(function*() {
      const result = yield* records({
        Records: [{
          SequenceNumber: "49590338271490256608559692538361571095921575989136588898",
          PartitionKey: "key",
          Data: Buffer.from([0, 1, 254, 255]).toString("base64"),
          ApproximateArrivalTimestamp: 1735689600.5
        }],
        NextShardIterator: "next",
        MillisBehindLatest: 0
      })
      assert.deepStrictEqual(result, {
        records: [{
          sequenceNumber: "49590338271490256608559692538361571095921575989136588898",
          partitionKey: "key",
          data: Uint8Array.of(0, 1, 254, 255),
          arrivalTime: new Date(1735689600500)
        }],
        nextIterator: Option.some("next"),
        millisBehindLatest: Option.some(0),
        childShards: []
      })
    }))

  it.scopedLive("end a shard when the next iterator is absent, null or empty", () =>
    Effect.gen(function*() {
      for (
        const end of [{}, { NextShardIterator: null, ChildShards: null }, { NextShardIterator: "", ChildShards: [] }]
      ) {
        const result = yield* records({ Records: [], ...end })
        assert.deepStrictEqual(result, {
          records: [],
          nextIterator: Option.none(),
          millisBehindLatest: Option.none(),
          childShards: []
        })
      }
    }))

  it.scopedLive("name the children of a closed shard, which are open", () =>
    Effect.gen(function*() {
      const HashKeyRange = { StartingHashKey: "0", EndingHashKey: "9" }
      const result = yield* records({
        Records: [],
        ChildShards: [{ ShardId: "child", ParentShards: [shardId, "", "other"], HashKeyRange }]
      })
      assert.deepStrictEqual(result.childShards, [{
        shardId: "child",
        parents: [shardId, "other"],
        hashKeyRange: { start: "0", end: "9" },
        closed: false
      }])
    }))

  it.scopedLive("list shards: closed with an end of their sequence numbers, parents without empty ones", () =>
    Effect.gen(function*() {
      const HashKeyRange = { StartingHashKey: "0", EndingHashKey: "9" }
      const SequenceNumberRange = { StartingSequenceNumber: "1" }
      const { client } = yield* against(Stub.json({
        Shards: [
          { ShardId: "a", HashKeyRange, SequenceNumberRange: { ...SequenceNumberRange, EndingSequenceNumber: "2" } },
          { ShardId: "b", HashKeyRange, SequenceNumberRange, ParentShardId: "a", AdjacentParentShardId: "" },
          { ShardId: "c", HashKeyRange, SequenceNumberRange, ParentShardId: "a", AdjacentParentShardId: "z" },
          { ShardId: "d", HashKeyRange, SequenceNumberRange, ParentShardId: null }
        ],
        NextToken: ""
      }))
      const { nextToken, shards } = yield* client.listShards(byName, Option.none())
      assert.deepStrictEqual(nextToken, Option.none())
      assert.deepStrictEqual(shards.map(({ closed, parents, shardId }) => ({ closed, parents, shardId })), [
        { shardId: "a", parents: [], closed: true },
        { shardId: "b", parents: ["a"], closed: false },
        { shardId: "c", parents: ["a", "z"], closed: false },
        { shardId: "d", parents: [], closed: false }
      ])
    }))

  it.scopedLive("without an identity of what they hold are refused", () =>
    Effect.gen(function*() {
      const noSequence = yield* Effect.flip(records({ Records: [{ PartitionKey: "key", Data: "" }] }))
      assert.include(noSequence.message, "Unknown: The answer of Kinesis holds a record without a sequence number")
      const noShard = yield* Effect.flip(records({ Records: [], ChildShards: [{ ParentShards: [] }] }))
      assert.include(noShard.message, "a shard without an id")
      const { client } = yield* against(Stub.json({}))
      assert.include((yield* Effect.flip(client.describeStream(byName))).message, "a stream without its name")
      const noIterator = yield* Effect.flip(client.getShardIterator(byName, shardId, Position.trimHorizon))
      assert.include(noIterator.message, "no shard iterator")
    }))

  it.scopedLive("tell the time of Kinesis, and no other", () =>
    Effect.gen(function*() {
      let headers: Readonly<Record<string, string>> = { date: "Tue, 02 Jan 2001 03:04:05 GMT" }
      const { client } = yield* against((response) => {
        response.sendDate = false
        Stub.json(summary, 200, headers)(response)
      })
      const description = yield* client.describeStream(byName)
      assert.deepStrictEqual(description, {
        name: "orders",
        arn,
        status: "ACTIVE",
        createdAt: DateTime.unsafeMake("2025-01-01T00:00:00.250Z"),
        answeredAt: DateTime.unsafeMake("2001-01-02T03:04:05Z")
      })
      for (const bad of [{}, { date: "yesterday GMT" }, { date: "Tue, 02 Jan 2001 03:04:05" }]) {
        headers = bad
        const error = yield* Effect.flip(client.describeStream(byName))
        assert.strictEqual(error.reason, "Unknown")
        assert.include(error.message, "Date header")
      }
    }))
})

describe("layer", () => {
  const getRecords = (client: Service) => client.getRecords(byName, shardId, { iterator: "iterator", limit: 1 })

  it.scopedLive("signs with static credentials, secret or plain", () =>
    Effect.gen(function*() {
      const stub = yield* Stub.make(Stub.json({ Records: [] }))
      const { endpoint } = stub
      yield* Effect.flatMap(clientOf({ ...options, endpoint }), getRecords)
      const credentials = {
        accessKeyId: "PLAIN",
        secretAccessKey: "secret",
        sessionToken: Redacted.make("the session")
      }
      yield* Effect.flatMap(clientOf({ region: "eu-west-1", endpoint, credentials }), getRecords)
      assert.include(stub.requests[0]?.headers.authorization, "Credential=AKID/")
      assert.include(stub.requests[0]?.headers.authorization, "/us-east-1/kinesis/")
      assert.include(stub.requests[1]?.headers.authorization, "Credential=PLAIN/")
      assert.include(stub.requests[1]?.headers.authorization, "/eu-west-1/kinesis/")
      assert.strictEqual(stub.requests[1]?.headers["x-amz-security-token"], "the session")
    }))

  it.scopedLive("asks a provider of credentials", () =>
    Effect.gen(function*() {
      const stub = yield* Stub.make(Stub.json({ Records: [] }))
      const client = yield* clientOf({
        region: "us-east-1",
        endpoint: stub.endpoint,
        credentials: () => Promise.resolve({ accessKeyId: "PROVIDED", secretAccessKey: "secret" })
      })
      yield* getRecords(client)
      assert.include(stub.requests[0]?.headers.authorization, "Credential=PROVIDED/")
    }))

  it.scopedLive("takes the endpoint, region and credentials of the environment, plain HTTP included", () =>
    Effect.gen(function*() {
      const stub = yield* Stub.make(Stub.json({ Records: [] }))
      yield* withEnvironment({
        ...bareEnvironment,
        AWS_ENDPOINT_URL_KINESIS: stub.endpoint,
        AWS_REGION: "sa-east-1",
        AWS_ACCESS_KEY_ID: "ENVIRONMENT",
        AWS_SECRET_ACCESS_KEY: "secret"
      })
      const client = yield* clientOf({})
      yield* getRecords(client)
      assert.include(stub.requests[0]?.headers.authorization, "Credential=ENVIRONMENT/")
      assert.strictEqual(yield* client.region, "sa-east-1")
    }))

  it.scopedLive("without a region or credentials fails its calls with what to set", () =>
    Effect.gen(function*() {
      yield* withEnvironment(bareEnvironment)
      const endpoint = "http://127.0.0.1:1"
      const noRegion = yield* clientOf({ endpoint, credentials: options.credentials })
      for (const error of [yield* Effect.flip(noRegion.region), yield* Effect.flip(getRecords(noRegion))]) {
        assert.strictEqual(error.reason, "InvalidArgument")
        assert.include(error.message, "Region is missing. Give KinesisClient.layer a region, or set AWS_REGION")
      }
      const noCredentials = yield* clientOf({ endpoint, region: "us-east-1" })
      const error = yield* Effect.flip(getRecords(noCredentials))
      assert.strictEqual(error.reason, "Unavailable")
      assert.include(error.message, "Give KinesisClient.layer credentials")
    }))

  it.scopedLive("finds nobody there: Unavailable", () =>
    Effect.gen(function*() {
      const { endpoint } = yield* Effect.scoped(Stub.make(Stub.silence))
      for (const address of [endpoint, endpoint.replace("http:", "https:"), "http://no-such-host.invalid"]) {
        const client = yield* clientOf({ ...options, endpoint: address })
        const error = yield* Effect.flip(getRecords(client))
        assert.strictEqual(error.reason, "Unavailable", error.message)
      }
    }))

  it.scopedLive("assumes a role with the credentials given", () =>
    Effect.gen(function*() {
      const kinesis = yield* Stub.make(Stub.json({ Records: [] }))
      const roleArn = "arn:aws:iam::123456789012:role/reader"
      const sts = yield* Stub.make((response) =>
        response.writeHead(200, { "content-type": "text/xml" }).end(
          `<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>` +
            `<AccessKeyId>ASSUMED</AccessKeyId><SecretAccessKey>secret</SecretAccessKey>` +
            `<SessionToken>token</SessionToken><Expiration>2100-01-01T00:00:00Z</Expiration>` +
            `</Credentials></AssumeRoleResult></AssumeRoleResponse>`
        )
      )
      yield* withEnvironment({ ...bareEnvironment, AWS_ENDPOINT_URL_STS: sts.endpoint })
      const client = yield* clientOf({ ...options, endpoint: kinesis.endpoint, roleArn })
      yield* getRecords(client)
      assert.include(sts.requests[0]?.headers.authorization, "Credential=AKID/")
      assert.strictEqual(new URLSearchParams(sts.requests[0]?.body).get("RoleArn"), roleArn)
      assert.include(kinesis.requests[0]?.headers.authorization, "Credential=ASSUMED/")
      assert.strictEqual(kinesis.requests[0]?.headers["x-amz-security-token"], "token")
    }))

  it.effect("says which package a role needs", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(assumeRole("the-role", undefined, () => Promise.reject(new Error("not found"))))
      assert.strictEqual(
        error.message,
        "layer *: InvalidArgument: roleArn \"the-role\" needs the package @aws-sdk/credential-providers, " +
          "which cannot be loaded: install it"
      )
    }))

  it.scoped("refuses an endpoint that is no address", () =>
    Effect.gen(function*() {
      for (const endpoint of ["localhost:4568", "", "ftp://localhost"]) {
        const error = yield* Effect.flip(clientOf({ ...options, endpoint }))
        assert.instanceOf(error, KinesisError)
        assert.include(error.message, `InvalidArgument: endpoint "${endpoint}" is not an address`)
      }
    }))

  it.scopedLive("keeps its connection for the next call, and closes it with its scope", () =>
    Effect.gen(function*() {
      const stub = yield* Stub.make(Stub.json({ Records: [] }))
      const scope = yield* Scope.make()
      const client = yield* Scope.extend(clientOf({ ...options, endpoint: stub.endpoint }), scope)
      yield* getRecords(client)
      yield* getRecords(client)
      assert.strictEqual(yield* stub.connections, 1)
      yield* Scope.close(scope, Exit.void)
      yield* stub.connections.pipe(Effect.delay(5), Effect.repeat({ until: (count) => count === 0 }))
    }))

  it.scopedLive("layerConfig reads the same options", () =>
    Effect.gen(function*() {
      const stub = yield* Stub.make(Stub.json({ Records: [] }))
      const layer = KinesisClient.layerConfig({
        region: Config.string("REGION"),
        endpoint: Config.string("ENDPOINT").pipe(Config.withDefault(undefined)),
        credentials: Config.all({ accessKeyId: Config.string("KEY"), secretAccessKey: Config.redacted("SECRET") })
      })
      const provide = (entries: ReadonlyArray<readonly [string, string]>) =>
        Effect.withConfigProvider(ConfigProvider.fromMap(new Map(entries)))
      const entries = [["REGION", "us-west-2"], ["KEY", "CONFIGURED"], ["SECRET", "secret"]] as const
      yield* Effect.flatMap(KinesisClient.KinesisClient, getRecords).pipe(
        Effect.provide(layer),
        provide([...entries, ["ENDPOINT", stub.endpoint]])
      )
      assert.include(stub.requests[0]?.headers.authorization, "Credential=CONFIGURED/")
      assert.include(stub.requests[0]?.headers.authorization, "/us-west-2/")
      const error = yield* Effect.flip(Effect.provide(Effect.void, layer).pipe(provide(entries.slice(1))))
      assert.strictEqual(error._tag, "ConfigError")
    }))
})
