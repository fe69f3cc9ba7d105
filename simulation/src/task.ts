/** What a child process is told, on one line, and what it answers: a line for each scenario. */
import { Schema } from "effect"
import { Scenario } from "./scenario.js"

export const Task = Schema.Struct({
  jobs: Schema.Array(Schema.Struct({ name: Schema.String, scenario: Scenario })),
  journal: Schema.Boolean,
  /** Ends with the first scenario that breaks a promise. */
  untilBroken: Schema.Boolean,
  /** Answers with the smallest scenario that breaks the same promise. */
  shrinks: Schema.Boolean
})
export type Task = typeof Task.Type
export type Job = Task["jobs"][number]

export const Result = Schema.Struct({
  /** The job's. */
  name: Schema.String,
  /** What was carried out: the job's, or what it was shrunk to. */
  scenario: Scenario,
  violations: Schema.Array(Schema.Struct({ promise: Schema.String, at: Schema.Number, detail: Schema.String })),
  journal: Schema.Array(Schema.String),
  tally: Schema.Struct({
    records: Schema.Number,
    crashes: Schema.Number,
    rebalances: Schema.Number,
    reshards: Schema.Number,
    faults: Schema.Number
  }),
  /** Virtual milliseconds. */
  elapsed: Schema.Number
})
export type Result = typeof Result.Type
