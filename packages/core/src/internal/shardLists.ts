/**
 * The shard lists that the group shares through the state store. Every change is a compare-and-set on the list's
 * version, so any member may make one: the leader refreshes, whoever drains a shard adds its children.
 */
import * as Arr from "effect/Array"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { StreamDescription, StreamId } from "../KinesisClient.js"
import { KinesisError } from "../KinesisError.js"
import type { StartFrom } from "../KinesumerConfig.js"
import * as KinesumerEvent from "../KinesumerEvent.js"
import * as Metrics from "../KinesumerMetrics.js"
import * as Position from "../Position.js"
import type { Shard } from "../Shard.js"
import type { Checkpoint, ShardList } from "../StateStore.js"
import { StateStoreError } from "../StateStoreError.js"
import * as Backoff from "./backoff.js"
import type { Environment } from "./environment.js"
import * as Lineage from "./lineage.js"
import type { StreamState } from "./streams.js"

type Env = Pick<Environment, "config" | "count" | "emit" | "kinesis" | "store">

/** The list as it is now, and what Kinesis showed of it: the list may know more. */
export interface Listing {
  readonly list: ShardList
  readonly shown: ReadonlyArray<Shard>
}

/** The stored list of a stream; made now if there is none. */
export const load = (
  env: Env,
  stream: StreamState,
  description: StreamDescription
): Effect.Effect<ShardList, KinesisError | StateStoreError> =>
  Effect.flatMap(
    env.store.getShards(env.config.app, stream.key),
    (stored) =>
      Option.isSome(stored) && isSameStream(stored.value, description)
        ? Effect.succeed(stored.value)
        : Effect.map(refresh(env, stream, description), ({ list }) => list)
  )

/**
 * Brings the list up to date with what Kinesis shows now. Tidies up behind shards that Kinesis has removed: their rows
 * go once nothing depends on them, and what may have been lost with them is told once. A list that has vanished is made
 * from the one that was `known`.
 */
export const refresh = (
  env: Env,
  stream: StreamState,
  description: StreamDescription,
  known: Option.Option<ShardList> = Option.none()
): Effect.Effect<Listing, KinesisError | StateStoreError> =>
  Effect.gen(function*() {
    const { app } = env.config
    const shown = yield* listAll(env.kinesis, stream.id, stream.label)
    const started = yield* rowsBehind(env, stream, description, shown)
    const { after, before } = yield* update(env, stream, (stored) =>
      Option.match(stored, {
        onNone: () =>
          Option.match(Option.filter(known, (list) => isSameStream(list, description)), {
            onNone: () => Option.some(firstList(stream, description, shown)),
            onSome: (list) => Option.some(writtenAnew({ ...list, shards: Lineage.merge(list.shards, shown) }))
          }),
        onSome: (list) =>
          isSameStream(list, description)
            ? changed(list, withoutRemoved(Lineage.merge(list.shards, shown), shown, started))
            : Option.some(nextList(list, stream, description, shown))
      }))
    if (Option.isSome(before) && before.value.checkpointKey !== after.checkpointKey) {
      yield* env.emit(KinesumerEvent.StreamRecreated({ stream: stream.label, createdAt: after.createdAt }))
    }
    yield* tidy(env, app, stream, before, after, started)
    return { list: after, shown }
  }).pipe(
    Effect.withSpan("kinesumer.refreshShards", { attributes: { stream: stream.label }, captureStackTrace: false })
  )

/** Writes a list that has vanished as it was known: above all the start must not be resolved once more. */
export const restore = (env: Env, stream: StreamState, known: ShardList): Effect.Effect<ShardList, StateStoreError> =>
  Effect.map(
    update(env, stream, (stored) => Option.isNone(stored) ? Option.some(writtenAnew(known)) : Option.none()),
    ({ after }) => after
  )

const writtenAnew = (list: ShardList): ShardList => ({ ...list, version: 1 })

/**
 * Tells the group that a shard has ended, and adds the children that its last answer named; `false` where some of them
 * have to come with the next refresh.
 */
