/**
 * What may happen to the row of one shard. Stores that can hold a row while they look at it apply these functions;
 * those that cannot (DynamoDB) say the same in conditions.
 */
import * as Data from "effect/Data"
import * as Option from "effect/Option"
import * as Position from "../Position.js"
import type { AcquireResult, Checkpoint, CommitResult, Lease, LeaseRequest, Owner } from "../StateStore.js"

// Built here and not taken from `StateStore`, which builds its memory store from these rules.
const { Acquired, Held } = Data.taggedEnum<AcquireResult>()
const { Committed, Lost, Missing } = Data.taggedEnum<CommitResult>()

export type Row = Option.Option<Checkpoint>

/** The answer, and the row as it stands afterwards: the very same value where nothing is to be written. */
export type Transition<A> = readonly [answer: A, row: Row]

const isOwner = (self: Owner, that: Owner): boolean =>
  self.memberId === that.memberId && self.incarnation === that.incarnation

const holds = (row: Checkpoint, owner: Owner, lease: Pick<Lease, "epoch">): boolean =>
  row.epoch === lease.epoch && Option.exists(row.owner, (current) => isOwner(current, owner))

/** A lease passes to whoever asks if it is free, if the same member has it, or a dead owner that is as it was seen. */
const isGranted = (row: Checkpoint, owner: Owner, request: Pick<LeaseRequest, "takeFrom">): boolean =>
  Option.match(row.owner, {
    onNone: () => true,
    onSome: (current) =>
      current.memberId === owner.memberId || Option.exists(request.takeFrom, (dead) => holds(row, dead, dead))
  })

export const acquire = (
  row: Row,
  owner: Owner,
  request: Pick<LeaseRequest, "shardId" | "takeFrom" | "epochAbove">
): Transition<AcquireResult> => {
  const current = Option.getOrElse(row, (): Checkpoint => ({
    shardId: request.shardId,
    position: Option.none(),
    owner: Option.none(),
    epoch: 0
  }))
  if (holds(current, owner, current) && current.epoch > request.epochAbove) {
    return [Acquired({ checkpoint: current }), row]
  }
  if (!isGranted(current, owner, request)) {
    return [Held({ checkpoint: current }), row]
  }
  const checkpoint: Checkpoint = {
    ...current,
    owner: Option.some({ memberId: owner.memberId, incarnation: owner.incarnation }),
    epoch: Math.max(current.epoch, request.epochAbove) + 1
  }
  return [Acquired({ checkpoint }), Option.some(checkpoint)]
}

export const release = (row: Row, owner: Owner, lease: Pick<Lease, "epoch">): Transition<void> => [
  undefined,
  Option.isSome(row) && holds(row.value, owner, lease) ? Option.some({ ...row.value, owner: Option.none() }) : row
]

export const commit = (
  row: Row,
  owner: Owner,
  request: Pick<Lease, "epoch"> & { readonly position: Position.Position }
): Transition<CommitResult> => {
  if (Option.isNone(row)) {
    return [Missing(), row]
  }
  const current = row.value
  if (!holds(current, owner, request)) {
    // The end gives the lease back, so the owner whose first answer was lost finds its own write here.
    return isEnded(current) && Option.isNone(current.owner) && current.epoch === request.epoch
      ? [Committed(), row]
      : [Lost({ checkpoint: current }), row]
  }
  const moves = Option.match(current.position, {
    onNone: () => true,
    onSome: (stored) => Position.compare(stored, request.position) < 0
  })
  if (Position.is("ShardEnd")(request.position)) {
    return [Committed(), Option.some({ ...current, position: Option.some(request.position), owner: Option.none() })]
  }
  return [Committed(), moves ? Option.some({ ...current, position: Option.some(request.position) }) : row]
}

/** Only a row without an owner is removed. The answer is what was removed. */
export const remove = (row: Row): Transition<Row> =>
  Option.isSome(row) && Option.isNone(row.value.owner) ? [row, Option.none()] : [Option.none(), row]

const isEnded = (row: Checkpoint): boolean => Option.exists(row.position, Position.is("ShardEnd"))
