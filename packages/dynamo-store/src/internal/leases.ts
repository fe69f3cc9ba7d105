/**
 * Leases. In the common case one conditional write acquires a lease and answers the row, with epoch and position.
 */
import * as StateStore from "@kinesumer/core/StateStore"
import type * as StateStoreError from "@kinesumer/core/StateStoreError"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import type { Item } from "./attributes.js"
import { number, text } from "./attributes.js"
import * as Batch from "./batch.js"
import type { Condition, Table } from "./client.js"
import { giveBack, isOwner, sameOwner, settle } from "./ownership.js"
import * as Rows from "./rows.js"

/** @internal */
export const acquire = (
  table: Table,
  app: string,
  owner: StateStore.Owner,
  requests: ReadonlyArray<StateStore.LeaseRequest>
): Effect.Effect<ReadonlyArray<StateStore.AcquireResult>> =>
  Batch.each<StateStore.LeaseRequest, StateStore.AcquireResult>(
    requests,
    (request) => acquireOne(table, app, owner, request),
    (error) => StateStore.AcquireResult.Failed({ error })
  )

/** @internal */
export const release = (
  table: Table,
  app: string,
  owner: StateStore.Owner,
  leases: ReadonlyArray<StateStore.Lease>
): Effect.Effect<void, StateStoreError.StateStoreError> =>
  Batch.all(
    leases,
    ({ epoch, shardId, stream }) =>
      giveBack(table, "releaseLeases", Rows.checkpointKey(app, stream, shardId), owner, epoch)
  )

const acquireOne = (
  table: Table,
  app: string,
  owner: StateStore.Owner,
  request: StateStore.LeaseRequest
): Effect.Effect<StateStore.AcquireResult, StateStoreError.StateStoreError> => {
  const operation = "acquireLeases"
  const key = Rows.checkpointKey(app, request.stream, request.shardId)
  const { Acquired, Held } = StateStore.AcquireResult

  const decode = (item: Item | undefined) =>
    item === undefined
      ? Effect.succeed(vacant(request.shardId))
      : table.decode(operation, Rows.decodeCheckpoint(item))

  const write = Effect.fnUntraced(function*(epoch: string, { condition, values }: Condition) {
    const item = yield* table.update(operation, key, {
      update: "SET #lease_owner = :member, #lease_incarnation = :incarnation, " +
        `#lease_epoch = ${epoch}, #last_update = :now`,
      condition,
      values: {
        ...values,
        member: text(owner.memberId),
        incarnation: text(owner.incarnation),
        now: yield* Rows.lastUpdate
      }
    })
    const checkpoint = yield* Effect.tapError(decode(item), () =>
      // Nobody can work with this row, so nobody shall find it held by us.
      Effect.ignore(giveBack(table, operation, key, owner, Number(item["lease_epoch"]?.N))))
    return Acquired({ checkpoint })
  })

  const mayTake = (current: StateStore.Owner, epoch: number): boolean =>
    current.memberId === owner.memberId ||
    Option.exists(request.takeFrom, (from) => sameOwner(from, current) && from.epoch === epoch)

  return settle<StateStore.AcquireResult>(
    table,
    operation,
    key,
    write("if_not_exists(#lease_epoch, :zero) + :one", grantable(owner, request)),
    (row) =>
      Effect.map(decode(row), (checkpoint) => {
        // The answer to our own write was lost, or it is asked for twice.
        if (isOwner(checkpoint, owner) && checkpoint.epoch > request.epochAbove) {
          return Either.right(Acquired({ checkpoint }))
        }
        if (Option.exists(checkpoint.owner, (current) => !mayTake(current, checkpoint.epoch))) {
          return Either.right(Held({ checkpoint }))
        }
        return Either.left(write(":next", asRead(checkpoint, request.epochAbove)))
      })
  )
}

const vacant = (shardId: string): StateStore.Checkpoint => ({
  shardId,
  position: Option.none(),
  owner: Option.none(),
  epoch: 0
})

/** Nobody's, an earlier start's, ours to be renewed or `takeFrom`'s as it was seen; and the next epoch is high enough. */
const grantable = (
  owner: StateStore.Owner,
  { epochAbove, takeFrom }: StateStore.LeaseRequest
): Condition => {
  const from = Option.filter(takeFrom, (from) => !sameOwner(from, owner))
  const owners = [
    "attribute_not_exists(#lease_owner)",
    "#lease_owner = :member AND (#lease_incarnation <> :incarnation OR #lease_epoch = :known)",
    ...(Option.isSome(from)
      ? ["#lease_owner = :from AND #lease_incarnation = :fromIncarnation AND #lease_epoch = :fromEpoch"]
      : [])
  ]
  return {
    condition: `(${owners.join(" OR ")}) AND (${epochIs(">=", epochAbove)})`,
    values: {
      zero: number(0),
      one: number(1),
      known: number(epochAbove),
      ...Option.match(from, {
        onNone: () => ({}),
        onSome: ({ epoch, incarnation, memberId }) => ({
          from: text(memberId),
          fromIncarnation: text(incarnation),
          fromEpoch: number(epoch)
        })
      })
    }
  }
}

/** Owner and epoch are still those that were read. */
const asRead = ({ epoch, owner }: StateStore.Checkpoint, epochAbove: number): Condition => ({
  condition: `${
    Option.isNone(owner)
      ? "attribute_not_exists(#lease_owner)"
      : "#lease_owner = :seen AND #lease_incarnation = :seenIncarnation"
  } AND (${epochIs("=", epoch)})`,
  values: {
    known: number(epoch),
    next: number(Math.max(epoch, epochAbove) + 1),
    ...Option.match(owner, {
      onNone: () => ({}),
      onSome: ({ incarnation, memberId }) => ({ seen: text(memberId), seenIncarnation: text(incarnation) })
    })
  }
})

/** A row that was never leased, and one that is missing, have no epoch; it counts as 0. */
const epochIs = (operator: "=" | ">=", known: number): string =>
  `${known > 0 ? "" : "attribute_not_exists(#lease_epoch) OR "}#lease_epoch ${operator} :known`
