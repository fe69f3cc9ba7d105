/**
 * The leases as the store has granted them, judged apart from the store's own rules.
 *
 * @internal
 */
import * as Position from "@kinesumer/core/Position"
import type { AcquireResult, CommitResult, Lease, LeaseRequest, Owner } from "@kinesumer/core/StateStore"
import type { Journal } from "./journal.js"
import * as Truth from "./truth.js"

/** @internal */
export interface Grant {
  readonly owner: Owner
  readonly epoch: number
  readonly at: number
}

/** @internal */
export interface LeaseState {
  holder: Grant | undefined
  readonly grants: Array<Grant>
  /** How many grants were of rows that are no more: whoever had one may wake up after that, and epochs begin anew. */
  ofRemoved: number
  position: Position.Position | undefined
}

/** @internal */
export interface Leases {
  readonly of: (stream: string, shardId: string) => LeaseState
  readonly states: ReadonlyMap<string, LeaseState>
  readonly isEnded: (stream: string, shardId: string) => boolean
  readonly beat: (owner: Owner) => void
  readonly acquired: (
    owner: Owner,
    requests: ReadonlyArray<LeaseRequest>,
    results: ReadonlyArray<AcquireResult>
  ) => void
  readonly released: (owner: Owner, leases: ReadonlyArray<Lease>) => void
  /** Rows of shards that are no more: what is granted after that begins anew. */
  readonly removed: (stream: string, shardIds: ReadonlyArray<string>) => void
  readonly committed: (
    owner: Owner,
    commits: ReadonlyArray<Lease & { readonly position: Position.Position }>,
    results: ReadonlyArray<CommitResult>
  ) => void
}

/** A request that takes longer than this has been given up. */
const longestCall = 15_000

const isSame = (self: Owner, that: Owner): boolean =>
  self.memberId === that.memberId && self.incarnation === that.incarnation

/** @internal */
export const nameOf = ({ incarnation, memberId }: Owner): string => `${memberId}(${incarnation.slice(-4)})`

/** @internal */
export const describe = (position: Position.Position): string =>
  position._tag === "AfterSequence" ? `after ${position.sequenceNumber}` : position._tag

