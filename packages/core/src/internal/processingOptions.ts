/** From the options of `process` and `processBatch` to what runs them: defaults, checks, and what a failure is about. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import { InvalidConfig } from "../KinesumerError.js"
import type { KinesumerRecord } from "../KinesumerRecord.js"
import * as Processing from "../Processing.js"
import { duration, oneOf, wholeNumber } from "./checks.js"
import type { Delivery } from "./delivery.js"
import type { Environment } from "./environment.js"
import { maxGaps } from "./lane.js"
import * as Engine from "./processing.js"

export const process = <E, R, RR = never, DE = never, DR = never>(
  env: Environment,
  delivery: Delivery,
  handler: Processing.Handler<E, R>,
  options: Processing.ProcessOptions<E, RR, DE, DR> = {}
): Effect.Effect<void, Processing.ProcessError<E, DE>, R | RR | DR> =>
  Effect.gen(function*() {
    const settings = yield* settingsOf(options, 1, Duration.zero)
    yield* Engine.run(env, delivery, settings, {
      handle: ([record]) => handler(record),
      judge: (error) => () => Option.some(error),
      retry: options.retry,
      onFailure: yield* onFailureOf(options)
    })
  })

export const processBatch = <E, R, RR = never, DE = never, DR = never>(
  env: Environment,
  delivery: Delivery,
  handler: Processing.BatchHandler<E, R>,
  options: Processing.BatchOptions<E, RR, DE, DR> = {}
): Effect.Effect<void, Processing.ProcessError<Processing.BatchError<E>, DE>, R | RR | DR> =>
  Effect.gen(function*() {
    const maxWait = yield* duration("maxWait", options.maxWait ?? "100 millis", leastDuration)
    const settings = yield* settingsOf(options, options.size, maxWait)
    yield* Engine.run(env, delivery, settings, {
      handle: handler,
      judge,
      retry: options.retry,
      onFailure: yield* onFailureOf(options)
    })
  })

/** An error that names no records, or one of another batch, is about all of them. */
const judge = <E>(error: Processing.HandlerError<E>, records: ReadonlyArray<KinesumerRecord>) => {
  type Judged = Processing.HandlerError<Processing.BatchError<E>>
  const ofAll = (): Option.Option<Judged> => Option.some(error)
  if (!isBatchFailed(error) || error.failures.length === 0) return ofAll
  const failures = new Map(error.failures.map(({ error, record }) => [keyOf(record), Option.some<Judged>(error)]))
  const keys = new Set(records.map(keyOf))
  for (const key of failures.keys()) if (!keys.has(key)) return ofAll
  return (record: KinesumerRecord): Option.Option<Judged> => failures.get(keyOf(record)) ?? Option.none()
}

const isBatchFailed = <E>(
  error: Processing.HandlerError<E>
): error is E & Processing.BatchFailed<Processing.NamedError<E>> => error instanceof Processing.BatchFailed

const keyOf = (
  { sequenceNumber, subSequenceNumber }: Pick<KinesumerRecord, "sequenceNumber" | "subSequenceNumber">
): string => subSequenceNumber === undefined ? sequenceNumber : `${sequenceNumber}/${subSequenceNumber}`

const orderings: ReadonlyArray<Processing.Ordering> = ["shard", "partitionKey", "none"]

const leastDuration = Duration.millis(1)

const settingsOf = <In, E, RR, DE, DR>(
  options: Processing.HandlingOptions<In, E, RR, DE, DR>,
  givenSize: number | undefined,
  maxWait: Duration.Duration
): Effect.Effect<Engine.Settings, InvalidConfig> =>
  Effect.gen(function*() {
    if (givenSize !== undefined) yield* wholeNumber("size", givenSize, 1, maxGaps)
    // More would be more gaps than a lane keeps, and their marks would be forgotten.
    const maxInFlight = yield* wholeNumber(
      "maxInFlight",
      options.maxInFlight ?? Math.max(1_000, givenSize ?? 1),
      1,
      maxGaps
    )
    if (options.retry !== undefined && !Schedule.isSchedule(options.retry)) {
      return yield* new InvalidConfig({ field: "retry", value: options.retry, allowed: "a Schedule" })
    }
    const size = givenSize ?? Math.min(100, maxInFlight)
    if (size > maxInFlight) {
      return yield* new InvalidConfig({
        field: "size",
        value: size,
        allowed: `no more than maxInFlight, ${maxInFlight}`
      })
    }
    return {
      ordering: yield* oneOf("ordering", options.ordering ?? "shard", orderings),
      concurrency: yield* wholeNumber("concurrency", options.concurrency ?? 16, 1, Number.MAX_SAFE_INTEGER),
      maxInFlight,
      timeout: options.timeout === undefined
        ? Option.none()
        : Option.some(yield* duration("timeout", options.timeout, leastDuration)),
      size,
      maxWait
    }
  })

const onFailureOf = <In, E, RR, DE, DR>(
  { onFailure = "stop" }: Processing.HandlingOptions<In, E, RR, DE, DR>
): Effect.Effect<typeof onFailure, InvalidConfig> =>
  onFailure === "stop" || typeof onFailure === "function"
    ? Effect.succeed(onFailure)
    : new InvalidConfig({ field: "onFailure", value: onFailure, allowed: `"stop" or a function that gives an effect` })
