import { assert, layer } from "@effect/vitest"
import * as KinesisClient from "@kinesumer/core/KinesisClient"
import * as Position from "@kinesumer/core/Position"
import type { Shard } from "@kinesumer/core/Shard"
import {
  Chunk,
  type Context,
  DateTime,
  Effect,
  FastCheck,
  Fiber,
  Layer,
  Option,
  Order,
  Queue,
  Schedule,
  Stream
} from "effect"
import * as KinesisAdmin from "../utils/kinesisAdmin.js"
import * as KinesisServers from "../utils/kinesisServers.js"

const region = "us-east-1"
const credentials = { accessKeyId: "test", secretAccessKey: "test" }

const clientLive = (protocol?: "cbor" | "json") =>
  Layer.unwrapEffect(
    Effect.map(
      KinesisServers.Kinesis,
      ({ endpoint }) => KinesisClient.layer({ endpoint, region, credentials, protocol })
    )
  )

const setUp = Effect.gen(function*() {
  const client = yield* KinesisClient.KinesisClient
  const { endpoint } = yield* KinesisServers.Kinesis
  const admin = yield* KinesisAdmin.make({ endpoint, region })
  return { admin, client }
})

type Client = Context.Tag.Service<KinesisClient.KinesisClient>

const called = (name: string): KinesisClient.StreamId => ({ name, arn: Option.none() })

const bytes = (text: string) => new TextEncoder().encode(text)
const text = (record: KinesisClient.RawRecord) => new TextDecoder().decode(record.data)

const pagesOf = (client: Client, stream: KinesisClient.StreamId) =>
  Stream.runCollect(
    Stream.paginateEffect(Option.none<string>(), (token) =>
      Effect.map(client.listShards(stream, token), ({ nextToken, shards }) => [
        shards,
        Option.map(nextToken, Option.some)
      ]))
  )

const allShards = (client: Client, stream: KinesisClient.StreamId): Effect.Effect<ReadonlyArray<Shard>, unknown> =>
  Effect.map(
    client.listShards(stream, Option.none()),
    ({ shards }) => [...shards].sort(Order.mapInput(Order.string, (shard: Shard) => shard.shardId))
  )

const readFrom = Effect.fnUntraced(function*(
  client: Client,
  stream: KinesisClient.StreamId,
  shardId: string,
  position: Position.Position
) {
  const iterator = yield* client.getShardIterator(stream, shardId, position)
  return yield* client.getRecords(stream, shardId, { iterator, limit: 100 })
})

const shard = (index: number) => `shardId-${`${index}`.padStart(12, "0")}`

/** What is the same in both forms. */
const plain = ({ records, ...rest }: KinesisClient.GetRecordsResult) => ({
  ...rest,
  nextIterator: Option.isSome(rest.nextIterator),
  records: records.map(({ data, ...record }) => ({ ...record, data: [...data] }))
})

const lastHashKey = `${KinesisAdmin.lastHashKey}`
const middle = (KinesisAdmin.lastHashKey + 1n) / 2n

