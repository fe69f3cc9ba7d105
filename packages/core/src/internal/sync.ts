/**
 * One round of the group: read the members and the shard lists, compute the target, prepare all of it, publish. A round
 * that fails or is interrupted while it prepares has changed nothing: the previous assignment goes on with its cursors,
 * and no lease is kept for the rejected one.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import * as KinesumerEvent from "../KinesumerEvent.js"
import type { ShardName } from "../KinesumerEvent.js"
import * as Metrics from "../KinesumerMetrics.js"
import * as Position from "../Position.js"
import type { Checkpoint, Member, Owner, ShardList } from "../StateStore.js"
import { AcquireResult } from "../StateStore.js"
import type { StateStoreError } from "../StateStoreError.js"
import type { Assignment } from "./assignment.js"
import type { Environment } from "./environment.js"
import { onFreshTurn } from "./freshTurn.js"
import type * as Lane from "./lane.js"
import * as Lineage from "./lineage.js"
import * as Liveness from "./liveness.js"
import * as Membership from "./membership.js"
import * as Monotonic from "./monotonic.js"
import * as Plan from "./plan.js"
import * as Run from "./run.js"
import * as ShardLists from "./shardLists.js"
import type { StreamState } from "./streams.js"

/** What the last round has seen. */
export interface Seen {
  readonly streams: ReadonlyArray<StreamState>
  readonly lists: ReadonlyMap<string, ShardList>
  readonly live: ReadonlyArray<Member>
  readonly liveness: Liveness.Liveness
  /** Closed shards that were read to their end while no shard that follows them is known. */
  readonly awaitingChildren: ReadonlyArray<ShardName>
  /** Streams of which nobody held a shard when the leases were last looked at. */
  readonly unowned: ReadonlySet<string>
  /** The leases have to be looked at even if nothing else has changed. */
  readonly look: boolean
}

export interface SyncContext {
  readonly env: Environment
  readonly membership: Membership.Membership
  readonly assignment: Assignment
  readonly seen: Ref.Ref<Seen>
  /** There is something to commit at once. */
  readonly commitSoon: Effect.Effect<void>
  readonly lost: (run: Run.Run) => Effect.Effect<void>
  /** The end of the shard is written. */
  readonly ended: (run: Run.Run) => Effect.Effect<void>
}

/** A round with the streams that were seen last, or with others that take their place if it succeeds. */
export const round = (
  context: SyncContext,
  streams: Option.Option<ReadonlyArray<StreamState>>
): Effect.Effect<void, StateStoreError> =>
  Effect.gen(function*() {
    const { env, membership } = context
    const { app } = env.config
    // What asks for another look from here on is not answered by this round.
    const before = yield* Ref.getAndUpdate(context.seen, (seen) => ({ ...seen, look: false }))
    const doubts = yield* membership.doubts
    const renew = yield* membership.needsRenewal
    // An answer that comes late shows what was so when it was asked for.
    const now = yield* Monotonic.now
    const members = yield* env.store.listMembers(app)
    const standing = Membership.standing(members, env.self)
    if (standing !== "Registered") {
      yield* lookAgain(context)
      return yield* standing === "Missing" ? membership.registerAgain : membership.suspend
    }
    const liveness = Liveness.observeMembers(before.liveness, members, {
      askedAt: now,
      now: yield* Monotonic.now,
      timeout: env.timeouts.liveness
    })
    const versions = yield* env.store.listShardVersions(app)
    const seen = yield* look(context, before, {
      streams: Option.getOrElse(streams, () => before.streams),
      members,
      liveness,
      versions,
      now
    })
    if (isSame(before, seen) && !(yield* membership.needsVerification)) {
      yield* Ref.update(context.seen, (current) => ({ ...current, live: seen.live, liveness: seen.liveness }))
    } else {
      yield* change(context, seen, { members, now, renew })
    }
    yield* membership.verified(doubts)
    yield* prune(context, members, now)
  }).pipe(
    Effect.onExit((exit) => Exit.isFailure(exit) ? lookAgain(context) : Effect.void),
    Effect.withSpan("kinesumer.sync", { captureStackTrace: false })
  )

const lookAgain = ({ seen }: Pick<SyncContext, "seen">): Effect.Effect<void> =>
  Ref.update(seen, (current) => ({ ...current, look: true }))

/** One question to the store for each, a few at a time. */
const readAll = <A, B>(
  all: ReadonlyArray<A>,
  read: (one: A) => Effect.Effect<B, StateStoreError>
): Effect.Effect<ReadonlyArray<B>, StateStoreError> => onFreshTurn(Effect.forEach(all, read, { concurrency: 4 }))

