/**
 * Keeps the shard lists up to date with Kinesis. It is one member's turn at a time: the leader's, as long as somebody's
 * refreshes succeed; where none does for a while, the turn goes on to the next member, and so on. So the number of calls
 * does not grow with the group, and no stream depends on one member's luck.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import { KinesisError } from "../KinesisError.js"
import * as KinesumerEvent from "../KinesumerEvent.js"
import * as Metrics from "../KinesumerMetrics.js"
import type { Member } from "../StateStore.js"
import type { StateStoreError } from "../StateStoreError.js"
import * as Backoff from "./backoff.js"
import type { Environment } from "./environment.js"
import { onFreshTurn } from "./freshTurn.js"
import type { Membership } from "./membership.js"
import * as Monotonic from "./monotonic.js"
import * as ShardLists from "./shardLists.js"
import type { StreamState } from "./streams.js"
import * as Sync from "./sync.js"

export interface Refresher {
  /** One look at whether it is our turn, and at which streams are due. */
  readonly tick: Effect.Effect<void>
  /** Asks now, for a reader that cannot get on without; those that ask at once share the answer. */
  readonly refresh: (stream: StreamState) => Effect.Effect<ShardLists.Listing, KinesisError | StateStoreError>
  /** Streams that Kinesis says do not exist, each with how long it has said so, in milliseconds. */
  readonly missing: Effect.Effect<ReadonlyMap<string, { readonly error: KinesisError; readonly since: number }>>
}

interface Attempt {
  readonly at: number
  readonly result: Effect.Effect<ShardLists.Listing, KinesisError | StateStoreError>
}

interface Due {
  readonly at: number
  readonly failures: number
}

/** Turns pass on after this many refreshes that should have come and did not. */
const patience = 2

const failureBackoff = { base: Duration.seconds(5), cap: Duration.seconds(30) }

