/** Records in CBOR and in JSON: the same of both, and what becomes of servers that speak only one. */
import { assert, describe, it } from "@effect/vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as KinesisClient from "@kinesumer/core/KinesisClient"
import { KinesisError } from "@kinesumer/core/KinesisError"
import * as Position from "@kinesumer/core/Position"
import { Cause, Chunk, Context, Effect, Either, Exit, FastCheck, Layer, Logger, Option, Ref, Stream } from "effect"
import type { ServerResponse } from "node:http"
import * as RecordsCbor from "../src/internal/recordsCbor.js"
import * as Cbor from "./utils/cbor.js"
import * as Stub from "./utils/stubKinesis.js"
import * as StubSubscriptions from "./utils/stubSubscriptions.js"

const cborType = "application/x-amz-cbor-1.1"
const orders: KinesisClient.StreamId = { name: "orders", arn: Option.none() }
const shardId = "shardId-000000000001"

const clientOf = (endpoint: string, protocol?: KinesisClient.KinesisClientOptions["protocol"]) =>
  Effect.map(
    Layer.build(KinesisClient.layer({
      endpoint,
      region: "us-east-1",
      credentials: { accessKeyId: "AKID", secretAccessKey: "secret" },
      protocol
    })),
    Context.get(KinesisClient.KinesisClient)
  )

const getRecords = (client: Context.Tag.Service<KinesisClient.KinesisClient>) =>
  client.getRecords(orders, shardId, { iterator: "iterator", limit: 10 })

/** In the words of the wire, before it is given one of its forms. */
type Wire = Readonly<Record<string, unknown>>

const isBytes = (value: unknown): value is Uint8Array => value instanceof Uint8Array

const toJson = (value: unknown): unknown => {
  if (isBytes(value)) return Buffer.from(value).toString("base64")
  if (value instanceof Cbor.Time) return value.millis / 1000
  if (Array.isArray(value)) return value.map(toJson)
  return typeof value === "object" && value !== null
    ? Object.fromEntries(Object.entries(value).map(([name, member]) => [name, toJson(member)]))
    : value
}

/** Answers each request in the form in which it comes. */
const bilingual = (status: number, body: Wire, form: Cbor.Form = "definite", chunked = false) =>
(
  response: ServerResponse,
  { headers }: Stub.StubRequest
) => {
  const isCbor = headers["content-type"] === cborType
  response.writeHead(status, {
    "content-type": isCbor ? cborType : "application/x-amz-json-1.1",
    "x-amzn-requestid": "the request"
  }).end(isCbor ? Cbor.encode(body, form, chunked) : JSON.stringify(toJson(body)))
}

/** What a call comes to, without the cause, which is that of a form. */
const outcome = <A>(call: Effect.Effect<A, KinesisError>) =>
  Effect.map(Effect.either(call), Either.mapLeft(({ message, reason }) => ({ message, reason })))

const plain = ({ arrivalTime, data, partitionKey, sequenceNumber }: KinesisClient.RawRecord) => ({
  arrivalTime: arrivalTime?.getTime(),
  data: Buffer.from(data).toString("hex"),
  partitionKey,
  sequenceNumber
})

const maybe = <A>(arbitrary: FastCheck.Arbitrary<A>) => FastCheck.option(arbitrary)

const shard = FastCheck.record({
  ShardId: FastCheck.string(),
  ParentShards: maybe(FastCheck.array(FastCheck.string(), { maxLength: 2 })),
  HashKeyRange: maybe(FastCheck.record({ StartingHashKey: FastCheck.string(), EndingHashKey: FastCheck.string() }))
}, { requiredKeys: [] })

