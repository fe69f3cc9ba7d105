/** A group on real servers: each local Kinesis for the streams, dynalite for the state. */
import { assert, describe, it, layer } from "@effect/vitest"
import { KinesisClient, KinesisError, Kinesumer, KinesumerError, StateStore, StateStoreError } from "@kinesumer/core"
import type { KinesumerRecord } from "@kinesumer/core"
import { DynamoStateStore } from "@kinesumer/dynamo-store"
import { LocalServers } from "@kinesumer/test-kit"
import { Chunk, Effect, Exit, Fiber, Layer, Option, Ref, Schedule, Scope, Stream } from "effect"
import * as KinesisAdmin from "../utils/kinesisAdmin.js"
import * as KinesisServers from "../utils/kinesisServers.js"

const region = "us-east-1"
const credentials = { accessKeyId: "test", secretAccessKey: "test" }

/** A member in a scope of its own, which notes what it is handed. */
const join = (
  memberId: string,
  streams: ReadonlyArray<string>,
  delivered: Ref.Ref<Chunk.Chunk<KinesumerRecord.KinesumerRecord>>
) =>
  Effect.gen(function*() {
    const kinesis = yield* KinesisServers.Kinesis
    const dynalite = yield* LocalServers.Dynalite
    const scope = yield* Scope.make()
    yield* Effect.addFinalizer(() => Scope.close(scope, Exit.void))
    const context = yield* Layer.buildWithScope(
      Kinesumer.layer({
        app: "shop",
        memberId,
        streams,
        syncInterval: "300 millis",
        livenessTimeout: "3 seconds",
        commit: { interval: "300 millis" },
        polling: { idleInterval: "200 millis" }
      }).pipe(
        Layer.provide(KinesisClient.layer({ region, endpoint: kinesis.endpoint, credentials })),
        Layer.provide(DynamoStateStore.layer({
          tableName: "state",
          region,
          endpoint: dynalite.endpoint,
          credentials,
          createTable: true
        }))
      ),
      scope
    )
    const service = yield* Effect.provide(Kinesumer.Kinesumer, context)
    yield* Effect.fork(
      Stream.runForEachChunk(service.records, (chunk) => Ref.update(delivered, Chunk.appendAll(chunk)))
    )
    return { service, close: Scope.close(scope, Exit.void) }
  })

const until = (condition: Effect.Effect<boolean>) =>
  condition.pipe(
    Effect.filterOrFail((isTrue) => isTrue),
    Effect.retry(Schedule.spaced("50 millis")),
    Effect.timeout("40 seconds"),
    Effect.orDie
  )

const textOf = (record: KinesumerRecord.KinesumerRecord) => new TextDecoder().decode(record.data)

