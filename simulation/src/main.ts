/**
 * Simulates whole groups, each from a seed, and checks every promise of the library on every event.
 *
 * Runs with `npm run sim` at the top of the repository; `npm run sim -- --help` shows its options.
 */
import { Command, Options, ValidationError } from "@effect/cli"
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import { Clock, Console, Effect, Option, Schema } from "effect"
import { availableParallelism } from "node:os"
import { mutate } from "./mutation/mutate.js"
import * as Regressions from "./regressions.js"
import * as Scenario from "./scenario.js"
import * as Seeds from "./seeds.js"

const seeds = Options.integer("seeds").pipe(
  Options.withSchema(Schema.NonNegativeInt),
  Options.withDescription("How many seeds to carry out."),
  Options.withDefault(1000)
)
const from = Options.integer("from").pipe(
  Options.withSchema(Schema.NonNegativeInt),
  Options.withDescription("The first seed. Without it the seeds are fresh ones, and all regressions come first."),
  Options.optional
)
const json = Options.boolean("json").pipe(
  Options.withDescription("Prints the last line only: the result as JSON.")
)
const journal = Options.boolean("journal").pipe(
  Options.withDescription("Prints what happened in each scenario, line by line, and does not shrink it.")
)
const scenario = Options.file("scenario", { exists: "yes" }).pipe(
  Options.withDescription("Carries out the scenario in a JSON file, in place of seeds."),
  Options.optional
)
const mutations = Options.boolean("mutations").pipe(
  Options.withDescription("Breaks the library in one place after another, each until a seed from 1 to 500 finds it.")
)
const workers = Options.integer("workers").pipe(
  Options.withSchema(Schema.Int.pipe(Schema.positive())),
  Options.withDescription("How many processes work side by side."),
  Options.withDefault(availableParallelism())
)

const sim = Command.make(
  "sim",
  { seeds, from, json, journal, scenario, mutations, workers },
  (options) =>
    Effect.gen(function*() {
      const isGood = options.mutations
        ? yield* mutate({
          from: Option.getOrElse(options.from, () => 1),
          workers: options.workers,
          isQuiet: options.json
        })
        : yield* simulate(options)
      if (!isGood) process.exitCode = 1
    })
)

interface Asked {
  readonly seeds: number
  readonly from: Option.Option<number>
  readonly json: boolean
  readonly journal: boolean
  readonly scenario: Option.Option<string>
  readonly workers: number
}

const simulate = (options: Asked) =>
  Effect.gen(function*() {
    const from = yield* Option.match(options.from, {
      onNone: () => Clock.currentTimeMillis,
      onSome: Effect.succeed
    })
    const scenario = yield* Effect.transposeMapOption(options.scenario, (file) =>
      Effect.map(Scenario.read(file), ({ broke: _broke, name: _name, ...scenario }) => ({ name: file, scenario })))
    const isFresh = Option.isNone(options.from) && Option.isNone(scenario)
    if (isFresh && !options.json) {
      yield* Console.error(`${options.seeds} seeds from ${from} on`)
    }
    return yield* Seeds.run({
      regressions: isFresh ? yield* Regressions.all : [],
      scenario,
      from,
      seeds: options.seeds,
      workers: options.workers,
      isQuiet: options.json,
      journal: options.journal
    })
  })

const main = Command.run(sim, { name: "Kinesumer's simulation", version: "0.1.0" })

main(process.argv).pipe(
  Effect.catchAll((error) => {
    process.exitCode = 1
    // What is wrong with the options is told by now.
    return ValidationError.isValidationError(error) ? Effect.void : Console.error(error.message)
  }),
  Effect.provide(NodeContext.layer),
  NodeRuntime.runMain
)
