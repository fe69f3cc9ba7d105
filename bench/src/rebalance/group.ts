/** A group whose members come and go, in virtual time or in real processes. */
import type { StateStore } from "@kinesumer/core"
import type { Duration, Effect } from "effect"
import type { BenchFailed } from "../bench.js"
import type { Notes } from "./notes.js"

export const app = "bench"

/** All of the library's defaults. */
export const syncSeconds = 5
export const livenessSeconds = 15

export interface Member {
  readonly memberId: string
  /** When it began to start. */
  readonly startedAt: number
  /** Ends it in good order, but does not wait for it. */
  readonly leave: Effect.Effect<void, BenchFailed>
  readonly crash: Effect.Effect<void, BenchFailed>
}

export interface Group {
  readonly streams: ReadonlyArray<string>
  readonly shards: number
  readonly store: StateStore.StateStore["Type"]
  readonly notes: Notes
  /** In milliseconds. */
  readonly now: Effect.Effect<number>
  readonly elapse: (duration: Duration.DurationInput) => Effect.Effect<void, BenchFailed>
  readonly start: (memberId: string) => Effect.Effect<Member, BenchFailed>
}
