/** The operations of `StateStore` over three kinds of rows, wherever these are kept. */
import * as Arr from "effect/Array"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import type { Predicate } from "effect/Predicate"
import type { AcquireResult, Checkpoint, CommitResult, Member, ShardList, StateStore } from "../StateStore.js"
import { MemberMissing, MemberReplaced, type StateStoreError } from "../StateStoreError.js"
import * as LeaseRules from "./leaseRules.js"
import type { Change, Rows } from "./rows.js"

// Built here and not taken from `StateStore`, which builds its memory store from this module.
const AcquireFailed = Data.taggedEnum<AcquireResult>().Failed
const CommitFailed = Data.taggedEnum<CommitResult>().Failed

export interface Tables {
  /** By app. */
  readonly members: Rows<Member>
  /** By app. */
  readonly shardLists: Rows<ShardList>
  /** By app and stream. */
  readonly checkpoints: Rows<Checkpoint>
}

export const make = ({ checkpoints, members, shardLists }: Tables): StateStore["Type"] => ({
  registerMember: (app, member) =>
    modifyOne(members, "registerMember", {
      partition: [app],
      key: member.memberId,
      update: () => [undefined, Option.some(member)]
    }),

  heartbeat: (app, member) =>
    Effect.flatten(modifyOne(members, "heartbeat", {
      partition: [app],
      key: member.memberId,
      update: (row): readonly [Either.Either<void, MemberMissing | MemberReplaced>, Option.Option<Member>] =>
        Option.isNone(row)
          ? [Either.left(new MemberMissing({ app, memberId: member.memberId })), row]
          : row.value.incarnation !== member.incarnation
          ? [Either.left(new MemberReplaced({ app, memberId: member.memberId })), row]
          : [Either.void, Option.some(member)]
    })),

  deregisterMember: (app, { incarnation, memberId }) =>
    modifyOne(members, "deregisterMember", {
      partition: [app],
      key: memberId,
      update: (row) => [undefined, removeIf(row, (member) => member.incarnation === incarnation)]
    }),

  listMembers: (app) => Effect.map(members.list("listMembers", [app]), rowsOnly),

  pruneMembers: (app, dead) =>
    Effect.asVoid(modifyAll(
      members,
      "pruneMembers",
      dead.map(({ heartbeat, incarnation, memberId }) => ({
        partition: [app],
        key: memberId,
        update: (row) => [
          undefined,
          removeIf(row, (member) => member.incarnation === incarnation && member.heartbeat === heartbeat)
        ]
      }))
    )),

  listShardVersions: (app) =>
    Effect.map(
      shardLists.list("listShardVersions", [app]),
      (entries) => new Map(entries.map(([stream, list]) => [stream, list.version]))
    ),

  getShards: (app, stream) =>
    modifyOne(shardLists, "getShards", { partition: [app], key: stream, update: (row) => [row, row] }),

  updateShards: (app, stream, list) =>
    modifyOne(shardLists, "updateShards", {
      partition: [app],
      key: stream,
      update: (row) =>
        (Option.isSome(row) ? row.value.version : 0) === list.version - 1 ? [true, Option.some(list)] : [false, row]
    }),

  listCheckpoints: (app, stream) => Effect.map(checkpoints.list("listCheckpoints", [app, stream]), rowsOnly),

  acquireLeases: (app, owner, requests) =>
    Effect.map(
      checkpoints.modify(
        "acquireLeases",
        requests.map((request) => ({
          partition: [app, request.stream],
          key: request.shardId,
          update: (row) => LeaseRules.acquire(row, owner, request)
        }))
      ),
      (answers) => answers.map(Either.getOrElse((error): AcquireResult => AcquireFailed({ error })))
    ),

  releaseLeases: (app, owner, leases) =>
    Effect.asVoid(modifyAll(
      checkpoints,
      "releaseLeases",
      leases.map((lease) => ({
        partition: [app, lease.stream],
        key: lease.shardId,
        update: (row) => LeaseRules.release(row, owner, lease)
      }))
    )),

  commitCheckpoints: (app, owner, commits) =>
    Effect.map(
      checkpoints.modify(
        "commitCheckpoints",
        commits.map((commit) => ({
          partition: [app, commit.stream],
          key: commit.shardId,
          update: (row) => LeaseRules.commit(row, owner, commit)
        }))
      ),
      (answers) => answers.map(Either.getOrElse((error): CommitResult => CommitFailed({ error })))
    ),

  removeCheckpoints: (app, stream, shardIds) =>
    Effect.map(
      modifyAll(
        checkpoints,
        "removeCheckpoints",
        shardIds.map((key) => ({ partition: [app, stream], key, update: LeaseRules.remove }))
      ),
      (removed) => removed.flatMap(Option.toArray)
    )
})

/** Fails with the first error, after every change was tried. */
const modifyAll = <A, B>(
  rows: Rows<A>,
  operation: string,
  changes: ReadonlyArray<Change<A, B>>
): Effect.Effect<ReadonlyArray<B>, StateStoreError> =>
  Effect.flatMap(rows.modify(operation, changes), (answers) => Either.all(answers))

const modifyOne = <A, B>(
  rows: Rows<A>,
  operation: string,
  change: Change<A, B>
): Effect.Effect<B, StateStoreError> =>
  // One change has one answer.
  Effect.flatMap(rows.modify(operation, [change]), (answers) => Effect.flatten(Effect.orDie(Arr.head(answers))))

const removeIf = <A>(row: Option.Option<A>, predicate: Predicate<A>): Option.Option<A> =>
  Option.exists(row, predicate) ? Option.none() : row

const rowsOnly = <A>(entries: ReadonlyArray<readonly [key: string, row: A]>): ReadonlyArray<A> =>
  entries.map(([, row]) => row)
