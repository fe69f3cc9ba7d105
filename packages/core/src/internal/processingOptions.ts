/** From the options of `process` and `processBatch` to what runs them: defaults, checks, and what a failure is about. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { InvalidConfig } from "../KinesumerError.js"
import type { KinesumerRecord } from "../KinesumerRecord.js"
import * as Processing from "../Processing.js"
import type { Delivery } from "./delivery.js"
import type { Environment } from "./environment.js"
import { maxGaps } from "./lane.js"
import * as Engine from "./processing.js"
import { wholeNumber } from "./wholeNumber.js"

export const process = <E, R, RR = never, DE = never, DR = never>(
  env: Environment,
  delivery: Delivery,
  handler: Processing.Handler<E, R>,
  options: Processing.ProcessOptions<E, RR, DE, DR> = {}
): Effect.Effect<void, Processing.ProcessError<E, DE>, R | RR | DR> =>
  Effect.flatMap(settingsOf(options, 1, Duration.zero), (settings) =>
    Engine.run(env, delivery, settings, {
      handle: ([record]) => handler(record),
      judge: (error) => () => error,
      retry: options.retry,
      onFailure: options.onFailure ?? "stop"
    }))

export const processBatch = <E, R, RR = never, DE = never, DR = never>(
  env: Environment,
  delivery: Delivery,
  handler: Processing.BatchHandler<E, R>,
  options: Processing.BatchOptions<E, RR, DE, DR> = {}
): Effect.Effect<void, Processing.ProcessError<Processing.BatchError<E>, DE>, R | RR | DR> =>
  Effect.gen(function*() {
    const size = yield* wholeNumber("size", options.size ?? Math.min(100, options.maxInFlight ?? 100), 1, maxGaps)
    const maxWait = yield* duration("maxWait", options.maxWait ?? "100 millis")
    const settings = yield* settingsOf(options, size, maxWait)
    if (size > settings.maxInFlight) {
      return yield* new InvalidConfig({
        field: "size",
        value: size,
        allowed: `no more than maxInFlight, ${settings.maxInFlight}`
      })
    }
    yield* Engine.run(env, delivery, settings, {
      handle: handler,
      judge,
      retry: options.retry,
      onFailure: options.onFailure ?? "stop"
    })
  })

/** An error that names none of the records is about all of them. */
const judge = <E>(error: Processing.HandlerError<E>, records: ReadonlyArray<KinesumerRecord>) => {
  type Judged = Processing.HandlerError<Processing.BatchError<E>>
  if (!(error instanceof Processing.BatchFailed)) return () => error as Judged
  const failures = new Map(error.failures.map(({ error, record }) => [keyOf(record), error as Judged]))
  return records.some((record) => failures.has(keyOf(record)))
    ? (record: KinesumerRecord) => failures.get(keyOf(record))
    : () => error as Judged
}

const keyOf = (
  { sequenceNumber, subSequenceNumber }: Pick<KinesumerRecord, "sequenceNumber" | "subSequenceNumber">
): string => subSequenceNumber === undefined ? sequenceNumber : `${sequenceNumber}/${subSequenceNumber}`

const settingsOf = <In, E, RR, DE, DR>(
  options: Processing.HandlingOptions<In, E, RR, DE, DR>,
  size: number,
  maxWait: Duration.Duration
): Effect.Effect<Engine.Settings, InvalidConfig> =>
  Effect.gen(function*() {
    return {
      ordering: options.ordering ?? "shard",
      concurrency: yield* wholeNumber("concurrency", options.concurrency ?? 16, 1, Number.MAX_SAFE_INTEGER),
      // More would be more gaps than a lane keeps, and their marks would be forgotten.
      maxInFlight: yield* wholeNumber("maxInFlight", options.maxInFlight ?? Math.max(1_000, size), 1, maxGaps),
      timeout: options.timeout === undefined
        ? Option.none()
        : Option.some(yield* duration("timeout", options.timeout)),
      size,
      maxWait
    }
  })

const duration = (field: string, value: Duration.DurationInput): Effect.Effect<Duration.Duration, InvalidConfig> =>
  Option.match(Option.filter(Duration.decodeUnknown(value), Duration.greaterThan(Duration.zero)), {
    onNone: () => new InvalidConfig({ field, value, allowed: "a duration above 0" }),
    onSome: Effect.succeed
  })
