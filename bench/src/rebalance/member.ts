/** A member of the group in a process of its own. */
import { NodeRuntime } from "@effect/platform-node"
import { KinesisClient, Kinesumer } from "@kinesumer/core"
import { DynamoStateStore } from "@kinesumer/dynamo-store"
import { Clock, Config, Console, Effect, Layer, Logger, LogLevel, Schema, Stream } from "effect"
import { app } from "./group.js"
import * as Services from "./services.js"
import { Told } from "./told.js"
import * as Traffic from "./traffic.js"

const encode = Schema.encodeSync(Schema.parseJson(Told))
const tell = (told: Told) => Console.log(encode(told))

/** The client, that tells who reads a shard. */
const told = (client: KinesisClient.KinesisClient["Type"]): KinesisClient.KinesisClient["Type"] => {
  const beginning = new Set<string>()
  return {
    ...client,
    getShardIterator: (stream, shardId, position) =>
      Effect.tap(client.getShardIterator(stream, shardId, position), () =>
        Effect.sync(() => {
          beginning.add(`${stream.name}/${shardId}`)
        })),
    getRecords: (stream, shardId, options) =>
      Effect.tap(client.getRecords(stream, shardId, options), () =>
        beginning.delete(`${stream.name}/${shardId}`)
          ? Effect.flatMap(
            Clock.currentTimeMillis,
            (at) => tell({ _tag: "Answered", at, stream: stream.name, shardId })
          )
          : Effect.void)
  }
}

const program = Effect.gen(function*() {
  const { dynamo, kinesis, memberId, stream } = yield* Config.all({
    kinesis: Config.integer("KINESIS_PORT"),
    dynamo: Config.integer("DYNAMO_PORT"),
    memberId: Config.string("MEMBER"),
    stream: Config.string("STREAM")
  })
  yield* tell({ _tag: "Starting", at: yield* Clock.currentTimeMillis })
  yield* Effect.gen(function*() {
    const { records } = yield* Kinesumer.make({ app, streams: [stream], memberId })
    yield* Stream.runForEach(records, ({ arrivalTime, sequenceNumber, shardId, stream }) =>
      Effect.gen(function*() {
        const at = yield* Clock.currentTimeMillis
        const latency = at - (arrivalTime?.getTime() ?? NaN)
        yield* tell({ _tag: "Delivered", at, stream, shardId, sequenceNumber, latency })
        yield* Effect.sleep(Traffic.handling)
      }))
  }).pipe(
    Effect.scoped,
    Effect.updateService(KinesisClient.KinesisClient, told),
    Effect.provide(Layer.merge(
      KinesisClient.layer(Services.at(kinesis)),
      DynamoStateStore.layer({ ...Services.at(dynamo), tableName: Services.table })
    ))
  )
})

program.pipe(Logger.withMinimumLogLevel(LogLevel.Warning), NodeRuntime.runMain)