export const noteEnd = (
  env: Env,
  stream: StreamState,
  checkpointKey: string,
  shardId: string,
  children: ReadonlyArray<Shard>
): Effect.Effect<boolean, StateStoreError> =>
  Effect.map(
    update(env, stream, (stored) =>
      Option.flatMap(stored, (list) =>
        // The version grows even where the children are known: it is what makes the others look at the ends again.
        list.checkpointKey === checkpointKey
          ? Option.some({
            ...list,
            version: list.version + 1,
            shards: Lineage.merge(Lineage.close(list.shards, shardId), Lineage.complete(list.shards, children))
          })
          : Option.none())),
    ({ after }) =>
      after.checkpointKey !== checkpointKey ||
      children.every((child) => after.shards.some((shard) => shard.shardId === child.shardId))
  )

const isSameStream = (list: ShardList, description: StreamDescription): boolean =>
  Math.floor(list.createdAt / 1000) === Math.floor(description.createdAt.epochMillis / 1000)

const firstList = (
  stream: StreamState,
  description: StreamDescription,
  shards: ReadonlyArray<Shard>
): ShardList => ({
  version: 1,
  createdAt: description.createdAt.epochMillis,
  checkpointKey: stream.key,
  start: startOf(stream.startFrom, description),
  shards: Lineage.merge([], shards)
})

/**
 * The list of a stream that was deleted and made again. Its rows have a key of their own: the old ones prove nothing.
 * Where the group started with `Latest` it was there before the stream was, so all of the stream is later.
 */
const nextList = (
  list: ShardList,
  stream: StreamState,
  description: StreamDescription,
  shards: ReadonlyArray<Shard>
): ShardList => ({
  version: list.version + 1,
  createdAt: description.createdAt.epochMillis,
  checkpointKey: `${stream.key}@${description.createdAt.epochMillis}`,
  start: stream.startFrom === "Latest" ? Position.trimHorizon : startOf(stream.startFrom, description),
  shards: Lineage.merge([], shards)
})

const startOf = (startFrom: StartFrom, description: StreamDescription): Position.Position => {
  switch (startFrom) {
    case "TrimHorizon":
      return Position.trimHorizon
    case "Latest":
      return Position.atTimestamp(description.answeredAt)
    default:
      return Position.atTimestamp(DateTime.toUtc(DateTime.unsafeMake(startFrom.timestamp)))
  }
}

const changed = (list: ShardList, shards: ReadonlyArray<Shard>): Option.Option<ShardList> =>
  Lineage.same(list.shards, shards) ? Option.none() : Option.some({ ...list, version: list.version + 1, shards })

type Rows = ReadonlyMap<string, Checkpoint>

/** Rows are read only where some may have to go: when shards were removed, and when the first list is made. */
const rowsBehind = (
  env: Env,
  stream: StreamState,
  description: StreamDescription,
  shown: ReadonlyArray<Shard>
): Effect.Effect<Rows, StateStoreError> =>
  Effect.gen(function*() {
    const stored = yield* env.store.getShards(env.config.app, stream.key)
    const key = Option.match(stored, { onNone: () => stream.key, onSome: (list) => list.checkpointKey })
    const needed = Option.match(stored, {
      onNone: () => true,
      // What is shown now can be what tells that a shard is closed: it has a child.
      onSome: (list) =>
        isSameStream(list, description) && Lineage.removed(Lineage.merge(list.shards, shown), shown).length > 0
    })
    const rows = needed ? yield* env.store.listCheckpoints(env.config.app, key) : []
    return new Map(rows.map((row) => [row.shardId, row]))
  })

/**
 * Takes shards off the list that Kinesis has removed. One that somebody owns stays until its owner has found out; one
 * that was read to its end stays until its children have started.
 */
const withoutRemoved = (
  shards: ReadonlyArray<Shard>,
  shown: ReadonlyArray<Shard>,
  rows: Rows
): ReadonlyArray<Shard> => {
  const gone = new Set(
    Lineage.removed(shards, shown).map((shard) => shard.shardId).filter((shardId) => {
      const row = rows.get(shardId)
      if (row === undefined) return true
      if (Option.isSome(row.owner)) return false
      return !isEnded(row) ||
        shards.every((child) => !child.parents.includes(shardId) || rows.has(child.shardId))
    })
  )
  return gone.size === 0 ? shards : shards.filter((shard) => !gone.has(shard.shardId))
}

export const isEnded = (row: Checkpoint): boolean =>
  Option.exists(row.position, (position) => position._tag === "ShardEnd")

