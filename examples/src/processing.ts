/** A handler with everything around it, as the README shows it. It type-checks with the examples. */
import { Kinesumer, type KinesumerRecord, type Processing } from "@kinesumer/core"
import { Effect, Schedule } from "effect"

declare const store: (record: KinesumerRecord.KinesumerRecord) => Effect.Effect<void, Error>
declare const putDeadLetter: (failed: Processing.FailedRecord<Error>) => Effect.Effect<void>

// Runs until the group is closed. Needs the same `Kinesumer.layer` as `records` does.
export const program = Kinesumer.process((record) => store(record), {
  ordering: "partitionKey", // or "shard" (the default), or "none"
  concurrency: 32, // handlers at the same time
  maxInFlight: 1_000, // records that were taken and are not finished
  timeout: "10 seconds", // for each attempt
  retry: Schedule.intersect(Schedule.exponential("100 millis"), Schedule.recurs(5)),
  // Or "stop" (the default).
  onFailure: (failed) =>
    Effect.zipRight(
      Effect.logWarning(`Given up after ${failed.attempts} attempts`, failed.error),
      putDeadLetter(failed)
    )
})
