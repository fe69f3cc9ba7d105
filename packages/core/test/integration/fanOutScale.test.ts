/** Many subscriptions in one process, and what they cost it. */
import { Command } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { LocalKinesis } from "@kinesumer/test-kit"
import { Array, Effect, Queue, Ref, Schema, Stream } from "effect"
import { fileURLToPath } from "node:url"
import * as Gateway from "../utils/gateway.js"
import * as StubSubscriptions from "../utils/stubSubscriptions.js"
import * as Support from "./fanOutSupport.js"

const { join, shardId, until } = Support

const fileOf = (path: string) => fileURLToPath(new URL(path, import.meta.url))

const mebibyte = 1024 * 1024

/** Where the streams of a test are: a Kinesis with one of so many shards. */
const kinesisOf = (shards: number) => LocalKinesis.make({ limits: false, streams: [{ name: "orders", shards }] })

const start = (what: "first" | "stalled", endpoint: string, bufferBytes: number) =>
  Effect.gen(function*() {
    const input = yield* Queue.unbounded<Uint8Array>()
    const child = yield* Command.start(
      Command.make(
        process.execPath,
        "--conditions=@kinesumer/source",
        "--import",
        fileOf("../child/typescript.mjs"),
        fileOf("../child/fanOut.ts"),
        what
      ).pipe(
        Command.env({ ENDPOINT: endpoint, BUFFER_BYTES: `${bufferBytes}`, NODE_TLS_REJECT_UNAUTHORIZED: "0" }),
        Command.stdin(Stream.fromQueue(input))
      )
    )
    const lines = yield* Ref.make(Array.empty<string>())
    yield* child.stdout.pipe(
      Stream.decodeText(),
      Stream.splitLines,
      Stream.runForEach((line) => Ref.update(lines, (all) => [...all, line])),
      Effect.forkScoped
    )
    return { child, lines: Ref.get(lines), goOn: Queue.offer(input, new TextEncoder().encode("\n")) }
  })

/** Records of this many bytes for ever, from where the subscriber is on. They are numbered from 1 on. */
const endless = (bytes: number) => {
  const Data = Buffer.alloc(bytes, "kinesis").toString("base64")
  return function*({ StartingPosition: { SequenceNumber: after = "0" } }: Gateway.Subscribed) {
    yield StubSubscriptions.initialResponse
    for (let number = BigInt(after) + 1n;; number++) {
      yield StubSubscriptions.event({
        Records: [{ SequenceNumber: `${number}`, PartitionKey: "key", Data, ApproximateArrivalTimestamp: 1735689600 }],
        ContinuationSequenceNumber: `${number}`,
        MillisBehindLatest: 1000
      })
    }
  }
}

const Told = Schema.parseJson(Schema.Struct({ count: Schema.Number, shards: Schema.Number, memory: Schema.Number }))

describe.each(Gateway.protocols)("over %s", (protocol) => {
  it.scopedLive("500 subscriptions of one process all deliver", () =>
    Effect.gen(function*() {
      const count = 500
      const { endpoint, kinesis } = yield* kinesisOf(count)
      const world = yield* Support.worldAt(protocol, endpoint)
      const member = yield* join(world, { memberId: "member", streams: ["orders"] })
      const putAll = Effect.forEach(Array.range(0, count - 1), (index) =>
        kinesis.putTo({ stream: "orders", shardId: shardId(index), data: "record" }))
      const shardsOf = (round: number) =>
        Effect.map(member.delivered, (records) => {
          const counts = Object.values(Array.groupBy(records, (record) =>
            record.shardId))
          return counts.filter(({ length }) => length >= round).length
        })
      yield* putAll
      yield* until(Effect.map(shardsOf(1), (shards) => shards === count), "a record of each shard")
      yield* until(Effect.map(kinesis.subscriptions(), ({ length }) => length === count), "all are subscribed")
      yield* putAll
      yield* until(Effect.map(shardsOf(2), (shards) => shards === count), "another record of each shard")
      assert.lengthOf(yield* member.delivered, 2 * count)
      yield* member.close
      yield* until(Effect.sync(() => world.gateway.connections() === 0), "no connection is left")
    }), { timeout: 120_000 })

  it.scopedLive("a process that has closed its group ends by itself", () =>
    Effect.gen(function*() {
      const { endpoint, kinesis } = yield* kinesisOf(3)
      const gateway = yield* Gateway.make(protocol, endpoint)
      const { child, lines } = yield* start("first", gateway.endpoint, mebibyte)
      yield* until(Effect.map(kinesis.subscriptions(), ({ length }) => length === 3), "all are subscribed")
      yield* kinesis.putTo({ stream: "orders", shardId: shardId(0), data: "record" })
      assert.strictEqual(yield* child.exitCode.pipe(Effect.timeout("40 seconds")), 0)
      assert.strictEqual((yield* lines).at(-1), "closed")
    }).pipe(Effect.provide(NodeContext.layer)))
})

describe("push-outruns-the-handler", () => {
  // Over HTTP/1.1 the buffers of the operating system hold some MiB for each connection.
  it.scopedLive(
    "what 200 shards have waits with the sender, for as long as nobody takes it",
    () =>
      Effect.gen(function*() {
        const shards = 200
        const bound = 64 * mebibyte
        const { endpoint } = yield* kinesisOf(shards)
        const gateway = yield* Gateway.make("https:", endpoint, { feed: endless(mebibyte / 8) })
        const { goOn, lines } = yield* start("stalled", gateway.endpoint, bound)
        const told = Effect.map(lines, (all) => Array.getSomes(all.map((line) => Schema.decodeOption(Told)(line))))
        const count = Effect.map(told, (all) => all.at(-1)?.count ?? 0)
        const sent = Effect.sync(() => gateway.subscriptions().reduce((sum, { bytes }) => sum + bytes(), 0))

        yield* until(Effect.sync(() => gateway.subscriptions().length === shards), "all are subscribed")
        yield* until(
          Effect.zipWith(sent, Effect.delay(sent, "2 seconds"), (before, now) => before === now),
          "nothing more is sent"
        )
        const atRest = yield* sent
        yield* Effect.sleep("2 seconds")
        assert.strictEqual(yield* sent, atRest)
        assert.strictEqual(yield* count, 1)
        // In base64 it is a third more. Beyond the bound each shard has one event, and what is on its way.
        assert.isBelow(atRest, 4 / 3 * (2 * bound + shards * mebibyte / 2))

        yield* goOn
        yield* until(Effect.map(count, (count) => count > 10 * shards), "the handler goes on")
        assert.isAbove(yield* sent, atRest)
        assert.strictEqual((yield* told).at(-1)?.shards, shards)
        assert.deepStrictEqual((yield* lines).filter((line) => line.startsWith("after ")), [])
        const memory = (yield* told).map(({ memory }) => memory)
        assert.isBelow(Math.max(...memory) - Math.min(...memory), 8 * bound)
      }).pipe(Effect.provide(NodeContext.layer)),
    { timeout: 120_000 }
  )
})
