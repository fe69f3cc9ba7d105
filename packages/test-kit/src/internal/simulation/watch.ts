/**
 * Services that tell the oracle what took effect in them, and what was asked of them.
 *
 * @internal
 */
import { KinesisClient, type StreamId } from "@kinesumer/core/KinesisClient"
import { StateStore } from "@kinesumer/core/StateStore"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { Journal } from "./journal.js"
import type { Leases } from "./leases.js"
import { nameOf } from "./leases.js"
import * as Truth from "./truth.js"

/** @internal */
export type Counts = Map<string, number>

const counted = <A, E>(counts: Counts, operation: string, effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
  Effect.suspend(() => {
    counts.set(operation, (counts.get(operation) ?? 0) + 1)
    return effect
  })

/** @internal */
export const stateStore = (store: StateStore["Type"], options: {
  readonly truth: Truth.Truth
  readonly leases: Leases
  readonly journal: Journal
  readonly counts: Counts
}): StateStore["Type"] => {
  const { counts, journal, leases, truth } = options
  const sync = (effect: () => void) => Effect.sync(effect)
  return StateStore.of({
    registerMember: (app, member) =>
      counted(counts, "registerMember", store.registerMember(app, member)).pipe(
        Effect.tap(() => sync(() => leases.beat(member)))
      ),
    heartbeat: (app, member) =>
      counted(counts, "heartbeat", store.heartbeat(app, member)).pipe(
        Effect.tap(() => sync(() => leases.beat(member)))
      ),
    deregisterMember: (app, member) =>
      counted(counts, "deregisterMember", store.deregisterMember(app, member)).pipe(
        Effect.tap(() => sync(() => journal.note(() => `${nameOf(member)} leaves the group`)))
      ),
    listMembers: (app) => counted(counts, "listMembers", store.listMembers(app)),
    pruneMembers: (app, members) => counted(counts, "pruneMembers", store.pruneMembers(app, members)),
    listShardVersions: (app) => counted(counts, "listShardVersions", store.listShardVersions(app)),
    getShards: (app, stream) => counted(counts, "getShards", store.getShards(app, stream)),
    updateShards: (app, stream, list) =>
      counted(counts, "updateShards", store.updateShards(app, stream, list)).pipe(
        Effect.tap((isWritten) =>
          sync(() => {
            if (isWritten && !Truth.learnStart(truth, stream, list)) {
              journal.violation("P1", `the start of ${stream} was moved in version ${list.version} of its list`)
            }
          })
        )
      ),
    listCheckpoints: (app, stream) => counted(counts, "listCheckpoints", store.listCheckpoints(app, stream)),
    acquireLeases: (app, owner, requests) =>
      counted(counts, "acquireLeases", store.acquireLeases(app, owner, requests)).pipe(
        Effect.tap((results) => sync(() => leases.acquired(owner, requests, results)))
      ),
    releaseLeases: (app, owner, released) =>
      counted(counts, "releaseLeases", store.releaseLeases(app, owner, released)).pipe(
        Effect.tap(() => sync(() => leases.released(owner, released)))
      ),
    commitCheckpoints: (app, owner, commits) =>
      counted(counts, "commitCheckpoints", store.commitCheckpoints(app, owner, commits)).pipe(
        Effect.tap((results) => sync(() => leases.committed(owner, commits, results)))
      ),
    removeCheckpoints: (app, stream, shardIds) =>
      counted(counts, "removeCheckpoints", store.removeCheckpoints(app, stream, shardIds)).pipe(
        Effect.tap((rows) => sync(() => leases.removed(stream, rows.map(({ shardId }) => shardId))))
      )
  })
}

/** @internal */
export const kinesis = (client: KinesisClient["Type"], options: {
  readonly truth: Truth.Truth
  readonly leases: Leases
  readonly journal: Journal
  readonly counts: Counts
  readonly memberId: string
  readonly incarnations: ReadonlySet<string>
}): KinesisClient["Type"] => {
  const { counts, incarnations, journal, leases, memberId, truth } = options
  const checkReader = (stream: StreamId, shardId: string, does: string) => {
    const what = `${memberId} ${does} ${stream.name}/${shardId}`
    const { grants } = leases.of(stream.name, shardId)
    if (!grants.some(({ owner }) => incarnations.has(owner.incarnation))) {
      journal.violation("P6", `${what}, of which it never had the lease`)
    }
    const shard = truth.shards.get(Truth.keyOf(stream.name, shardId))
    for (const parent of shard?.parents ?? []) {
      const isThere = truth.shards.get(Truth.keyOf(stream.name, parent))?.listed === true
      if (isThere && !leases.isEnded(stream.name, parent)) {
        journal.violation("P3", `${what}, although the end of its parent ${parent} is not committed`)
      }
    }
  }
  return KinesisClient.of({
    ...client,
    describeStream: (stream) => counted(counts, "describeStream", client.describeStream(stream)),
    listShards: (stream, token) => counted(counts, "listShards", client.listShards(stream, token)),
    getShardIterator: (stream, shardId, position) =>
      Effect.suspend(() => {
        checkReader(stream, shardId, "asked for an iterator of")
        return counted(counts, "getShardIterator", client.getShardIterator(stream, shardId, position))
      }),
    getRecords: (stream, shardId, request) =>
      counted(counts, "getRecords", client.getRecords(stream, shardId, request)),
    subscribeToShard: (stream, shardId, request) =>
      Stream.suspend(() => {
        checkReader(stream, shardId, "subscribed to")
        return client.subscribeToShard(stream, shardId, request)
      })
  })
}
