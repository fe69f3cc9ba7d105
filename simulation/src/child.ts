/**
 * Carries out scenarios, and prints a line for each. The fibers of a process that a scenario kills are never freed, so a
 * process like this one carries out some and ends.
 */
import { Simulation } from "@kinesumer/test-kit"
import { Console, Effect, Schema } from "effect"
import { text } from "node:stream/consumers"
import * as Applied from "./mutation/applied.js"
import { type Job, Result, Task } from "./task.js"

const encode = Schema.encode(Schema.parseJson(Result))

const smallest = ({ scenario }: Job) =>
  Effect.gen(function*() {
    const { violations: [violation] } = yield* Simulation.run(scenario)
    return violation === undefined ? scenario : yield* Simulation.shrink(scenario, violation)
  })

const program = Effect.gen(function*() {
  yield* Applied.check
  const input = yield* Effect.promise(() => text(process.stdin))
  const task = yield* Schema.decode(Schema.parseJson(Task))(input)
  for (const job of task.jobs) {
    const scenario = task.shrinks ? yield* smallest(job) : job.scenario
    const { elapsed, journal, tally, violations } = yield* Simulation.run(scenario, { journal: task.journal })
    yield* Console.log(yield* encode({ name: job.name, scenario, violations, journal, tally, elapsed }))
    if (task.untilBroken && violations.length > 0) return
  }
})

/** What scenarios have left behind must not keep the process alive. What it has printed goes out first. */
const end = Effect.async<never>(() => {
  process.stdout.write("", () => process.exit())
})

// Without handlers for signals: a scenario that never comes to an end leaves them no time.
program.pipe(
  Effect.catchAllCause((cause) => {
    process.exitCode = 1
    return Console.error(cause)
  }),
  Effect.zipRight(end),
  Effect.runFork
)
