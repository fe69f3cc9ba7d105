/**
 * This member's own life in the group: registration, heartbeat, and whether it may deliver.
 *
 * A member may deliver while two things hold: its last successful heartbeat was sent less than the liveness timeout ago,
 * so that nobody can have declared it dead; and its leases were verified since the last time that this was not so. The
 * first is checked at each pull, since a process that was frozen wakes with a full buffer and no loop of its own has
 * run; the second is granted by a sync that has found the member's row and looked at its leases.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Ref from "effect/Ref"
import * as KinesumerEvent from "../KinesumerEvent.js"
import type { Member } from "../StateStore.js"
import type { MemberMissing } from "../StateStoreError.js"
import { type MemberReplaced, type StateStoreError } from "../StateStoreError.js"
import * as Assign from "./assign.js"
import type { Environment } from "./environment.js"
import * as Monotonic from "./monotonic.js"

interface Standing {
  readonly member: Member
  /** When the last heartbeat that succeeded was sent. */
  readonly beatAt: number
  readonly verified: boolean
  /** Grows with each reason to verify anew, so that an older verification does not count. */
  readonly doubts: number
}

export interface Membership {
  /** Writes the member's row for the first time. */
  readonly register: Effect.Effect<void, StateStoreError>
  /** Writes it again after it vanished. Nothing is delivered until a sync has seen it. */
  readonly registerAgain: Effect.Effect<void, StateStoreError>
  readonly heartbeat: Effect.Effect<void, StateStoreError | MemberMissing | MemberReplaced>
  /** Delivers nothing until the leases are verified. */
  readonly suspend: Effect.Effect<void>
  readonly deregister: Effect.Effect<void, StateStoreError>
  /** Changes what the row says; it is written with the next heartbeat. */
  readonly announce: (change: Partial<Pick<Member, "refreshes" | "streams">>) => Effect.Effect<void>
  readonly member: Effect.Effect<Member>
  readonly mayDeliver: Effect.Effect<boolean>
  /** Waits until delivery may be tried again. */
  readonly awaitDelivery: Effect.Effect<void>
  /** Lets every waiter look again, for good: the member has come to its end. */
  readonly stopWaiting: Effect.Effect<void>
  readonly sinceHeartbeat: Effect.Effect<number>
  /** Begins a verification: what is passed to `verified` when the leases have been looked at. */
  readonly doubts: Effect.Effect<number>
  readonly needsVerification: Effect.Effect<boolean>
  /** The leases have to be asked for again, by a round that begins now: others see this member alive, as of now. */
  readonly needsRenewal: Effect.Effect<boolean>
  readonly verified: (doubts: number) => Effect.Effect<void>
}

export const make = (env: Environment, streams: ReadonlyArray<string>): Effect.Effect<Membership> =>
  Effect.gen(function*() {
    const { app } = env.config
    const timeout = Duration.toMillis(env.config.livenessTimeout)
    const standing = yield* Ref.make<Standing>({
      member: { ...env.self, heartbeat: 0, refreshes: 0, streams, assignVersion: Assign.version },
      beatAt: yield* Monotonic.now,
      verified: true,
      doubts: 0
    })
    const gate = yield* Effect.makeLatch(true)

    const suspend = Effect.flatMap(
      Ref.modify(standing, (state) => [state.verified, { ...state, verified: false, doubts: state.doubts + 1 }]),
      (wasVerified) =>
        wasVerified ? Effect.zipRight(gate.close, env.emit(KinesumerEvent.DeliverySuspended())) : Effect.void
    )

    /** The time is taken before the write is sent: no observer can have seen the counter move earlier. */
    const beat = <E>(write: (member: Member) => Effect.Effect<void, E>): Effect.Effect<void, E> =>
      Effect.gen(function*() {
        const sentAt = yield* Monotonic.now
        const { beatAt, member } = yield* Ref.updateAndGet(standing, (state) => ({
          ...state,
          member: { ...state.member, heartbeat: state.member.heartbeat + 1 }
        }))
        yield* write(member)
        // Whoever looked just before this write took effect has seen the counter stand still since the last one.
        if ((yield* Monotonic.now) - beatAt >= timeout) yield* suspend
        yield* Ref.update(standing, (state) => ({ ...state, beatAt: Math.max(state.beatAt, sentAt) }))
      })

    return {
      register: beat((member) => env.store.registerMember(app, member)),
      registerAgain: Effect.gen(function*() {
        yield* suspend
        yield* beat((member) => env.store.registerMember(app, member))
        yield* env.emit(KinesumerEvent.MemberRegisteredAgain())
      }),
      heartbeat: beat((member) => env.store.heartbeat(app, member)).pipe(
        Effect.tapErrorTag("MemberMissing", () => suspend)
      ),
      suspend,
      deregister: env.store.deregisterMember(app, env.self),
      announce: (change) => Ref.update(standing, (state) => ({ ...state, member: { ...state.member, ...change } })),
      member: Effect.map(Ref.get(standing), ({ member }) => member),
      mayDeliver: Effect.gen(function*() {
        const { beatAt, verified } = yield* Ref.get(standing)
        if (!verified) return false
        if ((yield* Monotonic.now) - beatAt < timeout) return true
        yield* suspend
        return false
      }),
      awaitDelivery: gate.await,
      stopWaiting: Effect.asVoid(gate.open),
      sinceHeartbeat: Effect.zipWith(Monotonic.now, Ref.get(standing), (now, { beatAt }) => now - beatAt),
      doubts: Effect.map(Ref.get(standing), ({ doubts }) => doubts),
      needsVerification: Effect.map(Ref.get(standing), ({ verified }) => !verified),
      needsRenewal: Effect.zipWith(
        Monotonic.now,
        Ref.get(standing),
        (now, { beatAt, verified }) => !verified && now - beatAt < timeout
      ),
      verified: (doubts) =>
        Effect.gen(function*() {
          const now = yield* Monotonic.now
          const opened = yield* Ref.modify(standing, (state) =>
            !state.verified && state.doubts === doubts && now - state.beatAt < timeout
              ? [true, { ...state, verified: true }]
              : [false, state])
          if (opened) {
            yield* Effect.zipRight(gate.open, env.emit(KinesumerEvent.DeliveryResumed()))
          }
        })
    }
  })

/** What the list says of this start of the member: another one under its id takes its place, and must not be undone. */
export const standing = (
  members: ReadonlyArray<Member>,
  self: Environment["self"]
): "Registered" | "Missing" | "Replaced" => {
  const row = members.find(({ memberId }) => memberId === self.memberId)
  if (row === undefined) return "Missing"
  return row.incarnation === self.incarnation ? "Registered" : "Replaced"
}