/** What is there now: the live members, and the lists whose version has moved. */
const look = (
  { env, membership }: SyncContext,
  before: Seen,
  read: {
    readonly streams: ReadonlyArray<StreamState>
    readonly members: ReadonlyArray<Member>
    readonly liveness: Liveness.Liveness
    readonly versions: ReadonlyMap<string, number>
    readonly now: number
  }
): Effect.Effect<Seen, StateStoreError> =>
  Effect.gen(function*() {
    const { liveness, members, now, streams, versions } = read
    const self = yield* membership.member
    const timeout = env.timeouts.liveness
    const live = members
      .filter((member) => member.memberId === self.memberId || !Liveness.isDead(liveness, member, now, timeout))
      // Our own row may be older than what we are asked to read.
      .map((member) =>
        member.memberId === self.memberId ? { ...member, streams: streams.map(({ key }) => key) } : member
      )
    const stored = (key: string, read: Effect.Effect<Option.Option<ShardList>, StateStoreError>) => {
      const known = before.lists.get(key)
      return Effect.map(
        known !== undefined && known.version === versions.get(key) ? Effect.succeedSome(known) : read,
        Option.map((list) => [key, list] as const)
      )
    }
    const own = yield* readAll(
      streams,
      (stream) => stored(stream.key, listOf(env, stream, before.lists.get(stream.key)))
    )
    const others = yield* readAll(
      othersOf(streams, live),
      (key) => stored(key, env.store.getShards(env.config.app, key))
    )
    return { ...before, streams, live, liveness, lists: new Map([...own, ...others].flatMap(Option.toArray)) }
  })

/** Streams that only other members read. */
const othersOf = (streams: ReadonlyArray<StreamState>, live: ReadonlyArray<Member>): ReadonlyArray<string> => {
  const own = new Set(streams.map(({ key }) => key))
  return [...new Set(live.flatMap((member) => member.streams))].filter((key) => !own.has(key))
}

/** The stored list. One that has vanished is put back: shards that run must not stop for lack of it. */
const listOf = (
  env: Environment,
  stream: StreamState,
  known: ShardList | undefined
): Effect.Effect<Option.Option<ShardList>, StateStoreError> =>
  Effect.flatMap(
    env.store.getShards(env.config.app, stream.key),
    (stored) =>
      Option.isNone(stored) && known !== undefined
        ? Effect.asSome(ShardLists.restore(env, stream, known))
        : Effect.succeed(stored)
  )

const signature = (live: ReadonlyArray<Member>): string =>
  live.map((member) => [member.memberId, member.incarnation, member.assignVersion, ...member.streams].join("\u0000"))
    .sort().join("\u0001")

const isSame = (before: Seen, seen: Seen): boolean =>
  !seen.look && before.streams === seen.streams && signature(before.live) === signature(seen.live) &&
  before.lists.size === seen.lists.size &&
  [...seen.lists].every(([key, list]) => before.lists.get(key)?.version === list.version)

const change = (
  context: SyncContext,
  seen: Seen,
  read: { readonly members: ReadonlyArray<Member>; readonly now: number; readonly renew: boolean }
): Effect.Effect<void, StateStoreError> =>
  Effect.gen(function*() {
    const { assignment, env } = context
    const { members, now, renew } = read
    const viewOf = (key: string): Effect.Effect<ReadonlyArray<Plan.View>, StateStoreError> => {
      const list = seen.lists.get(key)
      return list === undefined ? Effect.succeed([]) : Effect.map(
        env.store.listCheckpoints(env.config.app, list.checkpointKey),
        (rows) => [{ key, list, rows: new Map(rows.map((row) => [row.shardId, row])) }]
      )
    }
    const views = (yield* readAll(
      seen.streams,
      (stream) => Effect.map(viewOf(stream.key), Arr.map((view): Plan.StreamView => ({ ...view, stream })))
    )).flat()
    const others = (yield* readAll(othersOf(seen.streams, seen.live), viewOf)).flat()
    const owners = views.flatMap(({ rows }) => [...rows.values()].flatMap(({ owner }) => Option.toArray(owner)))
    const liveness = Liveness.observeOwners(seen.liveness, members, owners, now)
    const plan = Plan.make({
      self: env.self,
      live: seen.live,
      streams: views,
      others,
      running: yield* assignment.running,
      leaving: yield* assignment.leaving,
      renew,
      isDead: (owner) => Liveness.isDead(liveness, owner, now, env.timeouts.liveness)
    })
    const acquire = yield* withoutTheLiving(env, members, plan.acquire)
    yield* Effect.forEach(plan.lost, ([run]) => context.lost(run), { discard: true })
    yield* Effect.forEach(plan.ended, context.ended, { discard: true })
    yield* Effect.uninterruptibleMask((restore) =>
      Effect.gen(function*() {
        const prepared = yield* restore(prepare(context, acquire)).pipe(
          Effect.onExit((exit) => Exit.isFailure(exit) ? abandon(context, acquire) : Effect.void)
        )
        yield* publish(context, plan, prepared, {
          ...seen,
          liveness,
          look: plan.pending || prepared.pending || acquire.length < plan.acquire.length,
          awaitingChildren: views.flatMap(awaitingChildren),
          unowned: new Set(
            views.filter(isUnowned).map(({ key }) => key).filter((key) =>
              !prepared.started.some(({ stream }) => stream.key === key)
            )
          )
        })
      })
    )
    if (plan.strays.length > 0) {
      yield* env.store.releaseLeases(env.config.app, env.self, plan.strays).pipe(
        Effect.catchAll((error) => Effect.zipRight(env.emit(KinesumerEvent.SyncFailed({ error })), lookAgain(context)))
      )
    }
  })

