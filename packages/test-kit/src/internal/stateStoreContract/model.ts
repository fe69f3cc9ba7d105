/**
 * A second opinion: a few plain maps and the sentences of the contract, written without a look at any store. Random
 * operations of several owners must get the same answers from the store and from here, and leave the same rows.
 */
import { assert } from "@effect/vitest"
import * as Position from "@kinesumer/core/Position"
import type * as StateStore from "@kinesumer/core/StateStore"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Option from "effect/Option"
import {
  memberOf,
  ownerOf,
  plainAnswer,
  plainMembers,
  plainPosition,
  plainRow,
  plainRows,
  requestOf,
  shardListOf,
  stream,
  timestamp
} from "./fixture.js"

type Store = StateStore.StateStore["Type"]

// --- Operations ---

const owners = [ownerOf("a", "1"), ownerOf("a", "2"), ownerOf("b", "1"), ownerOf("c", "1")] as const
const shardIds = ["s0", "s1", "s2"] as const
const positions: ReadonlyArray<Position.Position> = [
  Position.trimHorizon,
  timestamp(1_700_000_000_000),
  Position.afterSequence("9"),
  Position.afterSequence("10", 1),
  Position.afterSequence("10", 10),
  Position.afterSequence("10"),
  Position.afterSequence("9".repeat(56)),
  Position.afterSequence("1".repeat(57)),
  Position.shardEnd
]

const owner = FastCheck.constantFrom(...owners)
const shardId = FastCheck.constantFrom(...shardIds)
/** Mostly the epoch of the row as it is then; else one beside it. */
const epochOffset = FastCheck.oneof({ weight: 4, arbitrary: FastCheck.constant(0) }, {
  weight: 1,
  arbitrary: FastCheck.constantFrom(-1, 1)
})
const distinct = <A extends { readonly shardId: string }>(arbitrary: FastCheck.Arbitrary<A>) =>
  FastCheck.uniqueArray(arbitrary, { minLength: 1, maxLength: shardIds.length, selector: (request) => request.shardId })

const operation = FastCheck.oneof(
  {
    weight: 4,
    arbitrary: FastCheck.record({
      _tag: FastCheck.constant("acquire" as const),
      owner,
      requests: distinct(FastCheck.record({
        shardId,
        takeFrom: FastCheck.option(FastCheck.record({ owner, epochOffset }), { nil: undefined }),
        epochAbove: FastCheck.oneof(
          FastCheck.constantFrom(0, 0, 3, 8),
          FastCheck.record({ epochOffset })
        )
      }))
    })
  },
  {
    weight: 2,
    arbitrary: FastCheck.record({
      _tag: FastCheck.constant("release" as const),
      owner,
      leases: distinct(FastCheck.record({ shardId, epochOffset }))
    })
  },
  {
    weight: 6,
    arbitrary: FastCheck.record({
      _tag: FastCheck.constant("commit" as const),
      owner,
      commits: distinct(FastCheck.record({ shardId, epochOffset, position: FastCheck.constantFrom(...positions) }))
    })
  },
  {
    weight: 1,
    arbitrary: FastCheck.record({
      _tag: FastCheck.constant("remove" as const),
      shardIds: FastCheck.uniqueArray(shardId)
    })
  },
  {
    weight: 2,
    arbitrary: FastCheck.record({
      _tag: FastCheck.constantFrom("register" as const, "heartbeat" as const, "deregister" as const, "prune" as const),
      member: FastCheck.record({ owner, heartbeat: FastCheck.nat(2) }).map(({ heartbeat, owner }) =>
        memberOf(owner.memberId, { incarnation: owner.incarnation, heartbeat })
      )
    })
  },
  {
    weight: 1,
    arbitrary: FastCheck.record({
      _tag: FastCheck.constant("updateShards" as const),
      version: FastCheck.integer({ min: 1, max: 4 })
    })
  }
)

export type Operation = typeof operation extends FastCheck.Arbitrary<infer A> ? A : never

type AcquireOperation = Extract<Operation, { readonly _tag: "acquire" }>

export const operations: FastCheck.Arbitrary<ReadonlyArray<Operation>> = FastCheck.array(operation, {
  maxLength: 40,
  size: "max"
})

// --- The model ---

class Model {
  readonly rows = new Map<string, StateStore.Checkpoint>()
  readonly members = new Map<string, StateStore.Member>()
  version = 0

  acquire(owner: StateStore.Owner, request: StateStore.LeaseRequest) {
    const row = this.rows.get(request.shardId)
    const current = row === undefined ? undefined : Option.getOrUndefined(row.owner)
    if (row !== undefined && same(current, owner) && row.epoch > request.epochAbove) {
      return { answer: "Acquired", row: plainRow(row) }
    }
    if (row !== undefined && current !== undefined && current.memberId !== owner.memberId) {
      const dead = Option.getOrUndefined(request.takeFrom)
      if (!same(current, dead) || row.epoch !== dead?.epoch) {
        return { answer: "Held", row: plainRow(row) }
      }
    }
    const granted = {
      shardId: request.shardId,
      position: row?.position ?? Option.none(),
      owner: Option.some(owner),
      epoch: 1 + (row === undefined ? request.epochAbove : Math.max(row.epoch, request.epochAbove))
    }
    this.rows.set(request.shardId, granted)
    return { answer: "Acquired", row: plainRow(granted) }
  }

  release(owner: StateStore.Owner, { epoch, shardId }: StateStore.Lease) {
    const row = this.rows.get(shardId)
    if (row?.epoch === epoch && same(Option.getOrUndefined(row.owner), owner)) {
      this.rows.set(shardId, { ...row, owner: Option.none() })
    }
  }