const tidy = (
  env: Env,
  app: string,
  stream: StreamState,
  before: Option.Option<ShardList>,
  after: ShardList,
  rows: Rows
): Effect.Effect<void, StateStoreError> =>
  Effect.gen(function*() {
    const listed = new Set(after.shards.map((shard) => shard.shardId))
    const isStale = (shardId: string) => !listed.has(shardId)
    if (Option.isSome(before) && before.value.checkpointKey !== after.checkpointKey) return
    const stale = [...rows.keys()].filter(isStale)
    const removed = stale.length === 0
      ? []
      : yield* env.store.removeCheckpoints(app, after.checkpointKey, stale)
    const unread = removed.filter((row) => !isEnded(row)).map((row) => ({
      shardId: row.shardId,
      position: Option.getOrElse(row.position, () => after.start)
    }))
    const neverStarted = Option.match(before, {
      onNone: () => [],
      onSome: (list) =>
        list.version === after.version ? [] : list.shards
          .filter(({ shardId }) => isStale(shardId) && !rows.has(shardId))
          .map(({ shardId }) => ({ shardId, position: after.start }))
    })
    yield* Effect.forEach([...unread, ...neverStarted], ({ position, shardId }) =>
      recordsLost(env, stream, shardId, position, "ShardGone"), { discard: true })
  })

export const recordsLost = (
  env: Pick<Environment, "count" | "emit">,
  stream: StreamState,
  shardId: string,
  position: Position.Position,
  reason: "Refused" | "ShardGone"
): Effect.Effect<void> =>
  Effect.zipRight(
    env.count(Metrics.recordsLost, 1, { stream: stream.label }),
    Effect.zipRight(
      Effect.logWarning("Records may have been lost to retention", { stream: stream.label, shardId, position, reason }),
      env.emit(KinesumerEvent.RecordsLost({ stream: stream.label, shardId, position, reason }))
    )
  )

const conflictBackoff = { base: Duration.millis(50), cap: Duration.seconds(1) }
const conflictTries = 12

/** Compare-and-set: `change` is asked again with the newer list when another writer came first. */
const update = (
  env: Env,
  stream: StreamState,
  change: (stored: Option.Option<ShardList>) => Option.Option<ShardList>
): Effect.Effect<{ readonly before: Option.Option<ShardList>; readonly after: ShardList }, StateStoreError> => {
  const { app } = env.config
  const attempt = (
    tries: number
  ): Effect.Effect<{ readonly before: Option.Option<ShardList>; readonly after: ShardList }, StateStoreError> =>
    Effect.gen(function*() {
      const before = yield* env.store.getShards(app, stream.key)
      const next = change(before)
      if (Option.isNone(next)) {
        return { before, after: yield* Option.match(before, { onNone: () => missing(stream), onSome: Effect.succeed }) }
      }
      if (yield* env.store.updateShards(app, stream.key, next.value)) return { before, after: next.value }
      if (tries >= conflictTries) return yield* conflict(stream)
      yield* Effect.delay(Effect.void, yield* Backoff.delay(tries, conflictBackoff))
      return yield* attempt(tries + 1)
    })
  return attempt(1)
}

const missing = (stream: StreamState) =>
  new StateStoreError({
    reason: "MalformedRow",
    operation: "getShards",
    detail: `the shard list of "${stream.label}" has vanished; it is made anew with the next refresh`
  })

const conflict = (stream: StreamState) =>
  new StateStoreError({
    reason: "Unavailable",
    operation: "updateShards",
    detail: `other writers of the shard list of "${stream.label}" came first ${conflictTries} times in a row`
  })

/** A token that expires while the pages are read, because a page took long, only means to begin again. */
const listings = 3

const listAll = (
  kinesis: Environment["kinesis"],
  id: StreamId,
  label: string
): Effect.Effect<ReadonlyArray<Shard>, KinesisError> => {
  const pages = (
    token: Option.Option<string>,
    shards: ReadonlyArray<Shard>
  ): Effect.Effect<ReadonlyArray<Shard>, KinesisError> =>
    Effect.flatMap(kinesis.listShards(id, token), (page) => {
      const all = Arr.appendAll(shards, page.shards)
      return Option.isSome(page.nextToken) ? pages(page.nextToken, all) : Effect.succeed(all)
    })
  return pages(Option.none(), []).pipe(
    Effect.retry({ times: listings - 1, while: (error) => error.reason === "ExpiredToken" }),
    Effect.filterOrFail(
      (shards) => shards.length > 0,
      () =>
        new KinesisError({
          reason: "NotFound",
          operation: "listShards",
          stream: label,
          detail: "the stream shows no shards"
        })
    )
  )
}
