/** What a bench is. */
import type { CommandExecutor } from "@effect/platform"
import { Data, type Effect, type Scope } from "effect"

export class BenchFailed extends Data.TaggedError("BenchFailed")<{ readonly message: string }> {}

/** What is measured, in its rounds. */
export interface Series {
  readonly name: string
  readonly unit: string
  readonly values: ReadonlyArray<number>
}

export interface Report {
  readonly series: ReadonlyArray<Series>
  /** The numbers that matter, for the last line. */
  readonly summary: Readonly<Record<string, number>>
}

export interface Bench {
  readonly name: string
  /** What it measures, in one line. */
  readonly description: string
  readonly run: (options: {
    readonly rounds: number
  }) => Effect.Effect<Report, BenchFailed, CommandExecutor.CommandExecutor | Scope.Scope>
}
