/** Runs one of the examples: `npm run example -- orders` at the top of the repository. */
import { Command, Options } from "@effect/cli"
import { Effect } from "effect"
import * as Orders from "./orders/main.js"
import * as Program from "./program.js"

const orders = Command.make("orders", {
  count: Options.integer("count").pipe(
    Options.withDescription("How many records are put. Defaults to 2000."),
    Options.withDefault(2_000)
  )
}, ({ count }) => Effect.flatMap(Orders.run(count), (isGood) => isGood ? Effect.void : Program.fail)).pipe(
  Command.withDescription("JSON orders to a database, with retries and dead letters")
)

const example = Command.make("example").pipe(Command.withSubcommands([orders]))

Program.run("example", Command.run(example, { name: "Kinesumer's examples", version: "0.1.0" })(process.argv))
