/** Runs one of the examples: `npm run example -- orders` at the top of the repository. */
import { Command, Options, ValidationError } from "@effect/cli"
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import { Cause, Console, Effect, Exit } from "effect"
import * as Orders from "./orders/main.js"

const fail = Effect.sync(() => {
  process.exitCode = 1
})

const orders = Command.make("orders", {
  count: Options.integer("count").pipe(
    Options.withDescription("How many records are put. Defaults to 2000."),
    Options.withDefault(2_000)
  )
}, ({ count }) => Effect.flatMap(Orders.run(count), (isGood) => isGood ? Effect.void : fail)).pipe(
  Command.withDescription("JSON orders to a database, with retries and dead letters")
)

const example = Command.make("example").pipe(Command.withSubcommands([orders]))

const main = Command.run(example, { name: "Kinesumer's examples", version: "0.1.0" })(process.argv).pipe(
  Effect.catchAll((error) =>
    Effect.zipRight(
      fail,
      // What is wrong with the options is told by now.
      ValidationError.isValidationError(error)
        ? Effect.void
        : Console.error(`The example ends early: ${error.message}`)
    )
  ),
  Effect.provide(NodeContext.layer)
)

NodeRuntime.runMain(main, {
  teardown: (exit, onExit) => onExit(Exit.isSuccess(exit) ? 0 : Cause.isInterruptedOnly(exit.cause) ? 130 : 1)
})
