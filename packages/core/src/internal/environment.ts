/** What every part of a member shares. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import * as MetricLabel from "effect/MetricLabel"
import * as PubSub from "effect/PubSub"
import type * as KinesisClient from "../KinesisClient.js"
import { KinesisError } from "../KinesisError.js"
import type { KinesumerConfig } from "../KinesumerConfig.js"
import type { KinesumerEvent } from "../KinesumerEvent.js"
import type * as StateStore from "../StateStore.js"
import { StateStoreError } from "../StateStoreError.js"
import { onFreshTurn } from "./freshTurn.js"

export interface Environment {
  readonly config: KinesumerConfig
  readonly self: StateStore.Owner
  readonly kinesis: KinesisClient.KinesisClient["Type"]
  readonly store: StateStore.StateStore["Type"]
  readonly emit: (event: KinesumerEvent) => Effect.Effect<void>
  readonly count: (
    metric: Metric.Metric.Counter<number>,
    amount: number,
    tags?: Tags
  ) => Effect.Effect<void>
  readonly gauge: (metric: Metric.Metric.Gauge<number>, value: number, tags?: Tags) => Effect.Effect<void>
  readonly events: PubSub.PubSub<KinesumerEvent>
  /** Intervals in milliseconds. */
  readonly timeouts: {
    readonly liveness: number
    readonly heartbeat: number
    /** What one round of the group may take: a call that is never answered must not be the last one. */
    readonly sync: number
    /** How often the leader asks Kinesis for the shard lists. */
    readonly refresh: number
  }
}

type Tags = Readonly<Record<string, string>>

/** Three tries for a heartbeat before the others take over. */
const heartbeatsPerTimeout = 3

/** Room for a large group on a slow table, since a round that is cut short has to begin anew. */
const livenessTimeoutsPerSync = 4

/** A split or merge is noticed at the end of its parents; listing is only the safety net, and costs calls. */
const syncsPerRefresh = 6

/** Events that nobody reads in time make room for newer ones. */
const eventCapacity = 4_096

export const make = (
  options: Pick<Environment, "config" | "kinesis" | "self" | "store">
): Effect.Effect<Environment> =>
  Effect.map(PubSub.sliding<KinesumerEvent>(eventCapacity), (events) => {
    const counters = makeTagging<Metric.Metric.Counter<number>>(options.config.app, Metric.taggedWithLabels)
    const gauges = makeTagging<Metric.Metric.Gauge<number>>(options.config.app, Metric.taggedWithLabels)
    return {
      ...options,
      kinesis: withTimeouts(options.kinesis, options.config.polling.timeout),
      events,
      emit: (event) => Effect.zipRight(Effect.logDebug(event), PubSub.publish(events, event)),
      count: (metric, amount, tags) => Metric.incrementBy(counters(metric, tags), amount),
      gauge: (metric, value, tags) => Metric.set(gauges(metric, tags), value),
      timeouts: {
        liveness: Duration.toMillis(options.config.livenessTimeout),
        heartbeat: Math.floor(Duration.toMillis(options.config.livenessTimeout) / heartbeatsPerTimeout),
        sync: Duration.toMillis(options.config.livenessTimeout) * livenessTimeoutsPerSync,
        refresh: Duration.toMillis(options.config.syncInterval) * syncsPerRefresh
      }
    }
  })

/** A question about a stream that is never answered must hold up neither a start nor a refresh for good. */
export const withTimeouts = (kinesis: Environment["kinesis"], timeout: Duration.Duration): Environment["kinesis"] => {
  const timed = <A>(operation: string, stream: string, call: Effect.Effect<A, KinesisError>) =>
    onFreshTurn(Effect.timeoutFail(call, {
      duration: timeout,
      onTimeout: () =>
        new KinesisError({
          reason: "Timeout",
          operation,
          stream,
          detail: `no answer within ${Duration.format(timeout)} (polling.timeout)`
        })
    }))
  return {
    ...kinesis,
    region: timed("region", "*", kinesis.region),
    describeStream: (stream) => timed("describeStream", stream.name, kinesis.describeStream(stream)),
    listShards: (stream, nextToken) => timed("listShards", stream.name, kinesis.listShards(stream, nextToken)),
    registerConsumer: (arn, name) => timed("registerConsumer", arn, kinesis.registerConsumer(arn, name)),
    describeConsumer: (arn, name) => timed("describeConsumer", arn, kinesis.describeConsumer(arn, name)),
    listConsumers: (arn, nextToken) => timed("listConsumers", arn, kinesis.listConsumers(arn, nextToken)),
    deregisterConsumer: (arn, name) => timed("deregisterConsumer", arn, kinesis.deregisterConsumer(arn, name))
  }
}

/** A step of the group in the state store: a call that is never answered must not be the last one. */
export const inTime = <A, E, R>(
  env: Pick<Environment, "timeouts">,
  operation: string,
  step: Effect.Effect<A, E, R>
): Effect.Effect<A, E | StateStoreError, R> =>
  onFreshTurn(Effect.timeoutFail(step, {
    duration: env.timeouts.sync,
    onTimeout: () =>
      new StateStoreError({
        reason: "Timeout",
        operation,
        detail: `not done within ${Duration.format(Duration.millis(env.timeouts.sync))} (four times livenessTimeout)`
      })
  }))

/**
 * Metrics that are tagged once and kept: the registry finds one at once whose labels are the very same array, and some of
 * them are on the way of each slice.
 */
const makeTagging = <M>(
  app: string,
  withLabels: (metric: M, labels: ReadonlyArray<MetricLabel.MetricLabel>) => M
) => {
  const kept = new Map<M, Map<string, M>>()
  return (metric: M, tags: Tags = {}): M => {
    const variants = kept.get(metric) ?? new Map<string, M>()
    const key = JSON.stringify(tags)
    const tagged = variants.get(key) ??
      withLabels(metric, Object.entries({ app, ...tags }).map(([name, value]) => MetricLabel.make(name, value)))
    kept.set(metric, variants.set(key, tagged))
    return tagged
  }
}
