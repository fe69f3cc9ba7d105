/**
 * A program that reads the stream `orders` by fan-out, and tells on its standard output what it does.
 *
 * `first` ends the group after the first record, and has nothing else to do then. `stalled` takes one record and no more
 * until it is told to on its standard input; meanwhile and afterwards it says how much memory it has.
 */
import { KinesisClient, Kinesumer, type KinesumerRecord, StateStore } from "@kinesumer/core"
import { Config, Console, Effect, Layer, Schedule, Stream } from "effect"

const live = Layer.unwrapEffect(Effect.gen(function*() {
  const endpoint = yield* Config.string("ENDPOINT")
  const bufferBytes = yield* Config.integer("BUFFER_BYTES")
  return Kinesumer.layer({ app: "app", streams: ["orders"], mode: "fanOut", bufferBytes }).pipe(
    Layer.provide(KinesisClient.layer({
      endpoint,
      region: "us-east-1",
      credentials: { accessKeyId: "test", secretAccessKey: "test" }
    })),
    Layer.provide(StateStore.layerMemory)
  )
}))

const records = Stream.unwrap(Effect.map(Kinesumer.Kinesumer, ({ records }) => records))

const first = Effect.gen(function*() {
  yield* Effect.provide(Stream.runHead(records), live)
  yield* Console.log("closed")
})

const toldToGoOn = Effect.async<void>((resume) => {
  process.stdin.once("data", () => {
    process.stdin.unref()
    resume(Effect.void)
  })
})

const stalled = Effect.gen(function*() {
  let count = 0
  const last = new Map<string, bigint>()
  const handle = ({ sequenceNumber, shardId }: KinesumerRecord.KinesumerRecord) =>
    Effect.gen(function*() {
      const number = BigInt(sequenceNumber)
      const before = last.get(shardId) ?? 0n
      if (number !== before + 1n) yield* Console.log(`after ${before} comes ${number} in ${shardId}`)
      last.set(shardId, number)
      if (++count === 1) yield* toldToGoOn
    })
  const tell = Effect.suspend(() =>
    Console.log(JSON.stringify({ count, shards: last.size, memory: process.memoryUsage.rss() }))
  )
  yield* Effect.fork(Effect.repeat(tell, Schedule.spaced("250 millis")))
  yield* Stream.runForEach(records, handle).pipe(Effect.provide(live))
})

Effect.runFork(process.argv[2] === "first" ? first : stalled)