  commit(
    owner: StateStore.Owner,
    { epoch, position, shardId }: StateStore.Lease & { readonly position: Position.Position }
  ) {
    const row = this.rows.get(shardId)
    if (row === undefined) return { answer: "Missing" }
    const current = Option.getOrUndefined(row.owner)
    const stored = Option.getOrUndefined(row.position)
    if (row.epoch === epoch && same(current, owner)) {
      const forwards = stored === undefined || positions.findIndex(samePosition(stored)) < positions.indexOf(position)
      this.rows.set(shardId, {
        ...row,
        position: forwards ? Option.some(position) : row.position,
        owner: position._tag === "ShardEnd" ? Option.none() : row.owner
      })
      return { answer: "Committed" }
    }
    return row.epoch === epoch && current === undefined && stored?._tag === "ShardEnd"
      ? { answer: "Committed" }
      : { answer: "Lost", row: plainRow(row) }
  }

  remove(shardId: string): ReadonlyArray<StateStore.Checkpoint> {
    const row = this.rows.get(shardId)
    if (row === undefined || Option.isSome(row.owner)) return []
    this.rows.delete(shardId)
    return [row]
  }

  heartbeat(member: StateStore.Member) {
    const row = this.members.get(member.memberId)
    if (row === undefined) return "MemberMissing"
    if (row.incarnation !== member.incarnation) return "MemberReplaced"
    this.members.set(member.memberId, member)
    return "written"
  }

  removeMember(member: StateStore.Member, asSeen: boolean) {
    const row = this.members.get(member.memberId)
    if (row?.incarnation === member.incarnation && (!asSeen || row.heartbeat === member.heartbeat)) {
      this.members.delete(member.memberId)
    }
  }

  updateShards(version: number) {
    if (version !== this.version + 1) return false
    this.version = version
    return true
  }

  request({ epochAbove, shardId, takeFrom }: AcquireOperation["requests"][number]): StateStore.LeaseRequest {
    return requestOf(shardId, {
      takeFrom: takeFrom && {
        ...takeFrom.owner,
        epoch: this.lease({ shardId, epochOffset: takeFrom.epochOffset }).epoch
      },
      epochAbove: typeof epochAbove === "number" ? epochAbove : this.lease({ shardId, ...epochAbove }).epoch
    })
  }

  /** The lease as the row has it, or beside it. */
  lease(request: { readonly shardId: string; readonly epochOffset: number }): StateStore.Lease {
    return {
      stream,
      shardId: request.shardId,
      epoch: (this.rows.get(request.shardId)?.epoch ?? 1) + request.epochOffset
    }
  }
}

const same = (self: StateStore.Owner | undefined, that: StateStore.Owner | undefined): boolean =>
  self !== undefined && that !== undefined && self.memberId === that.memberId && self.incarnation === that.incarnation

const samePosition = (self: Position.Position) => (that: Position.Position) =>
  plainPosition(self) === plainPosition(that)

// --- Both together ---

const step = Effect.fnUntraced(function*(store: Store, app: string, model: Model, operation: Operation) {
  switch (operation._tag) {
    case "acquire": {
      const requests = operation.requests.map((request) => model.request(request))
      const expected = requests.map((request) => model.acquire(operation.owner, request))
      const answers = yield* store.acquireLeases(app, operation.owner, requests)
      return assert.deepStrictEqual(answers.map(plainAnswer), expected)
    }
    case "release": {
      const leases = operation.leases.map((lease) => model.lease(lease))
      leases.forEach((lease) => model.release(operation.owner, lease))
      return yield* store.releaseLeases(app, operation.owner, leases)
    }
    case "commit": {
      const commits = operation.commits.map((commit) => ({ ...model.lease(commit), position: commit.position }))
      const expected = commits.map((commit) => model.commit(operation.owner, commit))
      const answers = yield* store.commitCheckpoints(app, operation.owner, commits)
      return assert.deepStrictEqual(answers.map(plainAnswer), expected)
    }
    case "remove": {
      const expected = operation.shardIds.flatMap((shardId) => model.remove(shardId))
      const removed = yield* store.removeCheckpoints(app, stream, operation.shardIds)
      return assert.deepStrictEqual(plainRows(removed), plainRows(expected))
    }
    case "register": {
      model.members.set(operation.member.memberId, operation.member)
      return yield* store.registerMember(app, operation.member)
    }
    case "heartbeat": {
      const answer = yield* Effect.match(store.heartbeat(app, operation.member), {
        onFailure: (error) => error._tag,
        onSuccess: () => "written"
      })
      return assert.strictEqual(answer, model.heartbeat(operation.member))
    }
    case "deregister": {
      model.removeMember(operation.member, false)
      return yield* store.deregisterMember(app, operation.member)
    }
    case "prune": {
      model.removeMember(operation.member, true)
      return yield* store.pruneMembers(app, [operation.member])
    }
    case "updateShards": {
      const list = shardListOf(operation.version)
      return assert.strictEqual(yield* store.updateShards(app, stream, list), model.updateShards(operation.version))
    }
  }
})

/** Runs the operations one after another, comparing every answer, and the rows at the end. */
export const agrees = Effect.fnUntraced(function*(store: Store, app: string, operations: ReadonlyArray<Operation>) {
  const model = new Model()
  yield* Effect.forEach(operations, (operation) => step(store, app, model, operation), { discard: true })
  assert.deepStrictEqual(plainRows(yield* store.listCheckpoints(app, stream)), plainRows([...model.rows.values()]))
  assert.deepStrictEqual(plainMembers(yield* store.listMembers(app)), plainMembers([...model.members.values()]))
  assert.strictEqual((yield* store.listShardVersions(app)).get(stream) ?? 0, model.version)
})
