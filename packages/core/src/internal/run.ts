/** A shard that this member runs under one lease: the unit that is started, stopped and lost. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import * as Scope from "effect/Scope"
import type { KinesisError } from "../KinesisError.js"
import type { ShardName } from "../KinesumerEvent.js"
import type { Position } from "../Position.js"
import type { Shard } from "../Shard.js"
import type { Lease } from "../StateStore.js"
import * as Lane from "./lane.js"
import * as Signal from "./signal.js"
import type { StreamState } from "./streams.js"

/**
 * ```
 *   Running ──> Leaving ──> Over      handed over: nothing more is delivered, what is in hand may still be marked
 *      └────────────────────> Over    lost, or at its end
 * ```
 */
export type Status = "Running" | "Leaving" | "Over"

export interface Run {
  readonly key: string
  readonly stream: StreamState
  /** The key of the checkpoint's rows: the stream's, or that of its newer self. */
  readonly checkpointKey: string
  readonly shard: Shard
  readonly epoch: number
  readonly lane: Ref.Ref<Lane.Lane>
  readonly status: Ref.Ref<Status>
  /** Holds the reader. */
  readonly scope: Scope.CloseableScope
  /** The shards that follow this one, as its last answer named them. */
  readonly children: Ref.Ref<ReadonlyArray<Shard>>
  /** The reader waits here: for room in its backlog, for demand, or to begin again. */
  readonly room: Signal.Signal
  /** A stream of this shard alone waits here for its next slice. */
  readonly arrival: Signal.Signal
  /** A hand-over waits here for the slice in hand. */
  readonly settled: Signal.Signal
  /** Opens once, for good, when the run is `Over`. */
  readonly over: Effect.Latch
  readonly reading: Ref.Ref<Reading>
}

/** How reading is doing. */
export interface Reading {
  /** How far the last answer was behind the tip, in milliseconds. */
  readonly lag: Option.Option<number>
  /** Monotonic time of the last answer, of an empty one too. */
  readonly answeredAt: Option.Option<number>
  /** Why it does not get on, while it does not. */
  readonly trouble: Option.Option<KinesisError>
}

export const keyOf = (checkpointKey: string, shardId: string): string => `${checkpointKey}/${shardId}`

export const make = (options: {
  readonly stream: StreamState
  readonly checkpointKey: string
  readonly shard: Shard
  readonly epoch: number
  readonly position: Position
}): Effect.Effect<Run> =>
  Effect.gen(function*() {
    return {
      key: keyOf(options.checkpointKey, options.shard.shardId),
      stream: options.stream,
      checkpointKey: options.checkpointKey,
      shard: options.shard,
      epoch: options.epoch,
      lane: yield* Ref.make(Lane.make(options.position)),
      status: yield* Ref.make<Status>("Running"),
      scope: yield* Scope.make(),
      children: yield* Ref.make<ReadonlyArray<Shard>>([]),
      room: yield* Signal.make,
      arrival: yield* Signal.make,
      settled: yield* Signal.make,
      over: yield* Effect.makeLatch(false),
      reading: yield* Ref.make<Reading>({ lag: Option.none(), answeredAt: Option.none(), trouble: Option.none() })
    }
  })

export const nameOf = (run: Run): ShardName => ({ stream: run.stream.label, shardId: run.shard.shardId })

export const leaseOf = (run: Run): Lease => ({
  stream: run.checkpointKey,
  shardId: run.shard.shardId,
  epoch: run.epoch
})
