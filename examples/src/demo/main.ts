/**
 * Shows the main job on this machine: three consumer processes share two streams, while one of them joins late, one is
 * killed, and a stream is resharded. In the end everything that was put must have been delivered, and in order.
 *
 * Runs with `npm run demo` at the top of the repository; on the test kit's Kinesis with `npm run demo -- --kinesis local`,
 * and by enhanced fan-out on the same with `npm run demo -- --fan-out`.
 */
import { Command, HelpDoc, Options, ValidationError } from "@effect/cli"
import { LocalServers } from "@kinesumer/test-kit"
import { Console, Effect, Layer, Option, Ref, Schedule } from "effect"
import * as Program from "../program.js"
import * as Board from "./board.js"
import * as Consumers from "./consumers.js"
import * as Kinesis from "./kinesis.js"
import * as Ledger from "./ledger.js"
import * as Producer from "./producer.js"
import * as Reshard from "./reshard.js"
import * as Server from "./server.js"
import * as View from "./view.js"

const region = "us-east-1"
const streams = ["orders", "payments"]

/** What happens to the group while records are put. Gives the consumers that are left. */
const events = Effect.gen(function*() {
  const { note } = yield* Board.Board
  const { start } = yield* Consumers.Consumers
  const first = yield* start("consumer-1")
  const second = yield* start("consumer-2")
  yield* settled
  const late = yield* start("consumer-3")
  yield* settled
  yield* note(`${yield* Reshard.split("orders")} is split`)
  yield* settled
  yield* note(`${yield* Reshard.merge("orders")} are merged`)
  yield* settled
  yield* busy("consumer-2")
  yield* second.kill
  yield* note("consumer-2 is killed")
  // The others notice it when its heartbeat has stood still for the liveness timeout.
  yield* Effect.sleep("6 seconds")
  return [first, late]
})

/** Until a consumer is given records: whoever kills it then meets it in the middle of its work. */
const busy = (id: string) =>
  Effect.gen(function*() {
    const { state } = yield* Board.Board
    const records = Effect.map(state, ({ consumers }) => consumers.find((consumer) => consumer.id === id)?.records)
    const before = yield* records
    yield* Effect.repeat(records, {
      schedule: Schedule.spaced("5 millis"),
      until: (now) => now !== before
    }).pipe(Effect.timeoutOption("3 seconds"))
  })

/** Some seconds of work, and until all consumers have shards. But the story goes on in any case. */
const settled = Effect.gen(function*() {
  const { state } = yield* Board.Board
  yield* Effect.sleep("4 seconds")
  yield* Effect.repeat(state, {
    schedule: Schedule.spaced("200 millis"),
    until: ({ consumers }) => consumers.every(({ shards, state }) => state !== "running" || shards.length > 0)
  }).pipe(Effect.timeoutOption("15 seconds"))
})

const allDelivered = Effect.flatMap(Board.Board, ({ state }) =>
  Effect.repeat(state, {
    schedule: Schedule.spaced("200 millis"),
    until: ({ ledger }) => Ledger.balance(ledger).lost.length === 0
  }))

const story = Effect.gen(function*() {
  const { put } = yield* Board.Board
  yield* Kinesis.createStream("orders", 2)
  yield* Kinesis.createStream("payments", 3)
  const told = yield* Ref.make(false)
  const [consumers] = yield* Effect.all([
    Effect.zipLeft(events, Ref.set(told, true)),
    Effect.forEach(
      streams,
      (stream) => Producer.run(stream, { rounds: 25, enough: Ref.get(told), onPut: put }),
      { concurrency: "unbounded" }
    )
  ], { concurrency: "unbounded" })
  // What has not come by then is lost.
  yield* Effect.timeoutOption(allDelivered, "30 seconds")
  yield* Effect.forEach(consumers, ({ stop }) => stop, { concurrency: "unbounded" })
})

