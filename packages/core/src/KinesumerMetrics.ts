/**
 * The metrics of a group. Each is tagged with `app` and, where it belongs to one, with `stream` and `shard`.
 *
 * @since 0.1.0
 */
import * as Metric from "effect/Metric"

/** @since 0.1.0 @category metrics */
export const records = Metric.counter("kinesumer_records_total", {
  description: "Records handed to user code",
  incremental: true
})

/** @since 0.1.0 @category metrics */
export const bytes = Metric.counter("kinesumer_bytes_total", {
  description: "Bytes of data handed to user code",
  incremental: true
})

/** @since 0.1.0 @category metrics */
export const repeats = Metric.counter("kinesumer_repeated_records_total", {
  description: "Records at or before the cursor that Kinesis gave again and that were dropped",
  incremental: true
})

/** @since 0.1.0 @category metrics */
export const skipped = Metric.counter("kinesumer_skipped_records_total", {
  description: "Records that count as processed although they could not be",
  incremental: true
})

/** @since 0.1.0 @category metrics */
export const outOfRange = Metric.counter("kinesumer_out_of_range_records_total", {
  description: "Parts of aggregates that were dropped because their hash keys belong to other shards",
  incremental: true
})

/** @since 0.1.0 @category metrics */
export const lag = Metric.gauge("kinesumer_lag_millis", {
  description: "How far the last answer was behind the tip of its shard"
})

/** @since 0.1.0 @category metrics */
export const shards = Metric.gauge("kinesumer_shards", { description: "Shards that this member runs" })

/** @since 0.1.0 @category metrics */
export const bufferedRecords = Metric.gauge("kinesumer_buffered_records", {
  description: "Records that wait in the buffer or are asked for"
})

/** @since 0.1.0 @category metrics */
export const subscriptions = Metric.counter("kinesumer_subscriptions_total", {
  description: "Calls of SubscribeToShard, of which each shard needs one in five minutes",
  incremental: true
})

/** @since 0.1.0 @category metrics */
export const retries = Metric.counter("kinesumer_retries_total", {
  description: "Calls that are tried again, tagged with operation and reason",
  incremental: true
})

/** @since 0.1.0 @category metrics */
export const commits = Metric.counter("kinesumer_commits_total", {
  description: "Checkpoints written",
  incremental: true
})

/** @since 0.1.0 @category metrics */
export const failures = Metric.counter("kinesumer_failures_total", {
  description: "Failed rounds of a background loop, tagged with loop",
  incremental: true
})

/** @since 0.1.0 @category metrics */
export const leasesLost = Metric.counter("kinesumer_leases_lost_total", {
  description: "Shards stopped because their lease went to another owner",
  incremental: true
})

/** @since 0.1.0 @category metrics */
export const recordsLost = Metric.counter("kinesumer_records_lost_total", {
  description: "Times that records may have been lost to retention",
  incremental: true
})

/** @since 0.1.0 @category metrics */
export const rebalances = Metric.counter("kinesumer_rebalances_total", {
  description: "Assignments published that start or stop a shard",
  incremental: true
})

/** @since 0.1.0 @category metrics */
export const handlerFailures = Metric.counter("kinesumer_handler_failures_total", {
  description: "Attempts of a handler of process or processBatch that failed",
  incremental: true
})

/** @since 0.1.0 @category metrics */
export const deadLetters = Metric.counter("kinesumer_dead_letters_total", {
  description: "Records that the dead-letter effect has taken care of",
  incremental: true
})
