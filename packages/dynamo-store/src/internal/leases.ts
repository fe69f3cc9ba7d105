/**
 * Leases and checkpoints. In the common case each is one conditional write. Where its condition is refused, the row is
 * read and the contract decides on it; what it then allows is written under the condition that the row still stands as
 * it was read.
 */
import * as Position from "@kinesumer/core/Position"
import * as StateStore from "@kinesumer/core/StateStore"
import * as StateStoreError from "@kinesumer/core/StateStoreError"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { Item, Key } from "./attributes.js"
import { number, text } from "./attributes.js"
import * as Batch from "./batch.js"
import type { Condition, Table } from "./client.js"
import * as Rows from "./rows.js"

const vacant = (shardId: string): StateStore.Checkpoint => ({
  shardId,
  position: Option.none(),
  owner: Option.none(),
  epoch: 0
})

const sameOwner = (self: StateStore.Owner, that: StateStore.Owner): boolean =>
  self.memberId === that.memberId && self.incarnation === that.incarnation

const isOwner = (checkpoint: StateStore.Checkpoint, owner: StateStore.Owner): boolean =>
  Option.exists(checkpoint.owner, (current) => sameOwner(current, owner))

const heldUnder = "#lease_owner = :member AND #lease_incarnation = :incarnation AND #lease_epoch = :epoch"

const leaseValues = (owner: StateStore.Owner, epoch: number) => ({
  member: text(owner.memberId),
  incarnation: text(owner.incarnation),
  epoch: number(epoch)
})

const tooBusy = (table: Table, operation: string, key: Key) =>
  new StateStoreError.StateStoreError({
    reason: "Unavailable",
    operation,
    detail:
      `table "${table.tableName}" (${table.where}): the row with pk "${key.pk}" and sk "${key.sk}" changed between ` +
      `every read and write of ${rounds} tries; try again`
  })

// Each round is lost only to another writer of the row, and a lease has few of them.
const rounds = 5

/** @internal */
export const list = (table: Table, app: string, stream: string) =>
  table.query("listCheckpoints", {
    condition: "#pk = :pk",
    values: { pk: text(Rows.checkpointsPk(app, stream)) }
  }).pipe(
    Effect.flatMap(Effect.forEach((item) => table.decode("listCheckpoints", Rows.decodeCheckpoint(item))))
  )

// --- Acquiring ---

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

const acquireOne = Effect.fnUntraced(
  function*(table: Table, app: string, owner: StateStore.Owner, request: StateStore.LeaseRequest) {
    const operation = "acquireLeases"
    const key = Rows.checkpointKey(app, request.stream, request.shardId)
    // Taking from ourselves would be a change of owner that is none.
    const takeFrom = Option.filter(request.takeFrom, (from) => !sameOwner(from, owner))
    const decode = (item: Item | undefined) =>
      item === undefined
        ? Effect.succeed(vacant(request.shardId))
        : table.decode(operation, Rows.decodeCheckpoint(item))

    const write = Effect.fnUntraced(function*(epoch: string, { condition, values }: Condition) {
      const item = yield* table.update(operation, key, {
        update: `SET #lease_owner = :member, #lease_incarnation = :incarnation, #lease_epoch = ${epoch}, ` +
          "#last_update = :now",
        condition,
        values: {
          ...values,
          member: text(owner.memberId),
          incarnation: text(owner.incarnation),
          zero: number(0),
          one: number(1),
          now: yield* Rows.lastUpdate
        }
      })
      const checkpoint = yield* decode(item).pipe(
        // Nobody can work with this row, so nobody shall have to wait for our lease of it.
        Effect.tapError(() => Effect.ignore(clear(table, operation, key, owner, Number(item["lease_epoch"]?.N))))
      )
      return StateStore.AcquireResult.Acquired({ checkpoint })
    })

    const mayTake = (current: StateStore.Owner): boolean =>
      current.memberId === owner.memberId || Option.exists(request.takeFrom, (from) => sameOwner(from, current))

    let refused = yield* Effect.either(write(
      "if_not_exists(#lease_epoch, :zero) + :one",
      free({ ...request, takeFrom })
    ))
    for (let round = 0; round < rounds; round++) {
      if (refused._tag === "Right") return refused.right
      if (refused.left._tag === "StateStoreError") return yield* refused.left
      const checkpoint = yield* Effect.flatMap(refused.left.row, decode)
      // The answer to our own write was lost, or it is asked for twice: the owner does not change, so the epoch stays.
      if (isOwner(checkpoint, owner)) {
        return StateStore.AcquireResult.Acquired({ checkpoint })
      }
      if (Option.exists(checkpoint.owner, (current) => !mayTake(current))) {
        return StateStore.AcquireResult.Held({ checkpoint })
      }
      const seen = asRead(checkpoint)
      refused = yield* Effect.either(write(":next", {
        condition: seen.condition,
        values: { ...seen.values, next: number(Math.max(checkpoint.epoch, request.epochAbove) + 1) }
      }))
    }
    return yield* tooBusy(table, operation, key)
  }
)

