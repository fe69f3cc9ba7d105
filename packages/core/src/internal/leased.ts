/** Runs what is written because of a record only while its lease is current, as far as this member can know. */
import * as Effect from "effect/Effect"
import * as Ref from "effect/Ref"
import { LeaseLost } from "../KinesumerError.js"
import type { KinesumerRecord } from "../KinesumerRecord.js"
import { runOf } from "./delivery.js"
import type { Environment } from "./environment.js"
import { onFreshTurn } from "./freshTurn.js"
import type { Membership } from "./membership.js"
import * as Run from "./run.js"

export const whileLeased = <A, E, R>(
  env: Environment,
  membership: Membership,
  record: KinesumerRecord,
  effect: Effect.Effect<A, E, R>
): Effect.Effect<A, E | LeaseLost, R> =>
  onFreshTurn(Effect.gen(function*() {
    const run = runOf(record)
    if (run === undefined) {
      return yield* Effect.dieMessage("whileLeased was given a record that this group has not delivered")
    }
    const isCurrent = Effect.zipWith(
      Ref.get(run.status),
      membership.mayDeliver,
      (status, mayDeliver) => status !== "Over" && mayDeliver
    )
    const lost = Effect.suspend(() => new LeaseLost({ ...Run.nameOf(run), epoch: run.epoch }))
    if (!(yield* isCurrent)) return yield* lost
    /** Others may take this member for dead when its heartbeats are this old. */
    const expired: Effect.Effect<void> = Effect.gen(function*() {
      const since = yield* membership.sinceHeartbeat
      yield* Effect.sleep(Math.max(1, env.timeouts.liveness - since))
      if (yield* isCurrent) return yield* expired
    })
    return yield* Effect.raceFirst(
      effect,
      Effect.zipRight(Effect.raceFirst(run.over.await, expired), lost)
    )
  }))