for (const server of KinesisServers.kinesisServers) {
  const Servers = Layer.merge(KinesisServers.layer(server), LocalServers.layerDynalite())

  layer(Servers, { excludeTestServices: true, timeout: "60 seconds" })(`a group on ${server.name}`, (it) => {
    describe("members come and go, and a stream is resharded", () => {
      it.scoped("every record is delivered, in order within its shard", () =>
        Effect.gen(function*() {
          const kinesis = yield* KinesisServers.Kinesis
          const admin = yield* KinesisAdmin.make({ endpoint: kinesis.endpoint, region })
          yield* admin.createStream("orders", 2)
          yield* admin.createStream("payments", 1)
          const delivered = yield* Ref.make(Chunk.empty<KinesumerRecord.KinesumerRecord>())
          const put = (stream: string, from: number, to: number) =>
            Effect.forEach(
              Array.from({ length: to - from + 1 }, (_, index) => from + index),
              (n) => admin.put(stream, `key-${n % 7}`, new TextEncoder().encode(`${stream}-${n}`)),
              { discard: true }
            )
          const distinct = Effect.map(Ref.get(delivered), (records) => new Set(Chunk.map(records, textOf)).size)

          yield* put("orders", 1, 30)
          const a = yield* join("a", ["orders", "payments"], delivered)
          yield* until(Effect.map(distinct, (count) => count === 30))
          const b = yield* join("b", ["orders", "payments"], delivered)
          yield* put("payments", 1, 10)
          yield* until(Effect.map(b.service.assignment, (shards) => shards.length > 0))
          yield* admin.splitShard("orders", "shardId-000000000000", 2n ** 125n)
          yield* put("orders", 31, 60)
          yield* until(Effect.map(distinct, (count) => count === 70))
          yield* a.close
          yield* put("orders", 61, 80)
          yield* until(Effect.map(distinct, (count) => count === 90))
          yield* until(Effect.map(b.service.assignment, (shards) => shards.length === 4))
          yield* b.close

          const seen = new Map<string, bigint>()
          for (const record of yield* Ref.get(delivered)) {
            const key = `${record.stream}/${record.shardId}/${record.epoch}`
            const sequence = BigInt(record.sequenceNumber)
            assert.isTrue(sequence > (seen.get(key) ?? -1n), `${key} goes backwards`)
            seen.set(key, sequence)
          }
        }), { timeout: 120_000 })
    })

    describe("what is missing is said at the start", () => {
      const start = (options: { readonly stream: string; readonly createTable: boolean }) =>
        Effect.gen(function*() {
          const kinesis = yield* KinesisServers.Kinesis
          const dynalite = yield* LocalServers.Dynalite
          return yield* Effect.flip(Layer.build(
            Kinesumer.layer({ app: "shop", streams: [options.stream] }).pipe(
              Layer.provide(KinesisClient.layer({ region, endpoint: kinesis.endpoint, credentials })),
              Layer.provide(DynamoStateStore.layer({
                tableName: options.createTable ? "state" : "no-such-table",
                region,
                endpoint: dynalite.endpoint,
                credentials,
                createTable: options.createTable
              }))
            )
          ))
        })

      it.scoped("a table", () =>
        Effect.gen(function*() {
          const error = yield* start({ stream: "orders", createTable: false })
          assert.instanceOf(error, StateStoreError.StateStoreError)
          assert.strictEqual(error.reason, "TableMissing")
          assert.include(error.message, "no-such-table")
        }))

      it.scoped("a stream", () =>
        Effect.gen(function*() {
          const error = yield* start({ stream: "nowhere", createTable: true })
          assert.instanceOf(error, KinesisError.KinesisError)
          assert.strictEqual(error.reason, "NotFound")
          assert.include(error.message, "nowhere")
        }))

      it.scoped("a stream of another region", () =>
        Effect.gen(function*() {
          const error = yield* start({
            stream: "arn:aws:kinesis:eu-west-1:000000000000:stream/orders",
            createTable: true
          })
          assert.instanceOf(error, KinesumerError.InvalidConfig)
        }))
    })
  })

  describe(`a ${server.name} that stops`, () => {
    it.scopedLive("is told, and closing completes", () =>
      Effect.gen(function*() {
        const serverScope = yield* Scope.make()
        const kinesis = yield* server.start.pipe(Scope.extend(serverScope))
        const admin = yield* KinesisAdmin.make({ endpoint: kinesis.endpoint, region })
        yield* admin.createStream("orders", 1)
        const scope = yield* Scope.make()
        const context = yield* Layer.buildWithScope(
          Kinesumer.layer({ app: "shop", streams: ["orders"], closeTimeout: "5 seconds" }).pipe(
            Layer.provide(KinesisClient.layer({ region, endpoint: kinesis.endpoint, credentials })),
            Layer.provide(StateStore.layerMemory)
          ),
          scope
        )
        const service = yield* Effect.provide(Kinesumer.Kinesumer, context)
        const running = yield* Effect.fork(Stream.runDrain(service.records))
        const retry = yield* Effect.fork(
          Stream.runHead(Stream.filter(service.events, (event) => event._tag === "Retrying"))
        )
        yield* Scope.close(serverScope, Exit.void)
        const event = yield* Fiber.join(retry).pipe(Effect.timeout("20 seconds"))
        assert.isTrue(Option.isSome(event))
        const health = yield* service.health
        assert.isFalse(health.healthy)
        assert.isTrue(health.shards.every(({ lagMillis }) => Option.isNone(lagMillis)))
        yield* Scope.close(scope, Exit.void).pipe(Effect.timeout("5 seconds"))
        assert.isTrue(Exit.isSuccess(yield* Fiber.await(running)))
      }), { timeout: 60_000 })
  })
}
