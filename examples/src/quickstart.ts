/** The quick start of the README, in three steps. It type-checks with the examples. */
import { KinesisClient, Kinesumer, type KinesumerRecord, StateStore } from "@kinesumer/core"
import { DynamoStateStore } from "@kinesumer/dynamo-store"
import { Effect, Layer, Stream } from "effect"

const handle = (record: KinesumerRecord.KinesumerRecord) =>
  Effect.log(`${record.stream}/${record.shardId}: ${new TextDecoder().decode(record.data)}`)

// 1. Run `Stream.runForEach` on the records. A record counts as processed when the stream comes back for more.
const program = Effect.gen(function*() {
  const kinesumer = yield* Kinesumer.Kinesumer
  yield* Stream.runForEach(kinesumer.records, (record) => handle(record))
})

// 2. Compose the group as a layer. Its scope is the membership: closing it commits, hands the shards over and leaves.
const KinesumerLive = Kinesumer.layer({ app: "orders", streams: ["orders", "payments"] }).pipe(
  Layer.provide(KinesisClient.layer({ region: "ap-northeast-2" }))
)

// 3. Choose where the state is kept: in memory for one process that may forget it ...
export const inMemory = program.pipe(
  Effect.provide(KinesumerLive.pipe(Layer.provide(StateStore.layerMemory)))
)

// ... or in DynamoDB for as many processes as you like. Each runs this program, and they share the shards.
export const inDynamoDB = program.pipe(
  Effect.provide(KinesumerLive.pipe(
    Layer.provide(DynamoStateStore.layer({ tableName: "kinesumer-state-store", region: "ap-northeast-2" }))
  ))
)

// To run it: `NodeRuntime.runMain(inDynamoDB)` with `@effect/platform-node`, which closes the scope at SIGTERM.
