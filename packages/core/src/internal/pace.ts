/** Keeps subscriptions to a shard apart, whichever of its readers asks: one can end and the next begin at any time. */
import * as Effect from "effect/Effect"
import * as Ref from "effect/Ref"
import * as Monotonic from "./monotonic.js"

export interface Pace {
  /** The monotonic time before which nobody must ask for this shard. */
  readonly notBefore: (key: string) => Effect.Effect<number>
  /** Somebody asks for it now. */
  readonly called: (key: string) => Effect.Effect<void>
}

/** One SubscribeToShard a second for a shard. */
const callMillis = 1_000

export const make: Effect.Effect<Pace> = Effect.map(Ref.make<ReadonlyMap<string, number>>(new Map()), (calls) => ({
  notBefore: (key) => Effect.map(Ref.get(calls), (all) => (all.get(key) ?? -Infinity) + callMillis),
  called: (key) =>
    Effect.flatMap(Monotonic.now, (now) =>
      Ref.update(
        calls,
        (all) => new Map([...all].filter(([, at]) => now - at < callMillis)).set(key, now)
      ))
}))
