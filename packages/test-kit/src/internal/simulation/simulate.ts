/**
 * One scenario from its first action to the verdict.
 *
 * @internal
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import { watchBuffers } from "./buffers.js"
import * as Journal from "./journal.js"
import type { Scenario, Violation } from "./model.js"
import * as Play from "./play.js"
import { settle } from "./settle.js"
import * as Stages from "./stage.js"
import * as World from "./world.js"

/** @internal */
export interface Outcome {
  readonly violations: ReadonlyArray<Violation>
  readonly journal: ReadonlyArray<string>
  readonly tally: Stages.Tally
  readonly elapsed: number
}

/** @internal */
export const simulate = (
  scenario: Scenario,
  options: { readonly keepsJournal: boolean }
): Effect.Effect<Outcome> =>
  Effect.gen(function*() {
    const world = World.make(scenario.seed)
    const main = world.process("main", { yields: false })
    const journal = Journal.make(world.elapsed, { keepsLines: options.keepsJournal })
    let tally: Stages.Tally = { records: 0, crashes: 0, rebalances: 0, reshards: 0, faults: 0 }
    const program = Effect.gen(function*() {
      const stage = yield* Stages.make(scenario, world, main, journal)
      tally = stage.tally
      for (const { name } of scenario.streams) yield* Play.learn(stage, name)
      yield* Effect.forkDaemon(main.within(watchBuffers(stage)))
      for (const { at, ...action } of scenario.events) {
        if (journal.violations().length > 0) return
        if (at > world.elapsed()) yield* Effect.sleep(at - world.elapsed())
        journal.note(() => JSON.stringify(action))
        yield* Play.play(stage, action)
      }
      if (journal.violations().length > 0) return
      yield* settle(stage)
    })
    yield* world.run(main, program).pipe(
      Effect.tap((exit) =>
        Effect.sync(() => {
          if (Exit.isFailure(exit)) journal.violation("P1", `the simulation itself fails: ${Cause.pretty(exit.cause)}`)
        })
      ),
      Effect.catchTag("Stuck", () => Effect.sync(() => journal.violation("P7", "nothing goes on any more"))),
      Logger.withMinimumLogLevel(LogLevel.None),
      Effect.withTracerEnabled(false)
    )
    return { violations: journal.violations(), journal: journal.lines(), tally, elapsed: world.elapsed() }
  })
