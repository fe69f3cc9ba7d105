/**
 * The configuration of a group: what it reads, and how.
 *
 * @since 0.1.0
 */
import * as Array_ from "effect/Array"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import { hostname } from "node:os"
import { boolean, duration, oneOf, wholeNumber } from "./internal/checks.js"
import * as StreamName from "./internal/streamName.js"
import { InvalidConfig } from "./KinesumerError.js"

/**
 * Where a group starts on a stream that it has never read. The first start decides, for good: afterwards the stored
 * positions count.
 *
 * - `TrimHorizon`: with the oldest record
 * - `Latest`: with what arrives from now on. "Now" is read off Kinesis's clock once and stored for the whole group
 * - a moment: with the first record that arrived at or after it
 *
 * @since 0.1.0
 * @category models
 */
export type StartFrom = "TrimHorizon" | "Latest" | { readonly timestamp: DateTime.DateTime.Input }

/**
 * @since 0.1.0
 * @category models
 */
export interface StreamOptions {
  /** A name in the client's own account and region, or an ARN. */
  readonly stream: string
  /** Defaults to the group's. */
  readonly startFrom?: StartFrom | undefined
}

/**
 * The options of `Kinesumer.layer`.
 *
 * @since 0.1.0
 * @category models
 */
export interface KinesumerOptions {
  /** The group's name: 1 to 255 characters. Processes with the same app share the shards. */
  readonly app: string
  /** The streams to read, at least one. */
  readonly streams: ReadonlyArray<string | StreamOptions>
  /**
   * The name of this process in the group. A restart under the same name takes its shards over at once. Defaults to the
   * host's name with a random suffix.
   */
  readonly memberId?: string | undefined
  /**
   * How records are read. `polling`: with `GetRecords`, which shares its limits with all who poll the stream. `fanOut`:
   * pushed to a consumer that the group registers with each stream (enhanced fan-out), with a throughput of its own and
   * at a price by the hour and byte. Defaults to `polling`.
   */
  readonly mode?: "polling" | "fanOut" | undefined
  /** Defaults to `TrimHorizon`. */
  readonly startFrom?: StartFrom | undefined
  /** How often members, shards and the assignment are compared. Defaults to 5 seconds. */
  readonly syncInterval?: Duration.DurationInput | undefined
  /**
   * A member is dead to the others when its heartbeat stood still for this long. It stops delivering by itself when it
   * could not write one for this long. Heartbeats come three times as often. Defaults to 15 seconds; at least twice
   * `syncInterval`.
   */
  readonly livenessTimeout?: Duration.DurationInput | undefined
  /** What closing may take at most. Defaults to 30 seconds. */
  readonly closeTimeout?: Duration.DurationInput | undefined
  /** Records that are read ahead, over all shards. Defaults to 50,000. */
  readonly bufferSize?: number | undefined
  /** Bytes that are read ahead, over all shards. Defaults to 64 MiB. */
  readonly bufferBytes?: number | undefined
  readonly commit?: {
    /**
     * When a record counts as processed. `auto`: when the stream comes back for more. `manual`: when you `mark` it.
     * Defaults to `auto`.
     */
    readonly mode?: "auto" | "manual" | undefined
    /** How often marks are written. Defaults to 5 seconds. */
    readonly interval?: Duration.DurationInput | undefined
    /** What one write of marks may take. Defaults to 2 seconds. */
    readonly timeout?: Duration.DurationInput | undefined
  } | undefined
  readonly polling?: {
    /** Records asked for in one call, 1 to 10,000 (the limit of `GetRecords`). Defaults to 10,000. */
    readonly limit?: number | undefined
    /** How long to wait at the tip of a shard; at least 200 milliseconds (5 calls a second). Defaults to 1 second. */
    readonly idleInterval?: Duration.DurationInput | undefined
    /** What one call may take, in either mode. Defaults to 10 seconds. */
    readonly timeout?: Duration.DurationInput | undefined
  } | undefined
  /** Records that a producer has put together into one of Kinesis, as the KPL does. */
  readonly aggregation?: {
    /**
     * Whether each is taken apart, and its parts are delivered as the records that they are, with their own keys and
     * sub-sequence numbers. What is no valid aggregate is delivered as it is. Defaults to `true`.
     */
    readonly expand?: boolean | undefined
    /**
     * What becomes of a part whose hash key is not in the range of the shard that it was read from. The KPL sends such
     * parts again after a reshard; another packer may send all of its parts to one shard. `deliver`: as the others, so
     * what the KPL sent again is delivered again. `drop`: not, as the KCL does it, with an event and a metric. Defaults
     * to `deliver`.
     */
    readonly outOfRange?: "deliver" | "drop" | undefined
  } | undefined
  /** Of use with `mode: "fanOut"` only. */
  readonly fanOut?: {
    /**
     * The name of the consumer, the same for all members of the group and another than that of any other group: 1 to 128
     * letters, digits, `_`, `.` or `-`. Defaults to `app`, which then has to be such a name.
     */
    readonly consumerName?: string | undefined
    /**
     * How long a subscription may be silent while it is asked for an event, before it is taken for dead. Defaults to 30
     * seconds; at least 1 second.
     */
    readonly watchdog?: Duration.DurationInput | undefined
    /** What finding or registering the consumer of a stream may take. Defaults to 2 minutes. */
    readonly registerTimeout?: Duration.DurationInput | undefined
  } | undefined
}