/** @internal */
export const make = (options: {
  readonly elapsed: () => number
  readonly livenessTimeout: number
  readonly truth: Truth.Truth
  readonly journal: Journal
}): Leases => {
  const { elapsed, journal, livenessTimeout, truth } = options
  const states = new Map<string, LeaseState>()
  const beats = new Map<string, { readonly last: number; readonly stoodStill: number }>()

  const of = (stream: string, shardId: string): LeaseState => {
    const key = Truth.keyOf(stream, shardId)
    const known = states.get(key)
    if (known !== undefined) return known
    const made: LeaseState = { holder: undefined, grants: [], ofRemoved: 0, position: undefined }
    states.set(key, made)
    return made
  }

  /**
   * Whether a member has stood still for the liveness timeout. It may have come to life since whoever takes its lease has
   * looked; then it must not deliver before it has made sure of its leases.
   */
  const wasDead = (owner: Owner): boolean => {
    const beat = beats.get(nameOf(owner))
    return beat === undefined || elapsed() - beat.last >= livenessTimeout ||
      (beat.stoodStill >= livenessTimeout && elapsed() - beat.last < longestCall)
  }

  const isEnded = (stream: string, shardId: string) => of(stream, shardId).position?._tag === "ShardEnd"

  const grant = (owner: Owner, { shardId, stream }: LeaseRequest, epoch: number) => {
    const state = of(stream, shardId)
    const { holder } = state
    if (holder !== undefined && isSame(holder.owner, owner) && holder.epoch === epoch) return
    const name = `the lease of ${stream}/${shardId}`
    journal.note(() => `${nameOf(owner)} acquires ${stream}/${shardId} under epoch ${epoch}`)
    if (state.grants.some((grant, place) => place >= state.ofRemoved && grant.epoch >= epoch)) {
      journal.violation("P5", `${name} was granted to ${nameOf(owner)} under epoch ${epoch}, which is not a new one`)
    }
    if (holder !== undefined && holder.owner.memberId !== owner.memberId && !wasDead(holder.owner)) {
      journal.violation("P11", `${name} was taken by ${nameOf(owner)} from ${nameOf(holder.owner)}, which lives`)
    }
    const held = { owner, epoch, at: elapsed() }
    state.holder = held
    state.grants.push(held)
  }

  const commit = (
    owner: Owner,
    { epoch, position, shardId, stream }: Lease & { readonly position: Position.Position }
  ) => {
    const state = of(stream, shardId)
    const isHolder = state.holder !== undefined && isSame(state.holder.owner, owner) && state.holder.epoch === epoch
    if (state.position?._tag === "ShardEnd") {
      // A doubled write of the end finds the end there, and no lease. A row that began anew was granted once more.
      if (isHolder && position._tag === "ShardEnd") state.holder = undefined
      return
    }
    const what = `${nameOf(owner)} committed ${stream}/${shardId} ${describe(position)} under epoch ${epoch}`
    journal.note(() => what)
    if (!isHolder) {
      journal.violation(
        "P5",
        `${what}, but the lease is ${
          state.holder === undefined ? "nobody's" : `${nameOf(state.holder.owner)}'s under epoch ${state.holder.epoch}`
        }`
      )
    }
    checkCovered(stream, shardId, position, what)
    if (state.position === undefined || Position.compare(state.position, position) < 0) state.position = position
    if (position._tag === "ShardEnd") state.holder = undefined
  }

  const checkCovered = (stream: string, shardId: string, position: Position.Position, what: string) => {
    const shard = truth.shards.get(Truth.keyOf(stream, shardId))
    if (shard === undefined) return journal.violation("P4", `${what}, but there is no such shard`)
    const first = Truth.firstUnprocessed(truth, shard)
    if (position._tag === "AfterSequence") {
      const place = Truth.placeOf(shard, position)
      if (place === undefined) journal.violation("P4", `${what}, but no record has this number`)
      else if (place >= first) {
        journal.violation(
          "P4",
          `${what}, but record ${first} (${shard.records[first]?.sequenceNumber}) is not processed`
        )
      }
    }
    if (position._tag === "ShardEnd") {
      if (!shard.closed) journal.violation("P3", `${what}, but the shard is open`)
      else if (first < shard.records.length) {
        journal.violation(
          "P4",
          `${what}, but record ${first} (${shard.records[first]?.sequenceNumber}) is not processed`
        )
      }
    }
  }

  return {
    of,
    states,
    isEnded,
    beat: (owner) => {
      const now = elapsed()
      const before = beats.get(nameOf(owner))
      beats.set(nameOf(owner), { last: now, stoodStill: before === undefined ? 0 : now - before.last })
    },
    removed: (stream, shardIds) => {
      for (const shardId of shardIds) {
        const state = of(stream, shardId)
        state.holder = undefined
        state.ofRemoved = state.grants.length
      }
    },
    acquired: (owner, requests, results) => {
      for (const [index, request] of requests.entries()) {
        const result = results[index]
        if (result?._tag === "Acquired") grant(owner, request, result.checkpoint.epoch)
      }
    },
    released: (owner, leases) => {
      for (const { epoch, shardId, stream } of leases) {
        const state = of(stream, shardId)
        if (state.holder === undefined || !isSame(state.holder.owner, owner) || state.holder.epoch !== epoch) continue
        journal.note(() => `${nameOf(owner)} releases ${stream}/${shardId}`)
        state.holder = undefined
      }
    },
    committed: (owner, commits, results) => {
      for (const [index, item] of commits.entries()) {
        if (results[index]?._tag === "Committed") commit(owner, item)
      }
    }
  }
}