const record = FastCheck.record({
  SequenceNumber: FastCheck.oneof(
    { weight: 20, arbitrary: FastCheck.bigInt(0n, 2n ** 190n).map(String) },
    FastCheck.constantFrom("", null)
  ),
  ApproximateArrivalTimestamp: maybe(FastCheck.nat({ max: 4e12 }).map((millis) => new Cbor.Time(millis))),
  PartitionKey: maybe(FastCheck.string({ unit: "binary", maxLength: 60 })),
  Data: maybe(FastCheck.uint8Array({ maxLength: 400 })),
  EncryptionType: FastCheck.constantFrom("NONE", "KMS"),
  SomethingNew: FastCheck.anything({ maxDepth: 2, withNullPrototype: false }).filter((value) =>
    JSON.stringify(value) === JSON.stringify(JSON.parse(JSON.stringify(value ?? null)))
  )
}, { requiredKeys: ["Data"] }).chain((members) =>
  FastCheck.shuffledSubarray(Object.keys(members), { minLength: Object.keys(members).length }).map((names): Wire =>
    Object.fromEntries(names.map((name) => [name, Reflect.get(members, name)]))
  )
)

const answer = FastCheck.record({
  Records: FastCheck.array(record, { maxLength: 8 }),
  NextShardIterator: maybe(FastCheck.string()),
  MillisBehindLatest: maybe(FastCheck.nat()),
  ChildShards: maybe(FastCheck.array(shard, { maxLength: 2 })),
  Unknown: FastCheck.string()
}, { requiredKeys: [] })

const forms = FastCheck.record({
  form: FastCheck.constantFrom<Cbor.Form>("definite", "indefinite"),
  chunked: FastCheck.boolean()
})