/**
 * The options with every default filled in and every value checked.
 *
 * @since 0.1.0
 * @category models
 */
export interface KinesumerConfig {
  readonly app: string
  readonly streams: Array_.NonEmptyReadonlyArray<{ readonly stream: string; readonly startFrom: StartFrom }>
  readonly memberId: string
  readonly mode: "polling" | "fanOut"
  readonly startFrom: StartFrom
  readonly syncInterval: Duration.Duration
  readonly livenessTimeout: Duration.Duration
  readonly closeTimeout: Duration.Duration
  readonly bufferSize: number
  readonly bufferBytes: number
  readonly commit: {
    readonly mode: "auto" | "manual"
    readonly interval: Duration.Duration
    readonly timeout: Duration.Duration
  }
  readonly polling: {
    readonly limit: number
    readonly idleInterval: Duration.Duration
    readonly timeout: Duration.Duration
  }
  readonly aggregation: {
    readonly expand: boolean
    readonly outOfRange: "deliver" | "drop"
  }
  readonly fanOut: {
    readonly consumerName: string
    readonly watchdog: Duration.Duration
    readonly registerTimeout: Duration.Duration
  }
}

/**
 * Checks the options and fills in the defaults. Fails with the first field that is wrong.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (options: KinesumerOptions): Effect.Effect<KinesumerConfig, InvalidConfig> =>
  Effect.gen(function*() {
    const mode = yield* oneOf("mode", options.mode ?? "polling", ["polling", "fanOut"])
    const startFrom = yield* startFromOf("startFrom", options.startFrom ?? "TrimHorizon")
    const syncInterval = yield* duration("syncInterval", options.syncInterval ?? "5 seconds", "10 millis")
    const app = yield* text("app", options.app)
    return {
      app,
      streams: yield* streamsOf(options.streams, startFrom),
      memberId: options.memberId === undefined ? yield* defaultMemberId : yield* text("memberId", options.memberId),
      mode,
      startFrom,
      syncInterval,
      livenessTimeout: yield* duration(
        "livenessTimeout",
        options.livenessTimeout ?? Duration.max(Duration.seconds(15), Duration.times(syncInterval, 3)),
        Duration.times(syncInterval, 2)
      ),
      closeTimeout: yield* duration("closeTimeout", options.closeTimeout ?? "30 seconds", "10 millis"),
      bufferSize: yield* wholeNumber("bufferSize", options.bufferSize ?? 50_000, 1, Number.MAX_SAFE_INTEGER),
      bufferBytes: yield* wholeNumber(
        "bufferBytes",
        options.bufferBytes ?? 64 * 1024 * 1024,
        1,
        Number.MAX_SAFE_INTEGER
      ),
      commit: {
        mode: yield* oneOf("commit.mode", options.commit?.mode ?? "auto", ["auto", "manual"]),
        interval: yield* duration("commit.interval", options.commit?.interval ?? "5 seconds", "10 millis"),
        timeout: yield* duration("commit.timeout", options.commit?.timeout ?? "2 seconds", "10 millis")
      },
      polling: {
        limit: yield* wholeNumber("polling.limit", options.polling?.limit ?? 10_000, 1, 10_000),
        idleInterval: yield* duration(
          "polling.idleInterval",
          options.polling?.idleInterval ?? "1 second",
          "200 millis"
        ),
        timeout: yield* duration("polling.timeout", options.polling?.timeout ?? "10 seconds", "10 millis")
      },
      aggregation: {
        expand: yield* boolean("aggregation.expand", options.aggregation?.expand ?? true),
        outOfRange: yield* oneOf(
          "aggregation.outOfRange",
          options.aggregation?.outOfRange ?? "deliver",
          ["deliver", "drop"]
        )
      },
      fanOut: {
        consumerName: yield* consumerNameOf(options.fanOut?.consumerName, app, mode),
        watchdog: yield* duration("fanOut.watchdog", options.fanOut?.watchdog ?? "30 seconds", "1 second"),
        registerTimeout: yield* duration(
          "fanOut.registerTimeout",
          options.fanOut?.registerTimeout ?? "2 minutes",
          "1 second"
        )
      }
    }
  })

/** The streams of the options, each with its own start; also what `refresh` is given. */
export const streamsOf = (
  streams: ReadonlyArray<string | StreamOptions>,
  startFrom: StartFrom
): Effect.Effect<KinesumerConfig["streams"], InvalidConfig> =>
  Effect.gen(function*() {
    if (!Array_.isNonEmptyReadonlyArray(streams)) {
      return yield* new InvalidConfig({ field: "streams", value: streams, allowed: "at least one stream" })
    }
    return yield* Effect.forEach(streams, (entry, index) =>
      Effect.gen(function*() {
        const field = `streams[${index}]`
        const { startFrom: own, stream } = typeof entry === "string" ? { stream: entry, startFrom: undefined } : entry
        if (Option.isNone(StreamName.parse(stream))) {
          return yield* new InvalidConfig({ field, value: stream, allowed: StreamName.allowed })
        }
        return { stream, startFrom: yield* startFromOf(`${field}.startFrom`, own ?? startFrom) }
      }))
  })

