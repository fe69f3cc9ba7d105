/** What is kept of a bench in `bench/results`. */
import { Schema } from "effect"

export const Result = Schema.Struct({
  bench: Schema.String,
  description: Schema.String,
  /** The day, in UTC. */
  date: Schema.String,
  node: Schema.String,
  cores: Schema.Number,
  summary: Schema.Record({ key: Schema.String, value: Schema.Number })
})

export type Result = typeof Result.Type