/**
 * An owner that came to life after the members were read may have asked for its leases again before the rows were: then
 * the epoch in the row is its new one. So whoever is taken for dead is looked at once more, now that the rows are known.
 */
const withoutTheLiving = (
  env: Environment,
  members: ReadonlyArray<Member>,
  acquire: ReadonlyArray<Plan.Acquisition>
): Effect.Effect<ReadonlyArray<Plan.Acquisition>, StateStoreError> => {
  const dead = ({ request, resume }: Plan.Acquisition) =>
    Option.isNone(resume)
      ? Option.filter(request.takeFrom, ({ memberId }) => memberId !== env.self.memberId)
      : Option.none()
  return acquire.every((one) => Option.isNone(dead(one)))
    ? Effect.succeed(acquire)
    : Effect.map(env.store.listMembers(env.config.app), (current) =>
      acquire.filter((one) =>
        Option.match(dead(one), {
          onNone: () => true,
          onSome: (owner) => heartbeatOf(current, owner) === heartbeatOf(members, owner)
        })
      ))
}

const heartbeatOf = (members: ReadonlyArray<Member>, owner: Owner): number | undefined =>
  members.find((member) => member.memberId === owner.memberId && member.incarnation === owner.incarnation)?.heartbeat

const awaitingChildren = ({ list, rows, stream }: Plan.StreamView): ReadonlyArray<ShardName> =>
  list.shards
    .filter(({ shardId }) => Option.exists(Option.fromNullable(rows.get(shardId)), ShardLists.isEnded))
    .filter(({ shardId }) => !Lineage.hasChild(list.shards, shardId))
    .map(({ shardId }) => ({ stream: stream.label, shardId }))

const isUnowned = ({ rows }: Plan.StreamView): boolean => [...rows.values()].every(({ owner }) => Option.isNone(owner))

interface Prepared {
  readonly started: ReadonlyArray<Run.Run>
  /** Runs that a started one goes on from. */
  readonly replaced: ReadonlyArray<Run.Run>
  /** Runs whose lease was asked for again, and is somebody else's by now. */
  readonly lost: ReadonlyArray<Run.Run>
  readonly pending: boolean
}

/** Acquires the leases, and makes a run with its cursor of each. */
const prepare = (
  { env }: SyncContext,
  acquisitions: ReadonlyArray<Plan.Acquisition>
): Effect.Effect<Prepared, StateStoreError> =>
  Effect.gen(function*() {
    if (acquisitions.length === 0) return { started: [], replaced: [], lost: [], pending: false }
    const results = yield* env.store.acquireLeases(
      env.config.app,
      env.self,
      acquisitions.map(({ request }) => request)
    )
    const started: Array<Run.Run> = []
    const replaced: Array<Run.Run> = []
    const lost: Array<Run.Run> = []
    let pending = false
    for (const [index, acquisition] of acquisitions.entries()) {
      const result = results[index]
      if (result === undefined || AcquireResult.$is("Held")(result)) {
        pending = true
        lost.push(...Option.toArray(acquisition.resume))
      } else if (AcquireResult.$is("Failed")(result)) {
        return yield* result.error
      } else if (Option.exists(result.checkpoint.position, Position.is("ShardEnd"))) {
        // Somebody has finished it since the rows were read. The lease is a stray now, and the next round sees it.
        pending = true
      } else {
        started.push(yield* makeRun(acquisition, result.checkpoint))
        replaced.push(...Option.toArray(acquisition.resume))
      }
    }
    return { started, replaced, lost, pending }
  })