const defaultMemberId = Effect.map(
  Random.nextIntBetween(0, 36 ** 6),
  (suffix) => `${hostname()}-${suffix.toString(36).padStart(6, "0")}`
)

const text = (field: string, value: string): Effect.Effect<string, InvalidConfig> =>
  typeof value === "string" && value.length > 0 && value.length <= 255
    ? Effect.succeed(value)
    : new InvalidConfig({ field, value, allowed: "a text of 1 to 255 characters" })

const consumerName = /^[a-zA-Z0-9_.-]{1,128}$/

/** An app may have a name that no consumer can have; that counts only where the name is to be a consumer's. */
const consumerNameOf = (
  given: string | undefined,
  app: string,
  mode: KinesumerConfig["mode"]
): Effect.Effect<string, InvalidConfig> => {
  const value = given ?? app
  const isChecked = given !== undefined || mode === "fanOut"
  return !isChecked || (typeof value === "string" && consumerName.test(value))
    ? Effect.succeed(value)
    : new InvalidConfig({
      field: "fanOut.consumerName",
      value,
      allowed: "1 to 128 letters, digits, _ . or -" +
        (given === undefined ? ". It defaults to app, which is no such name: give the consumer one of its own" : "")
    })
}

const startFromOf = (field: string, value: StartFrom): Effect.Effect<StartFrom, InvalidConfig> =>
  value === "TrimHorizon" || value === "Latest" ||
    (typeof value === "object" && Option.isSome(DateTime.make(value.timestamp)))
    ? Effect.succeed(value)
    : new InvalidConfig({
      field,
      value,
      allowed: `"TrimHorizon", "Latest" or { timestamp } with a moment such as "2026-01-31T00:00:00Z"`
    })
