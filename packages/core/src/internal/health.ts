/** How a member is doing, put together from what its parts know. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import type { KinesisError } from "../KinesisError.js"
import type { ConsumeError } from "../KinesumerError.js"
import type { Position } from "../Position.js"
import type { Member } from "./member.js"
import * as Monotonic from "./monotonic.js"
import type { Run } from "./run.js"

export interface ShardHealth {
  readonly stream: string
  readonly shardId: string
  readonly epoch: number
  /** How far the last answer was behind the tip, in milliseconds; `none` before the first one, and while reading fails. */
  readonly lagMillis: Option.Option<number>
  /** How long ago the last answer came, with records or without, in milliseconds; `none` before the first one. */
  readonly millisSinceAnswer: Option.Option<number>
  /** Why reading does not get on. */
  readonly trouble: Option.Option<KinesisError>
  readonly committed: Position
  /** Up to where everything is marked. */
  readonly processed: Position
  /** Up to where it was delivered. What lies between this and `processed` is not marked yet. */
  readonly delivered: Position
  readonly bufferedRecords: number
  /** Read to its end; what was delivered of it is still to be marked or committed. */
  readonly ending: boolean
}

export interface Health {
  readonly healthy: boolean
  /** `false` while the leases may be somebody else's, so that nothing is delivered. */
  readonly delivering: boolean
  readonly millisSinceHeartbeat: number
  /** How long ago the stream last asked for records. It grows while user code is busy, or runs no stream. */
  readonly millisSincePull: number
  readonly bufferedRecords: number
  readonly bufferedBytes: number
  readonly shards: ReadonlyArray<ShardHealth>
  /** Closed shards that were read to their end while no shard that follows them is known yet. */
  readonly awaitingChildren: ReadonlyArray<{ readonly stream: string; readonly shardId: string }>
  /** Configured streams of which nobody in the group held a shard when the leases were last looked at. */
  readonly unownedStreams: ReadonlyArray<string>
  /** Configured streams that Kinesis says do not exist. */
  readonly missingStreams: ReadonlyArray<string>
  readonly pausedStreams: ReadonlyArray<string>
  /** Background loops whose last round met a defect. */
  readonly failingLoops: ReadonlyArray<string>
  /** What ended `records` and `shards`. */
  readonly failure: Option.Option<ConsumeError>
}

export const make = (member: Member): Effect.Effect<Health> =>
  Effect.gen(function*() {
    const { assignment, budget, delivery, loops, membership, refresher, seen } = member
    const runs = [...(yield* assignment.running).values()]
    const shards = yield* Effect.forEach(runs, shardHealth)
    const { awaitingChildren, streams, unowned } = yield* Ref.get(seen)
    const paused = yield* delivery.paused
    const missing = yield* refresher.missing
    const failing = [...(yield* loops).keys()]
    const failure = yield* delivery.failure
    const delivering = yield* membership.mayDeliver
    const used = yield* budget.used
    return {
      healthy: delivering && failing.length === 0 && Option.isNone(failure) && missing.size === 0 &&
        shards.every(({ trouble }) => Option.isNone(trouble)),
      delivering,
      millisSinceHeartbeat: yield* membership.sinceHeartbeat,
      millisSincePull: yield* delivery.sincePull,
      bufferedRecords: used.records,
      bufferedBytes: used.bytes,
      shards,
      awaitingChildren,
      unownedStreams: streams.filter(({ key }) => unowned.has(key)).map(({ label }) => label),
      missingStreams: streams.filter(({ key }) => missing.has(key)).map(({ label }) => label),
      pausedStreams: streams.filter(({ key }) => paused.has(key)).map(({ label }) => label),
      failingLoops: failing,
      failure
    }
  })

const shardHealth = (run: Run): Effect.Effect<ShardHealth> =>
  Effect.gen(function*() {
    const lane = yield* Ref.get(run.lane)
    const { answeredAt, lag, trouble } = yield* Ref.get(run.reading)
    const now = yield* Monotonic.now
    return {
      stream: run.stream.label,
      shardId: run.shard.shardId,
      epoch: run.epoch,
      lagMillis: Option.isSome(trouble) ? Option.none() : lag,
      millisSinceAnswer: Option.map(answeredAt, (at) => now - at),
      trouble,
      committed: lane.committed,
      processed: lane.processed,
      delivered: lane.cursor,
      bufferedRecords: lane.waitingRecords,
      ending: lane.ending === "Read"
    }
  })