const KinesisLive = Layer.unwrapEffect(
  Effect.map(Server.KinesisServer, ({ endpoint }) => Kinesis.layer({ region, endpoint }))
)

/** How the demo is played. */
interface Choice {
  readonly kinesis: Server.Kind
  readonly mode: "fanOut" | "polling"
}

const consumersLive = (mode: Choice["mode"]) =>
  Layer.unwrapEffect(Effect.gen(function*() {
    const kinesis = yield* Server.KinesisServer
    const dynamodb = yield* LocalServers.Dynalite
    return Consumers.layer({
      APP: "demo",
      STREAMS: streams.join(","),
      MODE: mode,
      AWS_REGION: region,
      KINESIS_ENDPOINT: kinesis.endpoint,
      DYNAMODB_ENDPOINT: dynamodb.endpoint,
      STATE_TABLE: "kinesumer-state-store",
      // Shorter than the defaults, so that the demo is short too.
      SYNC_INTERVAL: "1 second",
      LIVENESS_TIMEOUT: "4 seconds",
      CLOSE_TIMEOUT: "5 seconds",
      COMMIT_INTERVAL: "1 second",
      IDLE_INTERVAL: "300 millis"
    })
  }))

const demoLive = ({ kinesis, mode }: Choice) =>
  Layer.merge(KinesisLive, consumersLive(mode)).pipe(
    Layer.provide(Layer.merge(Server.layer(kinesis), LocalServers.layerDynalite())),
    Layer.provide(View.layer),
    Layer.provideMerge(Board.layer)
  )

/** The books at the end, when every process and server has ended. */
const play = (choice: Choice) =>
  Effect.gen(function*() {
    const { failure } = yield* Consumers.Consumers
    yield* Effect.raceFirst(Effect.scoped(story), failure)
    const { state } = yield* Board.Board
    return yield* state
  }).pipe(Effect.provide(demoLive(choice)))

const choice = Options.all({
  kinesis: Options.choice("kinesis", ["kinesis-local", "local"]).pipe(
    Options.withDescription("The server: kinesis-local (the default), or the one of the test kit."),
    Options.optional
  ),
  fanOut: Options.boolean("fan-out").pipe(
    Options.withDescription("Records are pushed (enhanced fan-out) instead of polled. It implies --kinesis local.")
  )
}).pipe(
  Options.mapEffect(({ fanOut, kinesis }): Effect.Effect<Choice, ValidationError.ValidationError> =>
    fanOut && Option.contains(kinesis, "kinesis-local")
      ? Effect.fail(ValidationError.invalidValue(HelpDoc.p(
        "--fan-out does not go with --kinesis kinesis-local, which never tells a subscriber that a shard has ended: the " +
          "children of a resharded stream would not start. Use --kinesis local, or leave --kinesis out."
      )))
      : Effect.succeed({
        kinesis: Option.getOrElse(kinesis, () => fanOut ? "local" : "kinesis-local"),
        mode: fanOut ? "fanOut" : "polling"
      })
  )
)

const demo = Command.make(
  "demo",
  { choice },
  Effect.fnUntraced(function*({ choice }) {
    const { ledger, rebalances, seconds } = yield* play(choice)
    const { distinct, duplicates, lost, put, reordered } = Ledger.balance(ledger)
    yield* Effect.forEach(lost.slice(0, 10), (record) => Console.error("lost", record))
    yield* Effect.forEach(reordered.slice(0, 10), (delivery) => Console.error("out of order", delivery))
    if (lost.length > 0 || reordered.length > 0) yield* Program.fail
    yield* Console.log(JSON.stringify({
      put,
      distinct,
      lost: lost.length,
      reordered: reordered.length,
      duplicates,
      rebalances,
      seconds: Math.round(seconds)
    }))
  })
)

Program.run("demo", Command.run(demo, { name: "Kinesumer's demo", version: "0.1.0" })(process.argv))