describe("CBOR and JSON", () => {
  it.scopedLive("give the same records and the same errors, whatever is in an answer", () =>
    Effect.gen(function*() {
      let respond: (response: ServerResponse, request: Stub.StubRequest) => void = Stub.silence
      const stub = yield* Stub.make((response, request) => respond(response, request))
      const cbor = yield* clientOf(stub.endpoint, "cbor")
      const json = yield* clientOf(stub.endpoint, "json")
      const page = (client: typeof cbor) =>
        outcome(Effect.map(getRecords(client), (result) => ({ ...result, records: result.records.map(plain) })))
      for (const [body, { chunked, form }] of FastCheck.sample(FastCheck.tuple(answer, forms), 300)) {
        respond = bilingual(200, body, form, chunked)
        deepStrictEqual(yield* page(cbor), yield* page(json))
      }
      assert.deepStrictEqual(new Set(stub.requests.map(({ headers }) => headers["content-type"])).size, 2)
    }))

  it.scopedLive("give a typed error, or records, for an answer that is not made as it should be", () =>
    Effect.gen(function*() {
      const wrong = FastCheck.constantFrom<unknown>(null, 5, "text", true, [], {}, [null], [5], ["text"], [{}], [[]])
      const members = [
        "SequenceNumber",
        "PartitionKey",
        "Data",
        "ApproximateArrivalTimestamp",
        "ShardId",
        "HashKeyRange"
      ]
      const broken = FastCheck.oneof(
        FastCheck.record({ Records: wrong, NextShardIterator: wrong, MillisBehindLatest: wrong, ChildShards: wrong }),
        FastCheck.record({
          Records: FastCheck.array(FastCheck.dictionary(FastCheck.constantFrom(...members), wrong), { maxLength: 3 })
        }),
        FastCheck.record({
          ChildShards: FastCheck.array(FastCheck.dictionary(FastCheck.constantFrom(...members), wrong), {
            maxLength: 3
          })
        })
      )
      let respond: (response: ServerResponse, request: Stub.StubRequest) => void = Stub.silence
      const stub = yield* Stub.make((response, request) => respond(response, request))
      const cbor = yield* clientOf(stub.endpoint, "cbor")
      const json = yield* clientOf(stub.endpoint, "json")
      for (const body of FastCheck.sample(broken, 300)) {
        respond = bilingual(200, body)
        for (const client of [cbor, json]) {
          const exit = yield* Effect.exit(getRecords(client))
          if (Exit.isFailure(exit)) {
            assert.isFalse(Cause.isDie(exit.cause), `${JSON.stringify(body)}: ${Cause.pretty(exit.cause)}`)
          }
        }
      }
    }))

  it.scopedLive("give the same errors for what is refused", () =>
    Effect.gen(function*() {
      let respond: (response: ServerResponse, request: Stub.StubRequest) => void = Stub.silence
      const stub = yield* Stub.make((response, request) => respond(response, request))
      const cbor = yield* clientOf(stub.endpoint, "cbor")
      const json = yield* clientOf(stub.endpoint, "json")
      const names = [
        "ExpiredIteratorException",
        "ProvisionedThroughputExceededException",
        "KMSDisabledException",
        "New"
      ]
      for (const status of [400, 403, 429, 500, 503]) {
        for (const __type of [...names, "com.amazonaws.kinesis#ResourceNotFoundException"]) {
          for (const rest of [{ message: "the message" }, { Message: "the message" }, {}]) {
            respond = bilingual(status, { __type, ...rest })
            const [first, second] = [yield* outcome(getRecords(cbor)), yield* outcome(getRecords(json))]
            assert.isTrue(Either.isLeft(first))
            deepStrictEqual(first, second)
          }
        }
      }
    }))

  it.scopedLive("give the same events of a subscription, and the same ends", () =>
    Effect.gen(function*() {
      const records = FastCheck.sample(FastCheck.array(record, { maxLength: 4 }), { numRuns: 20, seed: 1 })
      const event = (Records: ReadonlyArray<Wire>): Wire => ({
        Records,
        ContinuationSequenceNumber: "7",
        MillisBehindLatest: 3
      })
      for (const Records of records) {
        const stub = yield* StubSubscriptions.make("http:", (answer, { headers }) => {
          const encode = headers["content-type"] === cborType
            ? (body: Wire) => Cbor.encode(body)
            : (body: Wire) => Buffer.from(JSON.stringify(toJson(body)))
          answer.write(
            StubSubscriptions.frame({ ":message-type": "event", ":event-type": "initial-response" }, encode({}))
          )
          answer.write(
            StubSubscriptions.frame(
              { ":message-type": "event", ":event-type": "SubscribeToShardEvent" },
              encode(event(Records))
            )
          )
          answer.write(
            StubSubscriptions.frame(
              { ":message-type": "exception", ":exception-type": "ResourceInUseException" },
              encode({ message: "the message" })
            )
          )
          answer.end()
        })
        const read = (protocol: "cbor" | "json") =>
          Effect.gen(function*() {
            const client = yield* clientOf(stub.endpoint, protocol)
            const events = yield* Ref.make<ReadonlyArray<unknown>>([])
            const end = yield* outcome(Stream.runForEach(
              client.subscribeToShard(orders, shardId, { consumerArn: "arn", position: Position.trimHorizon }),
              (event) => Ref.update(events, (all) => [...all, { ...event, records: event.records.map(plain) }])
            ))
            return [yield* Ref.get(events), end]
          })
        const [cbor, json] = [yield* read("cbor"), yield* read("json")]
        deepStrictEqual(cbor, json)
        assert.isTrue(Either.isEither(cbor[1]) && Either.isLeft(cbor[1]))
      }
    }))
})