for (const server of KinesisServers.kinesisServers) {
  const Live = Layer.provideMerge(clientLive(), KinesisServers.layer(server))

  layer(Live, { excludeTestServices: true, timeout: "30 seconds" })(`KinesisClient against ${server.name}`, (it) => {
    it.scoped("describes a stream, by its name and by its ARN", () =>
      Effect.gen(function*() {
        const { admin, client } = yield* setUp
        yield* admin.createStream("described", 1)
        const before = yield* DateTime.now
        const description = yield* client.describeStream(called("described"))
        assert.strictEqual(description.name, "described")
        assert.strictEqual(description.arn, `arn:aws:kinesis:${region}:000000000000:stream/described`)
        assert.strictEqual(description.status, "ACTIVE")
        // Server and client share a clock here, and the header has whole seconds.
        assert.closeTo(description.answeredAt.epochMillis, before.epochMillis, 5_000)
        assert.closeTo(description.createdAt.epochMillis, before.epochMillis, 5_000)
        const byArn = yield* client.describeStream({ name: "described", arn: Option.some(description.arn) })
        assert.deepStrictEqual({ ...byArn, answeredAt: null }, { ...description, answeredAt: null })
      }))

    it.scoped("lists the shards of a stream page by page, by its name and by its ARN", () =>
      Effect.gen(function*() {
        const { admin, client } = yield* setUp
        yield* admin.createStream("many", 250)
        yield* admin.splitShard("many", shard(0), 1n)
        const { arn } = yield* client.describeStream(called("many"))
        for (const stream of [called("many"), { name: "many", arn: Option.some(arn) }]) {
          // Neither server gives more than 100.
          const pages = yield* Effect.map(pagesOf(client, stream), Chunk.toReadonlyArray)
          assert.deepStrictEqual(pages.map((page) => page.length), [100, 100, 52])
          const all = pages.flat()
          assert.lengthOf(new Set(all.map(({ shardId }) => shardId)), 252)
          assert.deepStrictEqual(all.filter(({ closed }) => closed).map(({ shardId }) => shardId), [shard(0)])
          const children = all.filter(({ parents }) => parents.length > 0)
          assert.deepStrictEqual(children.map(({ parents }) => parents), [[shard(0)], [shard(0)]])
          assert.deepStrictEqual(children[0]?.hashKeyRange, { start: "0", end: "0" })
        }
      }))

    it.scoped("reads from every position, by name and by ARN", () =>
      Effect.gen(function*() {
        const { admin, client } = yield* setUp
        yield* admin.createStream("positions", 1)
        const stream = called("positions")
        const first = yield* admin.put("positions", "a", bytes("one"))
        const second = yield* admin.put("positions", "b", bytes("two"))
        const whole = yield* readFrom(client, stream, shard(0), Position.trimHorizon)
        assert.deepStrictEqual(whole.records.map(text), ["one", "two"])
        assert.deepStrictEqual(whole.records.map(({ sequenceNumber }) => sequenceNumber), [
          first.sequenceNumber,
          second.sequenceNumber
        ])
        assert.deepStrictEqual(whole.records.map(({ partitionKey }) => partitionKey), ["a", "b"])
        const arrival = yield* Option.fromNullable(whole.records[0]?.arrivalTime)
        assert.deepStrictEqual(whole.millisBehindLatest, Option.some(0))
        assert.deepStrictEqual(whole.childShards, [])
        const { arn } = yield* client.describeStream(stream)
        const next = yield* client.getRecords(stream, shard(0), { iterator: yield* whole.nextIterator, limit: 100 })
        assert.deepStrictEqual(next.records, [])
        assert.isTrue(Option.isSome(next.nextIterator))

        for (const id of [stream, { name: "positions", arn: Option.some(arn) }]) {
          const texts = (position: Position.Position) =>
            Effect.map(readFrom(client, id, shard(0), position), ({ records }) => records.map(text))
          assert.deepStrictEqual(yield* texts(Position.trimHorizon), ["one", "two"])
          assert.deepStrictEqual(yield* texts(Position.afterSequence(first.sequenceNumber)), ["two"])
          assert.deepStrictEqual(yield* texts(Position.afterSequence(second.sequenceNumber)), [])
          assert.deepStrictEqual(yield* texts(Position.afterSequence(second.sequenceNumber, 3)), ["two"])
          assert.deepStrictEqual(yield* texts(Position.atTimestamp(DateTime.unsafeFromDate(arrival))), ["one", "two"])
          const earlier = DateTime.unsafeMake(arrival.getTime() - 3_600_000)
          assert.deepStrictEqual(yield* texts(Position.atTimestamp(earlier)), ["one", "two"])
        }
      }))

    it.scoped("a limit bounds the records of one answer", () =>
      Effect.gen(function*() {
        const { admin, client } = yield* setUp
        yield* admin.createStream("limited", 1)
        for (const value of ["one", "two", "three"]) yield* admin.put("limited", "key", bytes(value))
        const stream = called("limited")
        const iterator = yield* client.getShardIterator(stream, shard(0), Position.trimHorizon)
        const some = yield* client.getRecords(stream, shard(0), { iterator, limit: 2 })
        assert.deepStrictEqual(some.records.map(text), ["one", "two"])
        const rest = yield* client.getRecords(stream, shard(0), { iterator: yield* some.nextIterator, limit: 2 })
        assert.deepStrictEqual(rest.records.map(text), ["three"])
      }))

    it.scoped("a split and a merge close shards, whose end names their children", () =>
      Effect.gen(function*() {
        const { admin, client } = yield* setUp
        yield* admin.createStream("resharded", 1)
        const stream = called("resharded")
        yield* admin.put("resharded", "key", bytes("before"))
        yield* admin.splitShard("resharded", shard(0), middle)
        const halves: ReadonlyArray<Shard> = [
          {
            shardId: shard(1),
            parents: [shard(0)],
            hashKeyRange: { start: "0", end: `${middle - 1n}` },
            closed: false
          },
          {
            shardId: shard(2),
            parents: [shard(0)],
            hashKeyRange: { start: `${middle}`, end: lastHashKey },
            closed: false
          }
        ]
        const parent = { shardId: shard(0), parents: [], hashKeyRange: { start: "0", end: lastHashKey }, closed: true }
        assert.deepStrictEqual(yield* allShards(client, stream), [parent, ...halves])

        const drained = yield* readFrom(client, stream, shard(0), Position.trimHorizon)
        assert.deepStrictEqual(drained.records.map(text), ["before"])
        assert.deepStrictEqual(drained.nextIterator, Option.none())
        assert.deepStrictEqual(
          [...drained.childShards].sort(Order.mapInput(Order.string, ({ shardId }: Shard) => shardId)),
          halves
        )

        yield* admin.mergeShards("resharded", shard(1), shard(2))
        const whole = {
          shardId: shard(3),
          parents: [shard(1), shard(2)],
          hashKeyRange: { start: "0", end: lastHashKey },
          closed: false
        }
        assert.deepStrictEqual(yield* allShards(client, stream), [
          parent,
          ...halves.map((half) => ({ ...half, closed: true })),
          whole
        ])
        for (const half of halves) {
          const end = yield* readFrom(client, stream, half.shardId, Position.trimHorizon)
          assert.deepStrictEqual(end.nextIterator, Option.none())
          assert.deepStrictEqual(end.childShards, [whole])
        }
      }))

    it.scoped("what is not there is NotFound, and says where it was looked for", () =>
      Effect.gen(function*() {
        const { admin, client } = yield* setUp
        yield* admin.createStream("there", 1)
        const errors = yield* Effect.all([
          Effect.flip(client.describeStream(called("gone"))),
          Effect.flip(client.listShards(called("gone"), Option.none())),
          Effect.flip(client.getShardIterator(called("gone"), shard(0), Position.trimHorizon)),
          Effect.flip(client.getShardIterator(called("there"), shard(7), Position.trimHorizon))
        ])
        assert.deepStrictEqual(
          errors.map(({ operation, reason, shardId, stream }) => ({ operation, reason, shardId, stream })),
          [
            { operation: "describeStream", reason: "NotFound", shardId: undefined, stream: "gone" },
            { operation: "listShards", reason: "NotFound", shardId: undefined, stream: "gone" },
            { operation: "getShardIterator", reason: "NotFound", shardId: shard(0), stream: "gone" },
            { operation: "getShardIterator", reason: "NotFound", shardId: shard(7), stream: "there" }
          ]
        )
        const iterator = yield* client.getShardIterator(called("there"), shard(0), Position.trimHorizon)
        yield* admin.deleteStream("there")
        const error = yield* Effect.flip(client.getRecords(called("there"), shard(0), { iterator, limit: 1 }))
        assert.strictEqual(error.reason, "NotFound")
      }))

    it.scoped("what Kinesis refuses is told apart from what it cannot do", () =>
      Effect.gen(function*() {
        const { admin, client } = yield* setUp
        yield* admin.createStream("refused", 1)
        const stream = called("refused")
        const iterator = yield* client.getShardIterator(stream, shard(0), Position.trimHorizon)
        const limit = yield* Effect.flip(client.getRecords(stream, shard(0), { iterator, limit: 10_001 }))
        assert.strictEqual(limit.reason, "InvalidArgument", limit.message)
        const bad = yield* Effect.flip(client.getRecords(stream, shard(0), { iterator: "bad", limit: 1 }))
        // kinesis-local answers with an error of the server, not as Kinesis does.
        const reason = server.name === "kinesis-local" ? "Unavailable" : "InvalidArgument"
        assert.strictEqual(bad.reason, reason, bad.message)
      }))

    it.scoped("registers consumers, and pushes records to them until they are left", () =>
      Effect.gen(function*() {
        const { admin, client } = yield* setUp
        yield* admin.createStream("pushed", 1)
        const stream = called("pushed")
        const { arn } = yield* client.describeStream(stream)
        const named = (name: string) =>
          client.describeConsumer(arn, name).pipe(
            Effect.delay("10 millis"),
            Effect.repeat({ until: ({ status }) => status === "ACTIVE" })
          )

        const registered = yield* client.registerConsumer(arn, "reader")
        assert.strictEqual(registered.name, "reader")
        assert.strictEqual((yield* Effect.flip(client.registerConsumer(arn, "reader"))).reason, "ResourceInUse")
        const consumer = yield* named("reader")
        assert.strictEqual(consumer.arn, registered.arn)
        const { consumers } = yield* client.listConsumers(arn, Option.none())
        assert.deepStrictEqual(consumers.map(({ name }) => name), ["reader"])
        assert.strictEqual((yield* Effect.flip(client.describeConsumer(arn, "writer"))).reason, "NotFound")

        const first = yield* admin.put("pushed", "key", bytes("a"))
        yield* admin.put("pushed", "key", bytes("b"))
        const subscribe = (position: Position.Position) =>
          client.subscribeToShard(stream, shard(0), { consumerArn: consumer.arn, position }).pipe(
            Stream.flatMap(({ records }) => Stream.fromIterable(records.map(text)))
          )
        const seen = yield* Queue.unbounded<string>()
        const fiber = yield* Effect.fork(
          Stream.runForEach(subscribe(Position.trimHorizon), (text) => Queue.offer(seen, text))
        )
        assert.strictEqual(yield* Queue.take(seen), "a")
        assert.strictEqual(yield* Queue.take(seen), "b")
        yield* admin.put("pushed", "key", bytes("c"))
        assert.strictEqual(yield* Queue.take(seen), "c")
        yield* Fiber.interrupt(fiber)

        // The server learns some seconds later who has left.
        const next = yield* subscribe(Position.afterSequence(first.sequenceNumber)).pipe(
          Stream.take(2),
          Stream.runCollect,
          Effect.retry({ while: ({ reason }) => reason === "ResourceInUse", schedule: Schedule.spaced("100 millis") }),
          Effect.timeout("20 seconds")
        )
        assert.deepStrictEqual(Chunk.toReadonlyArray(next), ["b", "c"])

        yield* client.deregisterConsumer(arn, "reader")
        yield* client.describeConsumer(arn, "reader").pipe(
          Effect.delay("10 millis"),
          Effect.forever,
          Effect.flip,
          Effect.tap(({ reason }) => assert.strictEqual(reason, "NotFound"))
        )
      }))

    // kinesis-local never tells subscribers that a shard has ended.
    it.scoped.runIf(server.name === "LocalKinesis")(
      "pushes records to the end of a shard, which names its children",
      () =>
        Effect.gen(function*() {
          const { admin, client } = yield* setUp
          yield* admin.createStream("ended", 1)
          const stream = called("ended")
          const { arn } = yield* client.describeStream(stream)
          const consumer = yield* client.registerConsumer(arn, "reader")
          yield* admin.put("ended", "key", bytes("last"))
          yield* admin.splitShard("ended", shard(0), middle)
          const events = yield* Effect.map(
            Stream.runCollect(
              client.subscribeToShard(stream, shard(0), { consumerArn: consumer.arn, position: Position.trimHorizon })
            ),
            Chunk.toReadonlyArray
          )
          assert.deepStrictEqual(events.flatMap(({ records }) => records.map(text)), ["last"])
          const end = events.at(-1)
          assert.deepStrictEqual(end?.continuation, Option.none())
          assert.deepStrictEqual(end?.childShards.map(({ parents, shardId }) => [shardId, parents]), [
            [shard(1), [shard(0)]],
            [shard(2), [shard(0)]]
          ])
        })
    )

    it.scoped("gives the same in CBOR and in JSON", () =>
      Effect.gen(function*() {
        const { admin } = yield* setUp
        yield* admin.createStream("forms", 1)
        const samples = FastCheck.sample(
          FastCheck.tuple(
            FastCheck.string({ unit: "grapheme", minLength: 1, maxLength: 50 }),
            FastCheck.uint8Array({ minLength: 1, maxLength: 300 })
          ),
          40
        )
        for (const [key, data] of samples) yield* admin.put("forms", key, data)
        const stream = called("forms")
        const read = (protocol: "cbor" | "json") =>
          Effect.gen(function*() {
            const client = yield* KinesisClient.KinesisClient
            const page = yield* readFrom(client, stream, shard(0), Position.trimHorizon)
            const [first] = page.records
            const moment = Position.atTimestamp(DateTime.unsafeFromDate(first?.arrivalTime ?? new Date(0)))
            const since = yield* readFrom(client, stream, shard(0), moment)
            const refused = yield* Effect.flip(client.getRecords(stream, shard(0), { iterator: "none", limit: 1 }))
            const excess = yield* client.getShardIterator(stream, shard(0), Position.trimHorizon).pipe(
              Effect.flatMap((iterator) => client.getRecords(stream, shard(0), { iterator, limit: 20_000 })),
              Effect.flip
            )
            return { page: plain(page), since: plain(since), reasons: [refused.reason, excess.reason] }
          }).pipe(Effect.provide(Layer.fresh(clientLive(protocol))))
        const [cbor, json] = [yield* read("cbor"), yield* read("json")]
        assert.deepStrictEqual(cbor, json)
        assert.deepStrictEqual(
          cbor.page.records.map(({ data, partitionKey }) => [partitionKey, data]),
          samples.map(([key, data]) => [key, [...data]])
        )
      }))

    it.scoped("resolves the region that it speaks to", () =>
      Effect.gen(function*() {
        const { client } = yield* setUp
        assert.strictEqual(yield* client.region, region)
      }))
  })
}
