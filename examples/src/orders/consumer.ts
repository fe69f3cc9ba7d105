/** The process that handles the orders. It can be killed at any time, and goes on when it is started again. */
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import { KeyValueStateStore, KinesisClient, Kinesumer } from "@kinesumer/core"
import { Config, Effect, Layer, Option, Predicate } from "effect"
import * as Kinesis from "../demo/kinesis.js"
import * as Database from "./database.js"
import * as DeadLetters from "./deadLetters.js"
import * as Faults from "./faults.js"
import { handler, retry } from "./handler.js"
import * as Orders from "./orders.js"

const program = Effect.flatMap(
  Effect.zip(handler, DeadLetters.DeadLetters),
  ([handle, deadLetters]) =>
    Kinesumer.process(handle, {
      ordering: "partitionKey",
      concurrency: 16,
      maxInFlight: 500,
      timeout: "10 seconds",
      retry,
      // A database that is out of reach says nothing about the record: the process ends, and the next one goes on with it.
      onFailure: (failed) =>
        Effect.fail(failed.error).pipe(
          Effect.unless(() => Predicate.isTagged(failed.error, "DecodeError")),
          Effect.zipRight(deadLetters.put(failed))
        )
    })
)

// A local server takes any credentials. For AWS itself leave `endpoint` and `credentials` out.
const region = Config.string("AWS_REGION")
const endpoint = Config.string("KINESIS_ENDPOINT")
const credentials = Config.succeed({ accessKeyId: "example", secretAccessKey: "example" })

const StateLive = Layer.unwrapEffect(
  Effect.map(Config.string("STATE_DIRECTORY"), KeyValueStateStore.layerFileSystem)
).pipe(Layer.provide(NodeContext.layer))

const KinesumerLive = Kinesumer.layerConfig({
  app: Config.succeed("shop"),
  streams: Config.succeed(["orders"]),
  // The same name takes its shards over at once, instead of waiting until the process that was killed is taken for dead.
  memberId: Config.succeed("consumer"),
  commit: { interval: Config.succeed("500 millis") },
  polling: { idleInterval: Config.succeed("300 millis") }
}).pipe(
  Layer.provide(KinesisClient.layerConfig({ region, endpoint, credentials })),
  Layer.provide(StateLive)
)

const DeadLettersLive = DeadLetters.layer("orders-dead").pipe(
  Layer.provide(Layer.unwrapEffect(Effect.map(Config.all({ region, endpoint }), Kinesis.layer)))
)

const OrdersLive = Layer.unwrapEffect(
  Effect.map(
    Config.option(Config.integer("DIE_AFTER")),
    Option.match({
      onNone: () => Faults.shaky,
      onSome: (after) => Layer.provide(Faults.dying(after), Faults.shaky)
    })
  )
).pipe(
  Layer.provide(Orders.layer),
  Layer.provide(Database.layer(Config.string("DATABASE_URL")))
)

program.pipe(
  Effect.provide(Layer.mergeAll(KinesumerLive, DeadLettersLive, OrdersLive)),
  NodeRuntime.runMain
)
