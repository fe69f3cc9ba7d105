/**
 * A consumer process. Everything that it needs to be a member of a group is here: start it as often as you like, the
 * processes share the shards between them.
 */
import { NodeRuntime } from "@effect/platform-node"
import { KinesisClient, Kinesumer } from "@kinesumer/core"
import { DynamoStateStore } from "@kinesumer/dynamo-store"
import { Config, Effect, Layer, Stream } from "effect"
import * as Report from "./report.js"

const program = Effect.gen(function*() {
  const kinesumer = yield* Kinesumer.Kinesumer
  yield* Effect.fork(Report.watch(kinesumer))
  yield* Stream.runForEach(kinesumer.records, (record) =>
    Report.delivered(record).pipe(
      Effect.zipRight(Effect.sleep("2 millis")) // the work
    ))
})

// The local servers take any credentials. For AWS itself leave `endpoint` and `credentials` out.
const aws = {
  region: Config.string("AWS_REGION"),
  credentials: Config.succeed({ accessKeyId: "demo", secretAccessKey: "demo" })
}

const KinesumerLive = Kinesumer.layerConfig({
  app: Config.string("APP"),
  streams: Config.array(Config.string(), "STREAMS"),
  memberId: Config.string("MEMBER_ID"),
  mode: Config.literal("polling", "fanOut")("MODE"),
  syncInterval: Config.duration("SYNC_INTERVAL"),
  livenessTimeout: Config.duration("LIVENESS_TIMEOUT"),
  closeTimeout: Config.duration("CLOSE_TIMEOUT"),
  commit: { interval: Config.duration("COMMIT_INTERVAL") },
  polling: { idleInterval: Config.duration("IDLE_INTERVAL") }
}).pipe(
  Layer.provide(KinesisClient.layerConfig({ ...aws, endpoint: Config.string("KINESIS_ENDPOINT") })),
  Layer.provide(DynamoStateStore.layerConfig({
    ...aws,
    endpoint: Config.string("DYNAMODB_ENDPOINT"),
    tableName: Config.string("STATE_TABLE"),
    createTable: Config.succeed(true)
  }))
)

program.pipe(Effect.provide(KinesumerLive), NodeRuntime.runMain)
