/** Runs one of the examples: `npm run example -- orders` at the top of the repository. */
import { Command, Options } from "@effect/cli"
import { Effect, Schema } from "effect"
import * as Aggregates from "./aggregates.js"
import * as Batches from "./batches.js"
import * as Fencing from "./fencing.js"
import * as Orders from "./orders/main.js"
import * as Payload from "./payload.js"
import * as Program from "./program.js"

const orders = Command.make("orders", {
  count: Options.integer("count").pipe(
    Options.withSchema(Schema.Int.pipe(Schema.positive())),
    Options.withDescription("How many records are put. Defaults to 2000."),
    Options.withDefault(2_000)
  )
}, ({ count }) => Effect.flatMap(Orders.run(count), (isGood) => isGood ? Effect.void : Program.fail)).pipe(
  Command.withDescription("JSON orders to a database, with retries and dead letters")
)

const aggregates = Command.make("aggregates", {}, () => Aggregates.run).pipe(
  Command.withDescription("Aggregated records, and a restart in the middle of one")
)
const payload = Command.make("payload", {}, () => Payload.run).pipe(
  Command.withDescription("Typed values from packed JSON, and what becomes of what does not decode")
)
const batches = Command.make("batches", {}, () => Batches.run).pipe(
  Command.withDescription("Batches of which the sink refuses a part")
)
const fencing = Command.make("fencing", {}, () => Fencing.run).pipe(
  Command.withDescription("A write that comes late, when its shard has gone to another member")
)

const example = Command.make("example").pipe(Command.withSubcommands([orders, aggregates, payload, batches, fencing]))

Program.run("example", Command.run(example, { name: "Kinesumer's examples", version: "0.1.0" })(process.argv))