export const make = (options: {
  readonly env: Environment
  readonly membership: Membership
  readonly seen: Ref.Ref<Sync.Seen>
  /** A list has changed. */
  readonly changed: Effect.Effect<void>
}): Effect.Effect<Refresher> =>
  Effect.gen(function*() {
    const { env, membership, seen } = options
    const mutexes = yield* Ref.make<ReadonlyMap<string, Effect.Semaphore>>(new Map())
    const attempts = yield* Ref.make<ReadonlyMap<string, Attempt>>(new Map())
    const due = yield* Ref.make<ReadonlyMap<string, Due>>(new Map())
    const missing = yield* Ref.make<ReadonlyMap<string, { readonly error: KinesisError; readonly since: number }>>(
      new Map()
    )
    /** The sum of everybody's refreshes, and when it was last seen to grow. */
    const progress = yield* Ref.make({ refreshes: -1, since: yield* Monotonic.now })

    const ask = (stream: StreamState): Effect.Effect<ShardLists.Listing, KinesisError | StateStoreError> =>
      Effect.gen(function*() {
        const description = yield* env.kinesis.describeStream(stream.id)
        const known = (yield* Ref.get(seen)).lists.get(stream.key)
        const listing = yield* ShardLists.refresh(env, stream, description, Option.fromNullable(known))
        if (known?.version !== listing.list.version) yield* options.changed
        return listing
      }).pipe(
        Effect.timeoutFail({ duration: env.timeouts.sync, onTimeout: () => timedOut(env, stream) }),
        onFreshTurn,
        Effect.tap(Ref.update(missing, without(stream.key))),
        Effect.tapErrorTag("KinesisError", (error) =>
          error.reason === "NotFound"
            ? Effect.flatMap(Monotonic.now, (since) =>
              Ref.update(
                missing,
                (known) => known.has(stream.key) ? known : new Map(known).set(stream.key, { error, since })
              ))
            : Effect.void)
      )

    const mutexOf = (key: string): Effect.Effect<Effect.Semaphore> =>
      Ref.modify(mutexes, (all) => {
        const mutex = all.get(key) ?? Effect.unsafeMakeSemaphore(1)
        return [mutex, all.has(key) ? all : new Map(all).set(key, mutex)]
      })

    /** Answers stand for a moment, so that many shards of one stream that ask together cost one call. */
    const refresh = (stream: StreamState): Effect.Effect<ShardLists.Listing, KinesisError | StateStoreError> =>
      Effect.flatMap(mutexOf(stream.key), (mutex) =>
        mutex.withPermits(1)(Effect.gen(function*() {
          const now = yield* Monotonic.now
          const last = (yield* Ref.get(attempts)).get(stream.key)
          if (last !== undefined && now - last.at < Duration.toMillis(env.config.syncInterval) / 5) {
            return yield* last.result
          }
          const exit = yield* Effect.exit(ask(stream))
          yield* Ref.update(attempts, (all) => new Map(all).set(stream.key, { at: now, result: exit }))
          return yield* exit
        })))

    const isOurTurn = Effect.gen(function*() {
      const now = yield* Monotonic.now
      const { live } = yield* Ref.get(seen)
      const { refreshes } = yield* membership.member
      const sum = live.reduce(
        (total, member) => total + (member.memberId === env.self.memberId ? refreshes : member.refreshes),
        0
      )
      const { since } = yield* Ref.updateAndGet(
        progress,
        (known) => known.refreshes === sum ? known : { refreshes: sum, since: now }
      )
      return turn(live, now - since, env.timeouts.refresh) === Sync.rankOf(live, env.self.memberId)
    })

    const refreshDue = (stream: StreamState, now: number): Effect.Effect<boolean> =>
      Effect.gen(function*() {
        const { at, failures } = (yield* Ref.get(due)).get(stream.key) ?? { at: 0, failures: 0 }
        if (now < at) return false
        return yield* refresh(stream).pipe(
          Effect.matchEffect({
            onFailure: (error) =>
              Effect.gen(function*() {
                const delay = yield* Backoff.delay(failures + 1, failureBackoff)
                yield* setDue(stream, { at: now + Duration.toMillis(delay), failures: failures + 1 })
                yield* env.count(Metrics.retries, 1, { operation: error.operation, reason: error.reason })
                yield* env.emit(KinesumerEvent.Retrying({
                  operation: error.operation,
                  stream: stream.label,
                  shardId: undefined,
                  attempt: failures + 1,
                  delay,
                  error
                }))
                return false
              }),
            onSuccess: () => Effect.as(setDue(stream, { at: now + env.timeouts.refresh, failures: 0 }), true)
          })
        )
      })

    const setDue = (stream: StreamState, next: Due) => Ref.update(due, (all) => new Map(all).set(stream.key, next))

    return {
      refresh,
      missing: Ref.get(missing),
      tick: Effect.gen(function*() {
        if (!(yield* isOurTurn)) return
        const now = yield* Monotonic.now
        const { streams } = yield* Ref.get(seen)
        const done = yield* onFreshTurn(
          Effect.forEach(streams, (stream) => refreshDue(stream, now), { concurrency: 5 })
        )
        if (done.includes(true)) {
          const { refreshes } = yield* membership.member
          yield* membership.announce({ refreshes: refreshes + 1 })
        }
      })
    }
  })

const timedOut = (env: Environment, stream: StreamState) =>
  new KinesisError({
    reason: "Timeout",
    operation: "listShards",
    stream: stream.label,
    detail: `the pages were not read and stored within ${
      Duration.format(Duration.millis(env.timeouts.sync))
    } (four times livenessTimeout)`
  })

/** Whose turn it is, as a place among the live members. */
const turn = (live: ReadonlyArray<Member>, stalled: number, interval: number): number =>
  live.length === 0 ? 0 : Math.floor(stalled / (interval * patience)) % live.length

const without = (key: string) => <A>(map: ReadonlyMap<string, A>): ReadonlyMap<string, A> =>
  new Map([...map].filter(([other]) => other !== key))
