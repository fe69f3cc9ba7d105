import type { StartFrom } from "@kinesumer/core/KinesumerConfig"

/**
 * How a member reads.
 *
 * - `view`: `records`, or `shards` with the shards in parallel
 * - `commit`: `auto`, or `manual` with handlers that finish in any order
 *
 * @since 0.1.0
 * @category models
 */
export interface Consumer {
  readonly view: "records" | "shards"
  readonly commit: "auto" | "manual"
  /** The longest that a handler takes for one record, in milliseconds. */
  readonly handleMillis: number
  /** How often a handler fails. Then the run of the stream ends, and a new one begins. */
  readonly failures: number
  /** How a member leaves: its stream is interrupted first, or the layer closes under a stream that runs. */
  readonly leaves: "interrupted" | "closed"
}

/**
 * A member that starts.
 *
 * @since 0.1.0
 * @category models
 */
export interface MemberSpec {
  readonly member: string
  readonly streams: ReadonlyArray<string>
  readonly consumer: Consumer
  /** How far its wall clock is off, in milliseconds. */
  readonly wallClockSkew: number
}

/**
 * What happens to calls of a member, or of all, for a while.
 *
 * @since 0.1.0
 * @category models
 */
export type Trouble =
  | { readonly kind: "unavailable"; readonly chance: number }
  | { readonly kind: "throttled"; readonly chance: number }
  /** The call takes effect and its answer is lost. */
  | { readonly kind: "answerLost"; readonly chance: number }
  /** The call is made twice. */
  | { readonly kind: "twice"; readonly chance: number }
  /** The call is never answered, and does not take effect. */
  | { readonly kind: "hangs"; readonly chance: number }
  /** The call takes up to so many milliseconds on its way, each way. */
  | { readonly kind: "slow"; readonly millis: number }

/**
 * Something that happens in a scenario. Times are in milliseconds.
 *
 * @since 0.1.0
 * @category models
 */
export type Action =
  | ({ readonly _tag: "Join" } & MemberSpec)
  /** The member closes its layer. */
  | { readonly _tag: "Leave"; readonly member: string }
  /** The process is cut wherever it is. With `restartAfter` it comes back under its id. */
  | { readonly _tag: "Crash"; readonly member: string; readonly restartAfter?: number | undefined }
  /** A second process starts under the id of one that lives. */
  | { readonly _tag: "Double"; readonly member: string }
  /** Nothing of the process runs for a while. */
  | { readonly _tag: "Stall"; readonly member: string; readonly millis: number }
  | { readonly _tag: "Partition"; readonly member: string; readonly from: "store" | "kinesis"; readonly millis: number }
  | {
    readonly _tag: "Trouble"
    readonly service: "store" | "kinesis"
    readonly member?: string | undefined
    readonly trouble: Trouble
    readonly millis: number
  }
  /** Kinesis answers a page without a next iterator, and lists closed shards as open, now and then. */
  | { readonly _tag: "FalseEnds"; readonly chance: number; readonly millis: number }
  | { readonly _tag: "StaleLists"; readonly millis: number }
  | { readonly _tag: "ClockJump"; readonly member: string; readonly by: number }
  /** The row of the member vanishes. */
  | { readonly _tag: "ForgetMember"; readonly member: string }
  | { readonly _tag: "Put"; readonly stream: string; readonly count: number; readonly bytes: number }
  | { readonly _tag: "Reshard"; readonly stream: string; readonly count: number }
  | { readonly _tag: "Split"; readonly stream: string; readonly place: number }
  | { readonly _tag: "Merge"; readonly stream: string; readonly place: number }
  | { readonly _tag: "ExpireIterators" }
  /** All subscriptions to the stream end before their time, `broken` with an error. */
  | { readonly _tag: "EndSubscriptions"; readonly stream: string; readonly broken: boolean }
  /** Somebody takes the group's consumer away from the stream. */
  | { readonly _tag: "DeregisterConsumer"; readonly stream: string }
  | { readonly _tag: "EmptyPages"; readonly stream: string; readonly count: number; readonly atEnd: boolean }
  /** The oldest part of what each shard of the stream holds vanishes; closed shards that hold nothing vanish too. */
  | { readonly _tag: "Trim"; readonly stream: string; readonly part: number }
  | { readonly _tag: "Refresh"; readonly member: string; readonly streams: ReadonlyArray<string> }
  | { readonly _tag: "Pause"; readonly member: string; readonly stream: string; readonly millis: number }
  | { readonly _tag: "SlowConsumer"; readonly member: string; readonly handleMillis: number; readonly millis: number }
  /** A handler does not come back for so long. */
  | { readonly _tag: "StuckConsumer"; readonly member: string; readonly millis: number }

/**
 * An action and its moment, in milliseconds since the beginning.
 *
 * @since 0.1.0
 * @category models
 */
export type Event = Action & { readonly at: number }

/**
 * What is simulated: plain data, that a seed stands for. What the scenario leaves open (latencies, back-off, which fiber
 * goes first) is drawn from the seed too.
 *
 * @since 0.1.0
 * @category models
 */
export interface Scenario {
  readonly seed: number
  readonly mode: "polling" | "fanOut"
  /** The streams, with their shards at the beginning. */
  readonly streams: ReadonlyArray<{ readonly name: string; readonly shards: number }>
  readonly startFrom: Exclude<StartFrom, object>
  readonly syncInterval: number
  readonly livenessTimeout: number
  readonly closeTimeout: number
  readonly commitInterval: number
  readonly idleInterval: number
  readonly bufferSize: number
  readonly limit: number
  /** What a position whose record has vanished is to Kinesis. */
  readonly trimmedPosition: "horizon" | "refuse"
  readonly pageSize: number
  /** The longest that a request takes on its way, and an answer on its way back, in milliseconds. */
  readonly latency: number
  /** So many records are put together into one of Kinesis, as a producer that aggregates does it; none by default. */
  readonly aggregation?: number | undefined
  /** Sorted by their moments. */
  readonly events: ReadonlyArray<Event>
}

/**
 * A promise of the library that was broken, and how.
 *
 * @since 0.1.0
 * @category models
 */
export interface Violation {
  /** `P1` to `P12`, as the documentation counts them. */
  readonly promise: string
  /** Milliseconds since the beginning. */
  readonly at: number
  readonly detail: string
}