const makeRun = (acquisition: Plan.Acquisition, { epoch, position }: Checkpoint): Effect.Effect<Run.Run> =>
  Effect.gen(function*() {
    const stored = Option.getOrElse(position, () => acquisition.list.start)
    const known = yield* Option.match(acquisition.resume, {
      onNone: () => Effect.succeed(stored),
      onSome: (run) => Effect.map(Ref.get(run.lane), ({ processed }) => processed)
    })
    const run = yield* Run.make({
      stream: acquisition.stream,
      checkpointKey: acquisition.list.checkpointKey,
      shard: acquisition.shard,
      epoch,
      position: Position.compare(known, stored) > 0 ? known : stored
    })
    // What the vanished row held has to be written again.
    if (Option.isSome(acquisition.resume)) {
      yield* Ref.update(run.lane, (lane): Lane.Lane => ({ ...lane, committed: stored }))
    }
    return run
  })

/**
 * Gives back what a round that failed may have acquired: the store is asked which of the leases are ours, since an
 * answer can be lost. What can't be done now is done by a later round, which finds them as strays.
 */
const abandon = (
  { assignment, env }: SyncContext,
  acquisitions: ReadonlyArray<Plan.Acquisition>
): Effect.Effect<void> =>
  Effect.gen(function*() {
    if (acquisitions.length === 0) return
    const asked = new Map(acquisitions.map(({ key, request }) => [key, request]))
    const running = yield* assignment.running
    yield* Effect.forEach(new Set(acquisitions.map(({ request }) => request.stream)), (stream) =>
      Effect.gen(function*() {
        const rows = yield* env.store.listCheckpoints(env.config.app, stream)
        const ours = rows.filter((row) => {
          const key = Run.keyOf(stream, row.shardId)
          return asked.has(key) && !running.has(key) &&
            Option.exists(
              row.owner,
              (owner) => owner.memberId === env.self.memberId && owner.incarnation === env.self.incarnation
            )
        })
        if (ours.length > 0) {
          yield* env.store.releaseLeases(
            env.config.app,
            env.self,
            ours.map(({ epoch, shardId }) => ({ stream, shardId, epoch }))
          )
        }
      }), { discard: true })
  }).pipe(
    Effect.interruptible,
    Effect.timeout(env.config.commit.timeout),
    onFreshTurn,
    Effect.catchAll((error) => Effect.logDebug("Leases of a failed sync are left to the next one", error))
  )

const publish = (
  { assignment, commitSoon, env, lost, membership, seen }: SyncContext,
  plan: Plan.Plan,
  prepared: Prepared,
  next: Seen
): Effect.Effect<void> =>
  Effect.gen(function*() {
    yield* Effect.forEach(prepared.lost, lost, { discard: true })
    yield* Effect.forEach(prepared.replaced, assignment.drop, { discard: true })
    yield* Ref.update(seen, (current) => ({ ...next, look: current.look || next.look }))
    yield* membership.announce({ streams: next.streams.map(({ key }) => key) })
    yield* assignment.publish(prepared.started, plan.stop)
    for (const run of prepared.started) {
      const isRestored = prepared.replaced.some(({ key }) => key === run.key)
      if (isRestored) {
        yield* env.emit(KinesumerEvent.LeaseRestored({ ...Run.nameOf(run), epoch: run.epoch }))
        yield* commitSoon
      }
    }
    if (prepared.started.length + plan.stop.length > 0) {
      yield* env.count(Metrics.rebalances, 1)
      yield* env.emit(KinesumerEvent.AssignmentChanged({
        acquired: prepared.started.map(Run.nameOf),
        released: plan.stop.map(Run.nameOf),
        shards: (yield* assignment.running).size
      }))
    }
  })

/** So many timeouts after its last sign of life: by then all others have seen that it is dead. */
const timeoutsUntilPruned = 2

/**
 * The leader removes the rows of the dead. Their leases are judged by each member for itself, which a row that is gone
 * too soon would hold up. The assignment is published by now, so a failure is told and does not make the round one that
 * failed.
 */
const prune = (
  { env, seen }: SyncContext,
  members: ReadonlyArray<Member>,
  now: number
): Effect.Effect<void> =>
  Effect.gen(function*() {
    const { live, liveness } = yield* Ref.get(seen)
    const dead = members.filter((member) =>
      member.memberId !== env.self.memberId &&
      Liveness.isDead(liveness, member, now, timeoutsUntilPruned * env.timeouts.liveness)
    )
    if (dead.length > 0 && isLeader(live, env.self.memberId)) yield* env.store.pruneMembers(env.config.app, dead)
  }).pipe(Effect.catchAll((error) => env.emit(KinesumerEvent.SyncFailed({ error }))))

export const rankOf = (live: ReadonlyArray<Member>, memberId: string): number =>
  live.filter((member) => member.memberId < memberId).length

const isLeader = (live: ReadonlyArray<Member>, memberId: string): boolean => rankOf(live, memberId) === 0
