/** lifion-kinesis by polling, with all shards at once, and its checkpoints in a local DynamoDB. */
import { Config, Effect } from "effect"
import type { EventEmitter } from "node:events"
import { createRequire } from "node:module"
import * as Contender from "./contender.js"
import * as Streams from "./streams.js"

/** What is used of it; it has no types. */
interface Consumer extends EventEmitter {
  readonly startConsumer: () => Promise<void>
  readonly stopConsumer: () => void
}

type Constructor = new(options: object) => Consumer

const isConstructor = (value: unknown): value is Constructor => typeof value === "function"

const { kinesisPort, table } = Effect.runSync(Config.all({
  kinesisPort: Config.integer("KINESIS_PORT"),
  table: Config.integer("DYNAMO_PORT")
}))

const loaded: unknown = createRequire(new URL("../../peers/package.json", import.meta.url))("lifion-kinesis")

Contender.main(({ stream }, got) =>
  Effect.gen(function*() {
    if (!isConstructor(loaded)) return yield* Effect.dieMessage("lifion-kinesis is not what it was")
    const common = { region: Streams.region, ...Streams.credentials }
    const Consumer = loaded
    const consumer = new Consumer({
      ...common,
      streamName: stream,
      endpoint: Streams.endpointOf(kinesisPort),
      dynamoDb: { ...common, endpoint: Streams.endpointOf(table), tableName: "lifion" },
      consumerGroup: `round-${process.pid}`,
      createStreamIfNeeded: false,
      initialPositionInStream: "TRIM_HORIZON",
      // Else it waits for 20 seconds before it takes the next shard.
      useAutoShardAssignment: false,
      supressThroughputWarnings: true,
      logger: { error: console.error }
    })
    consumer.on("data", ({ records }: { readonly records: ReadonlyArray<unknown> }) => got(records.length))
    consumer.on("error", (error: unknown) => console.error(error))
    yield* Effect.acquireRelease(
      Effect.tryPromise(() => consumer.startConsumer()),
      () => Effect.sync(() => consumer.stopConsumer())
    )
    // It leases one shard after the other, before it reads any.
  }), true)