describe("CBOR that is none", () => {
  const body = Cbor.encode({
    Records: [1, 2, 3].map((index) => ({
      SequenceNumber: `${index}`,
      PartitionKey: "key",
      Data: new Uint8Array(20),
      ApproximateArrivalTimestamp: new Cbor.Time(1)
    })),
    NextShardIterator: "next",
    ChildShards: [{ ShardId: "s", ParentShards: ["p"], HashKeyRange: { StartingHashKey: "0", EndingHashKey: "1" } }]
  })

  const read = (bytes: Uint8Array) => {
    const answer = RecordsCbor.decode(bytes)
    const records = "get" in answer.records ? answer.records : undefined
    // What was gone over can be read.
    return { answer, records: records === undefined ? answer.records : RecordsCbor.unpack(records) }
  }

  it("is noticed wherever it is cut off", () => {
    for (let length = 1; length < body.length; length++) {
      assert.throws(() => read(body.subarray(0, length)), /cut off/)
    }
  })

  it.prop("is read or refused, in time and memory that its length bounds, whatever is changed", [
    FastCheck.array(FastCheck.tuple(FastCheck.nat(body.length - 1), FastCheck.nat(255)), { minLength: 1, maxLength: 6 })
  ], ([changes]) => {
    const bytes = Uint8Array.from(body)
    for (const [at, value] of changes) bytes[at] = value
    let decoded: ReturnType<typeof RecordsCbor.decode>
    try {
      decoded = RecordsCbor.decode(bytes)
    } catch (error) {
      assert.instanceOf(error, Error)
      assert.notInstanceOf(error, TypeError)
      assert.notInstanceOf(error, RangeError)
      return
    }
    for (const { data, sequenceNumber } of RecordsCbor.unpack(decoded.records)) {
      assert.isAtMost(data.byteLength + sequenceNumber.length, bytes.length * 3)
    }
  }, { fastCheck: { numRuns: 3_000 } })

  const records = [0xa1, 0x67, ...Buffer.from("Records")]
  const hostile: ReadonlyArray<readonly [string, ReadonlyArray<number>]> = [
    ["more records than bytes", [...records, 0x9b, 0, 0, 0, 1, 0, 0, 0, 0]],
    ["a length beyond what a number holds", [...records, 0x9b, 255, 255, 255, 255, 255, 255, 255, 255]],
    ["data of 4 GiB", [...records, 0x81, 0xa1, 0x64, ...Buffer.from("Data"), 0x5a, 255, 255, 255, 255, 1]],
    ["arrays on arrays", [0xa1, 0x61, 0x78, ...Array.from({ length: 100_000 }, () => 0x81)]],
    ["tags on tags", [0xa1, 0x61, 0x78, ...Array.from({ length: 100_000 }, () => 0xc1)]],
    ["a huge number", [0xa1, 0x61, 0x78, 0xc2, 0x5a, 0, 255, 255, 255, 1]],
    ["chunks in chunks", [...records, 0x81, 0xa1, 0x64, ...Buffer.from("Data"), 0x5f, 0x5f, 0x5f, 0x41, 1, 0xff]],
    ["a text where there should be records", [...records, 0x61, 0x78]],
    ["a reserved length", [...records, 0x9c]],
    ["a page that is no map", [0x83, 1, 2, 3]]
  ]

  it.scopedLive("is a typed error of the call", () =>
    Effect.gen(function*() {
      let bytes = Buffer.alloc(0)
      const stub = yield* Stub.make((response) => response.writeHead(200, { "content-type": cborType }).end(bytes))
      const client = yield* clientOf(stub.endpoint)
      for (const [what, content] of hostile) {
        bytes = Buffer.from(content)
        const error = yield* Effect.flip(getRecords(client))
        assert.instanceOf(error, KinesisError, what)
        assert.strictEqual(error.reason, "Unknown", what)
        assert.include(error.message, what.includes(" on ") ? "MalformedCbor: Too deep" : "MalformedCbor", what)
        assert.include(error.message, "status 200", what)
      }
      bytes = Buffer.alloc(0)
      deepStrictEqual((yield* getRecords(client)).records, [])
    }))

  it.scopedLive("in an error leaves its status", () =>
    Effect.gen(function*() {
      const stub = yield* Stub.make((response) =>
        response.writeHead(503, { "content-type": cborType }).end(Buffer.from([0xa1]))
      )
      const client = yield* clientOf(stub.endpoint)
      assert.strictEqual((yield* Effect.flip(getRecords(client))).reason, "Unavailable")
    }))
})