/** The row is free, an earlier incarnation's or `takeFrom`'s, and the next epoch is high enough. Ours is none of these. */
const free = ({ epochAbove, takeFrom }: StateStore.LeaseRequest): Condition => {
  const owners = [
    "attribute_not_exists(#lease_owner)",
    "#lease_owner = :member AND #lease_incarnation <> :incarnation",
    ...(Option.isSome(takeFrom) ? ["#lease_owner = :from AND #lease_incarnation = :fromIncarnation"] : [])
  ]
  // A missing epoch counts as 0.
  const epochs = [...(epochAbove > 0 ? [] : ["attribute_not_exists(#lease_epoch)"]), "#lease_epoch >= :above"]
  return {
    condition: `(${owners.join(" OR ")}) AND (${epochs.join(" OR ")})`,
    values: {
      above: number(epochAbove),
      ...Option.match(takeFrom, {
        onNone: () => ({}),
        onSome: (from) => ({ from: text(from.memberId), fromIncarnation: text(from.incarnation) })
      })
    }
  }
}

/** Owner and epoch are still those that were read. */
const asRead = ({ epoch, owner }: StateStore.Checkpoint): Condition => {
  const epochs = [...(epoch > 0 ? [] : ["attribute_not_exists(#lease_epoch)"]), "#lease_epoch = :seenEpoch"]
  return {
    condition: `${
      Option.isNone(owner)
        ? "attribute_not_exists(#lease_owner)"
        : "#lease_owner = :seen AND #lease_incarnation = :seenIncarnation"
    } AND (${epochs.join(" OR ")})`,
    values: {
      seenEpoch: number(epoch),
      ...Option.match(owner, {
        onNone: () => ({}),
        onSome: (seen) => ({ seen: text(seen.memberId), seenIncarnation: text(seen.incarnation) })
      })
    }
  }
}

// --- Giving back ---

const clear = (table: Table, operation: string, key: Key, owner: StateStore.Owner, epoch: number) =>
  table.update(operation, key, {
    update: "REMOVE #lease_owner, #lease_incarnation",
    condition: heldUnder,
    values: leaseValues(owner, epoch)
  })

/** @internal */
export const release = (
  table: Table,
  app: string,
  owner: StateStore.Owner,
  leases: ReadonlyArray<StateStore.Lease>
): Effect.Effect<void, StateStoreError.StateStoreError> =>
  Batch.all(
    leases,
    (lease) =>
      clear(table, "releaseLeases", Rows.checkpointKey(app, lease.stream, lease.shardId), owner, lease.epoch).pipe(
        Effect.catchTag("Refused", () => Effect.void),
        Effect.asVoid
      )
  )

// --- Committing ---

type Commit = StateStore.Lease & { readonly position: Position.Position }

/** @internal */
export const commit = (
  table: Table,
  app: string,
  owner: StateStore.Owner,
  commits: ReadonlyArray<Commit>
): Effect.Effect<ReadonlyArray<StateStore.CommitResult>> =>
  Batch.each<Commit, StateStore.CommitResult>(
    commits,
    (commit) => commitOne(table, app, owner, commit),
    (error) => StateStore.CommitResult.Failed({ error })
  )

const committed = StateStore.CommitResult.Committed()

