/** A state store that counts the requests that one on DynamoDB would make for what it is asked. */
import type { StateStore } from "@kinesumer/core"
import { Effect } from "effect"

type Store = typeof StateStore.StateStore.Service

export interface Requests {
  /** Rounds of members begin with one. */
  readonly memberLists: number
  /** All of them. */
  readonly reads: number
  /** Those of whole shard lists. */
  readonly listReads: number
  readonly heartbeats: number
  /** All of them, heartbeats too: one for each row. */
  readonly writes: number
}

export const none: Requests = { memberLists: 0, reads: 0, listReads: 0, heartbeats: 0, writes: 0 }

export const since = (before: Requests, now: Requests): Requests => ({
  memberLists: now.memberLists - before.memberLists,
  reads: now.reads - before.reads,
  listReads: now.listReads - before.listReads,
  heartbeats: now.heartbeats - before.heartbeats,
  writes: now.writes - before.writes
})

export interface CountedStore {
  readonly store: Store
  readonly requests: () => Requests
  /** Operations that were begun and have not ended. */
  readonly pending: () => number
}

/** Lists count as one read however long they are: what a page holds is a matter of bytes, and of capacity units. */
export const make = (store: Store): CountedStore => {
  let requests = none
  let pending = 0
  const counting = <A, E>(more: Partial<Requests>, operation: Effect.Effect<A, E>): Effect.Effect<A, E> =>
    Effect.suspend(() => {
      const { heartbeats, listReads, memberLists, reads, writes } = { ...none, ...more }
      requests = {
        memberLists: requests.memberLists + memberLists,
        reads: requests.reads + reads,
        listReads: requests.listReads + listReads,
        heartbeats: requests.heartbeats + heartbeats,
        writes: requests.writes + writes
      }
      pending++
      return Effect.ensuring(
        operation,
        Effect.sync(() => {
          pending--
        })
      )
    })
  const read = { reads: 1 }
  const write = { writes: 1 }
  const each = ({ length }: ReadonlyArray<unknown>) => ({ writes: length })
  return {
    requests: () => requests,
    pending: () => pending,
    store: {
      registerMember: (app, member) => counting(write, store.registerMember(app, member)),
      heartbeat: (app, member) => counting({ heartbeats: 1, writes: 1 }, store.heartbeat(app, member)),
      deregisterMember: (app, member) => counting(write, store.deregisterMember(app, member)),
      listMembers: (app) => counting({ memberLists: 1, reads: 1 }, store.listMembers(app)),
      pruneMembers: (app, members) => counting(each(members), store.pruneMembers(app, members)),
      listShardVersions: (app) => counting(read, store.listShardVersions(app)),
      // The head of the list, and its chunks.
      getShards: (app, stream) => counting({ reads: 2, listReads: 2 }, store.getShards(app, stream)),
      updateShards: (app, stream, list) => counting({ writes: 2 }, store.updateShards(app, stream, list)),
      listCheckpoints: (app, stream) => counting(read, store.listCheckpoints(app, stream)),
      acquireLeases: (app, owner, requests) => counting(each(requests), store.acquireLeases(app, owner, requests)),
      releaseLeases: (app, owner, leases) => counting(each(leases), store.releaseLeases(app, owner, leases)),
      commitCheckpoints: (app, owner, commits) => counting(each(commits), store.commitCheckpoints(app, owner, commits)),
      removeCheckpoints: (app, stream, shardIds) =>
        counting({ ...each(shardIds), reads: shardIds.length }, store.removeCheckpoints(app, stream, shardIds))
    }
  }
}