describe("a server that does not speak CBOR", () => {
  const page = { Records: [], NextShardIterator: "next" }

  /** Knows JSON alone, and answers anything else like this. */
  const monoglot = (refuse: (response: ServerResponse) => void, body: object = page, status = 200) =>
  (
    response: ServerResponse,
    { headers }: Stub.StubRequest
  ) => headers["content-type"] === cborType ? refuse(response) : Stub.json(body, status)(response)

  const types = (stub: Stub.StubKinesis) =>
    stub.requests.map(({ headers }) => headers["content-type"] === cborType ? "cbor" : "json")

  const logged = Effect.map(Ref.make<ReadonlyArray<string>>([]), (messages) => ({
    messages: Ref.get(messages),
    layer: Logger.replace(
      Logger.defaultLogger,
      Logger.make(({ message }) => Effect.runSync(Ref.update(messages, (all) => [...all, String(message)])))
    )
  }))

  const refusals: ReadonlyArray<readonly [string, (response: ServerResponse) => void]> = [
    ["a page that is not there", (response) => response.writeHead(404, { "content-type": "text/plain" }).end("no")],
    ["a form that is not supported", (response) => response.writeHead(415).end()],
    ["a body that is no JSON", Stub.failure("SerializationException", 400)],
    ["an operation that is unknown", Stub.failure("UnknownOperationException", 400)],
    ["what is not built", (response) => response.writeHead(501).end()],
    [
      "JSON that is called CBOR",
      (response) =>
        response.writeHead(400, { "content-type": cborType }).end(JSON.stringify({ __type: "SerializationException" }))
    ]
  ]

  it.scopedLive.each(refusals)("is asked in JSON from then on, after %s", ([, refuse]) =>
    Effect.gen(function*() {
      const { layer, messages } = yield* logged
      const stub = yield* Stub.make(monoglot(refuse))
      const client = yield* clientOf(stub.endpoint)
      yield* Effect.replicateEffect(getRecords(client), 3).pipe(Effect.provide(layer))
      assert.deepStrictEqual(types(stub), ["cbor", "json", "json", "json"])
      const warnings = (yield* messages).filter((message) => message.includes("does not speak CBOR"))
      assert.strictEqual(warnings.length, 1)
      assert.isDefined(client.fallback)
      assert.strictEqual((yield* client.fallback).operation, "getRecords")
    }))

  it.scopedLive("is known by an error that it tells in JSON, too", () =>
    Effect.gen(function*() {
      const { layer } = yield* logged
      const stub = yield* Stub.make(
        monoglot(Stub.failure("SerializationException", 400), { __type: "ExpiredIteratorException" }, 400)
      )
      const client = yield* clientOf(stub.endpoint)
      const reasons = yield* Effect.replicateEffect(Effect.flip(getRecords(client)), 2).pipe(Effect.provide(layer))
      assert.deepStrictEqual(reasons.map(({ reason }) => reason), ["ExpiredIterator", "ExpiredIterator"])
      assert.deepStrictEqual(types(stub), ["cbor", "json", "json"])
    }))

  it.scopedLive("is no server whose refusal has a meaning, or that is out of order", () =>
    Effect.gen(function*() {
      for (
        const refuse of [
          Stub.failure("ExpiredIteratorException", 400),
          Stub.failure("AccessDeniedException", 400),
          Stub.failure("InternalFailure", 500),
          ...[401, 407, 408, 429, 503].map((status) => (response: ServerResponse) =>
            response.writeHead(status, { "content-type": "text/html" }).end("busy")
          )
        ]
      ) {
        const stub = yield* Stub.make(monoglot(refuse))
        const client = yield* clientOf(stub.endpoint)
        yield* Effect.flip(getRecords(client))
        yield* Effect.flip(getRecords(client))
        assert.deepStrictEqual(types(stub), ["cbor", "cbor"])
      }
    }))

  it.scopedLive("is nobody, where it does not know the operation in JSON either", () =>
    Effect.gen(function*() {
      const stub = yield* Stub.make(Stub.failure("UnknownOperationException", 400))
      const client = yield* clientOf(stub.endpoint)
      assert.strictEqual((yield* Effect.flip(getRecords(client))).reason, "Unsupported")
      yield* Effect.flip(getRecords(client))
      assert.deepStrictEqual(types(stub), ["cbor", "json", "cbor", "json"])
    }))

  it.scopedLive("is none that has spoken it", () =>
    Effect.gen(function*() {
      let isKnown = true
      const stub = yield* Stub.make((response, request) =>
        isKnown ? bilingual(200, page)(response, request) : Stub.failure("UnknownOperationException", 400)(response)
      )
      const client = yield* clientOf(stub.endpoint)
      yield* getRecords(client)
      isKnown = false
      yield* Effect.flip(getRecords(client))
      assert.deepStrictEqual(types(stub), ["cbor", "cbor"])
    }))

  it.scopedLive("is asked in the form that was chosen, and no other", () =>
    Effect.gen(function*() {
      const stub = yield* Stub.make(monoglot(Stub.failure("SerializationException", 400)))
      const cbor = yield* clientOf(stub.endpoint, "cbor")
      const json = yield* clientOf(stub.endpoint, "json")
      yield* Effect.flip(getRecords(cbor))
      yield* getRecords(json)
      assert.deepStrictEqual(types(stub), ["cbor", "json"])
    }))

  it.scopedLive("may answer in JSON all the same", () =>
    Effect.gen(function*() {
      const stub = yield* Stub.make(Stub.json(page))
      const client = yield* clientOf(stub.endpoint, "cbor")
      deepStrictEqual((yield* getRecords(client)).nextIterator, Option.some("next"))
    }))

  it.scopedLive("is asked anew for a subscription", () =>
    Effect.gen(function*() {
      const { layer } = yield* logged
      const stub = yield* StubSubscriptions.make("http:", (answer, { headers }) => {
        if (headers["content-type"] === cborType) return answer.fail(415, {})
        answer.write(StubSubscriptions.event({ Records: [{ SequenceNumber: "1" }] }))
        answer.end()
      })
      const client = yield* clientOf(stub.endpoint)
      const subscription = client.subscribeToShard(orders, shardId, {
        consumerArn: "arn",
        position: Position.trimHorizon
      })
      for (let round = 0; round < 2; round++) {
        const events = Chunk.toReadonlyArray(yield* Stream.runCollect(subscription).pipe(Effect.provide(layer)))
        assert.deepStrictEqual(events.map(({ records }) => records.map(({ sequenceNumber }) => sequenceNumber)), [[
          "1"
        ]])
      }
      assert.strictEqual(stub.requests.length, 3)
    }))

  it.scopedLive("is none that has accepted a subscription in CBOR", () =>
    Effect.gen(function*() {
      const stub = yield* Stub.make((response) => {
        if (stub.requests.length > 1) {
          response.writeHead(404).end()
          return
        }
        response.writeHead(200, { "content-type": "application/vnd.amazon.eventstream" })
          .end(StubSubscriptions.event(Cbor.encode({ Records: [{ SequenceNumber: "1" }] })))
      })
      const client = yield* clientOf(stub.endpoint)
      const subscription = client.subscribeToShard(orders, shardId, {
        consumerArn: "arn",
        position: Position.trimHorizon
      })
      assert.strictEqual(yield* Stream.runCount(subscription), 1)
      yield* Effect.flip(Stream.runCount(subscription))
      assert.deepStrictEqual(types(stub), ["cbor", "cbor"])
    }))

  it.scopedLive("may call the events of a subscription what it likes: they are not waited for until their end", () =>
    Effect.gen(function*() {
      const stub = yield* Stub.make((response) => {
        response.writeHead(200, { "content-type": cborType })
          .write(StubSubscriptions.event(Cbor.encode({ Records: [{ SequenceNumber: "1" }] })))
      })
      const client = yield* clientOf(stub.endpoint)
      const subscription = client.subscribeToShard(orders, shardId, {
        consumerArn: "arn",
        position: Position.trimHorizon
      })
      const first = yield* Effect.timeout(Stream.runHead(subscription), "5 seconds")
      assert.deepStrictEqual(Option.map(first, ({ records }) => records.length), Option.some(1))
    }))

  it.scoped("must have a form that there is", () =>
    Effect.gen(function*() {
      const protocol: string = "xml"
      // @ts-expect-error what is read from a configuration can be anything
      const error = yield* Effect.flip(clientOf("http://localhost:1", protocol))
      assert.include(error.message, "protocol \"xml\" is none of")
    }))
})
