/**
 * A whole group in one process and in virtual time: several members, each a real `Kinesumer.layer`, on one Kinesis and
 * one state store in memory, through crashes, stalls, partitions, lost answers, resharding and retention. An oracle
 * outside of the library knows what was put, and checks the promises P1 to P9, P11 and P12 on every event.
 *
 * A seed stands for a scenario and for everything that it leaves to chance: the same seed does the same again, to the
 * millisecond.
 *
 * @since 0.1.0
 */
import type * as Effect from "effect/Effect"
import * as internalGenerate from "./internal/simulation/generate.js"
import type { Scenario, Violation } from "./internal/simulation/model.js"
import * as internalShrink from "./internal/simulation/shrink.js"
import * as internalSimulate from "./internal/simulation/simulate.js"

export type { Action, Consumer, Event, MemberSpec, Scenario, Trouble, Violation } from "./internal/simulation/model.js"

/**
 * What became of a scenario.
 *
 * @since 0.1.0
 * @category models
 */
export interface Outcome {
  /** Empty if every promise was kept. A scenario ends soon after the first one. */
  readonly violations: ReadonlyArray<Violation>
  /** What happened, line by line, if it was asked for. */
  readonly journal: ReadonlyArray<string>
  readonly tally: Tally
  /** Virtual milliseconds from the first action to the end. */
  readonly elapsed: number
}

/**
 * What happened how often in a scenario.
 *
 * @since 0.1.0
 * @category models
 */
export interface Tally {
  /** Records that were put. */
  readonly records: number
  /** Processes that were killed. */
  readonly crashes: number
  /** Syncs that changed an assignment. */
  readonly rebalances: number
  /** Splits, merges and other changes of the number of shards. */
  readonly reshards: number
  /** Faults that were put between members and their services. */
  readonly faults: number
}

/**
 * The scenario that a seed stands for.
 *
 * @since 0.1.0
 * @category constructors
 */
export const generate: (seed: number) => Scenario = internalGenerate.generate

/**
 * Carries out a scenario. When its last event has happened all faults end, and the group has to come to rest: everything
 * processed and committed, the shards shared out evenly, nothing spent while idle, nothing left behind by members that
 * leave. It does not fail: what went wrong stands in the outcome.
 *
 * @since 0.1.0
 * @category running
 * @example
 * import { Simulation } from "@kinesumer/test-kit"
 * import { Effect } from "effect"
 *
 * export const program = Effect.gen(function*() {
 *   const { violations } = yield* Simulation.run(Simulation.generate(42))
 *   for (const { at, detail, promise } of violations) yield* Effect.logError(`${promise} after ${at} ms: ${detail}`)
 * })
 */
export const run = (
  scenario: Scenario,
  options: { readonly journal?: boolean | undefined } = {}
): Effect.Effect<Outcome> => internalSimulate.simulate(scenario, { keepsJournal: options.journal ?? false })

/**
 * Looks for a smaller scenario that breaks the same promise. It carries out up to some hundred scenarios.
 *
 * @since 0.1.0
 * @category running
 */
export const shrink: (scenario: Scenario, violation: Violation) => Effect.Effect<Scenario> = internalShrink.shrink
