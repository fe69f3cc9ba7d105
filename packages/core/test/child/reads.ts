/**
 * A program that does nothing but read, while one operation of Kinesis never answers, and holds nothing that would keep
 * Node.js running: a socket that is not referenced is like that. With `nothing` for an operation it only waits for that
 * call.
 */
import { KinesisClient, Kinesumer, StateStore } from "@kinesumer/core"
import { TestKinesis } from "@kinesumer/test-kit"
import { Effect, Layer, Stream } from "effect"

const operation = process.argv[2]

const unanswered = Effect.async<never>(() => {
  process.stdout.write("pending\n")
})

const client = Effect.gen(function*() {
  const kinesis = yield* TestKinesis.make()
  yield* kinesis.createStream({ name: "orders" })
  return {
    ...kinesis.client,
    ...(operation === "describeStream" ? { describeStream: () => unanswered } : {}),
    ...(operation === "getRecords" ? { getRecords: () => unanswered } : {})
  }
})

const reading = Stream.unwrap(Effect.map(Kinesumer.Kinesumer, ({ records }) => records)).pipe(
  Stream.runDrain,
  Effect.provide(
    Kinesumer.layer({ app: "app", streams: ["orders"] }).pipe(
      Layer.provide(Layer.effect(KinesisClient.KinesisClient, client)),
      Layer.provide(StateStore.layerMemory)
    )
  )
)

Effect.runFork(operation === "nothing" ? unanswered : reading)