const commitOne = Effect.fnUntraced(
  function*(table: Table, app: string, owner: StateStore.Owner, { epoch, position, shardId, stream }: Commit) {
    const operation = "commitCheckpoints"
    const key = Rows.checkpointKey(app, stream, shardId)
    const ends = Position.is("ShardEnd")(position)
    const { remove, set } = Rows.encodePosition(position)
    const removed = ends ? [...remove, "lease_owner", "lease_incarnation"] : remove

    const write = Effect.fnUntraced(function*(order: Condition) {
      const values = { ...set, order_key: text(Position.orderKey(position)), last_update: yield* Rows.lastUpdate }
      yield* table.update(operation, key, {
        update: `SET ${Object.keys(values).map((name) => `#${name} = :${name}`).join(", ")}` +
          (removed.length === 0 ? "" : ` REMOVE ${removed.map((name) => `#${name}`).join(", ")}`),
        condition: `${heldUnder} AND ${order.condition}`,
        values: { ...values, ...leaseValues(owner, epoch), ...order.values }
      })
      return committed
    })

    let refused = yield* Effect.either(write(forwards))
    for (let round = 0; round < rounds; round++) {
      if (refused._tag === "Right") return refused.right
      if (refused.left._tag === "StateStoreError") return yield* refused.left
      const item = yield* refused.left.row
      if (item === undefined) return StateStore.CommitResult.Missing()
      const checkpoint = yield* table.decode(operation, Rows.decodeCheckpoint(item))
      const stored = Option.getOrElse(checkpoint.position, () => Position.trimHorizon)
      if (checkpoint.epoch !== epoch || !isOwner(checkpoint, owner)) {
        // A `ShardEnd` under this epoch gave the lease back itself: ours, and its answer was lost.
        return checkpoint.epoch === epoch && Option.isNone(checkpoint.owner) && stored._tag === "ShardEnd"
          ? committed
          : StateStore.CommitResult.Lost({ checkpoint })
      }
      // A `ShardEnd` that finds itself still has the lease to give back.
      if (!ends && Option.isSome(checkpoint.position) && Position.compare(stored, position) >= 0) return committed
      refused = yield* Effect.either(write(unchanged(item)))
    }
    return yield* tooBusy(table, operation, key)
  }
)

const forwards: Condition = {
  condition: "(#order_key <= :order_key OR attribute_not_exists(#order_key) AND attribute_not_exists(#sequence_number))"
}

/**
 * The order key does not stand for the position: the row is the Go library's, which has none, or somebody set the
 * sequence number by hand. The position was compared as it was read, so that must be what is replaced.
 */
const unchanged = (item: Item): Condition => ({
  condition: ["order_key", "position_type", "sequence_number"].map((name) =>
    item[name] === undefined ? `attribute_not_exists(#${name})` : `#${name} = :seen_${name}`
  ).join(" AND "),
  values: Object.fromEntries(
    ["order_key", "position_type", "sequence_number"].flatMap((name) => {
      const value = item[name]
      return value === undefined ? [] : [[`seen_${name}`, value] as const]
    })
  )
})

// --- Removing ---

/** @internal */
export const remove = Effect.fnUntraced(
  function*(table: Table, app: string, stream: string, shardIds: ReadonlyArray<string>) {
    const operation = "removeCheckpoints"
    const removed: Array<StateStore.Checkpoint> = []
    yield* Batch.all(
      shardIds,
      Effect.fnUntraced(function*(shardId) {
        const key = Rows.checkpointKey(app, stream, shardId)
        // Read first: the answer to a delete that took effect may get lost, and then nothing is left to read back.
        const item = yield* table.get(operation, key)
        if (item === undefined) return
        const seen = yield* table.decode(operation, Rows.decodeCheckpoint(item))
        if (Option.isSome(seen.owner)) return
        const answer = yield* table.remove(operation, key, { condition: "attribute_not_exists(#lease_owner)" }).pipe(
          Effect.catchTag("Refused", () => Effect.succeed({ item: undefined, attempts: 1 }))
        )
        const gone = answer.item ?? (answer.attempts > 1 ? item : undefined)
        if (gone !== undefined) removed.push(yield* table.decode(operation, Rows.decodeCheckpoint(gone)))
      })
    )
    return removed
  }
)
