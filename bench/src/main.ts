/**
 * Runs benches and tells what they measured, each number as the median of alternating rounds.
 *
 * Runs with `npm run bench -- <name>` at the top of the repository.
 */
import { Args, Command, Options } from "@effect/cli"
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import Table from "cli-table3"
import { Console, Effect } from "effect"
import type { Bench, Report } from "./bench.js"
import * as Results from "./chart/results.js"
import { fanOutLatency } from "./fanOutLatency/bench.js"
import { localKinesis } from "./localKinesis/bench.js"
import { memory } from "./memory/bench.js"
import { pipeline } from "./pipeline/bench.js"
import { rebalance } from "./rebalance/bench.js"
import { scale } from "./scale/bench.js"
import { median, spread } from "./statistics.js"
import { storeCost } from "./storeCost/bench.js"
import { throughput } from "./throughput/bench.js"

const benches: ReadonlyArray<Bench> = [
  localKinesis,
  fanOutLatency,
  throughput,
  pipeline,
  scale,
  storeCost,
  rebalance,
  memory
]

const large = new Intl.NumberFormat("en", { maximumFractionDigits: 0 })
const small = new Intl.NumberFormat("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 })
const percent = new Intl.NumberFormat("en", { style: "percent" })

const tableOf = ({ series }: Report): string => {
  const table = new Table({ head: ["", "median", "spread", "unit"], style: { head: [], border: [] } })
  for (const { name, unit, values } of series) {
    const middle = median(values)
    table.push([name, (middle < 100 ? small : large).format(middle), percent.format(spread(values)), unit])
  }
  return table.toString()
}

const run = (bench: Bench, rounds: number, json: boolean) =>
  Effect.gen(function*() {
    if (!json) yield* Console.log(`${bench.name}: ${bench.description}`)
    const report = yield* Effect.scoped(bench.run({ rounds }))
    if (!json) yield* Console.log(tableOf(report))
    yield* Results.save(bench, report)
    yield* Console.log(JSON.stringify(report.summary))
  })

const command = Command.make(
  "bench",
  {
    names: Args.choice(benches.map((bench) => [bench.name, bench]), { name: "bench" }).pipe(
      Args.withDescription("Which benches; all of them by default."),
      Args.repeated
    ),
    rounds: Options.integer("rounds").pipe(
      Options.withDescription("How often everything is measured."),
      Options.withDefault(7)
    ),
    json: Options.boolean("json").pipe(Options.withDescription("Only the line of JSON that ends each bench."))
  },
  ({ json, names, rounds }) =>
    Effect.zipRight(
      Effect.forEach(names.length === 0 ? benches : names, (bench) => run(bench, rounds, json), { discard: true }),
      Results.draw
    )
)

Command.run(command, { name: "bench", version: "0.1.0" })(process.argv).pipe(
  Effect.provide(NodeContext.layer),
  NodeRuntime.runMain
)
