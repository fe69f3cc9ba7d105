/**
 * Checkpoints. A commit is one conditional write that names only the attributes it means to change: it holds while the
 * lease is current and the position does not go back.
 */
import * as Position from "@kinesumer/core/Position"
import * as StateStore from "@kinesumer/core/StateStore"
import type * as StateStoreError from "@kinesumer/core/StateStoreError"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import type { Item } from "./attributes.js"
import { text } from "./attributes.js"
import * as Batch from "./batch.js"
import type { Condition, Table } from "./client.js"
import { held, isOwner, settle } from "./ownership.js"
import * as Rows from "./rows.js"

// --- Reading ---

/** @internal */
export const list = (table: Table, app: string, stream: string) =>
  table.query("listCheckpoints", {
    condition: "#pk = :pk",
    values: { pk: text(Rows.checkpointsPk(app, stream)) }
  }).pipe(
    Effect.flatMap(Effect.forEach((item) => table.decode("listCheckpoints", Rows.decodeCheckpoint(item))))
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

const commitOne = (
  table: Table,
  app: string,
  owner: StateStore.Owner,
  { epoch, position, shardId, stream }: Commit
): Effect.Effect<StateStore.CommitResult, StateStoreError.StateStoreError> => {
  const operation = "commitCheckpoints"
  const key = Rows.checkpointKey(app, stream, shardId)
  const lease = held(owner, epoch)
  const ends = Position.is("ShardEnd")(position)
  const committed = StateStore.CommitResult.Committed()

  const write = Effect.fnUntraced(function*(order: Condition) {
    const { remove, set } = Rows.encodePosition(position)
    const values = { ...set, order_key: text(Position.orderKey(position)), last_update: yield* Rows.lastUpdate }
    const sets = Object.keys(values).map((name) => `#${name} = :${name}`)
    // The end of a shard gives its lease back.
    const removes = [...remove, ...(ends ? ["lease_owner", "lease_incarnation"] : [])].map((name) => `#${name}`)
    yield* table.update(operation, key, {
      update: `SET ${sets.join(", ")}${removes.length === 0 ? "" : ` REMOVE ${removes.join(", ")}`}`,
      condition: `${lease.condition} AND ${order.condition}`,
      values: { ...values, ...lease.values, ...order.values }
    })
    return committed
  })

  return settle<StateStore.CommitResult>(table, operation, key, write(forwards), (row) =>
    row === undefined
      ? Effect.succeed(Either.right(StateStore.CommitResult.Missing()))
      : Effect.map(table.decode(operation, Rows.decodeCheckpoint(row)), (checkpoint) => {
        if (checkpoint.epoch !== epoch || !isOwner(checkpoint, owner)) {
          // Under this epoch the end gave the lease back: our own write, whose answer was lost.
          const ended = checkpoint.epoch === epoch && Option.isNone(checkpoint.owner) &&
            Option.exists(checkpoint.position, Position.is("ShardEnd"))
          return Either.right(ended ? committed : StateStore.CommitResult.Lost({ checkpoint }))
        }
        const reached = Option.exists(checkpoint.position, (stored) => Position.compare(stored, position) >= 0)
        // An end that is there already still has a lease to give back.
        return reached && !ends ? Either.right(committed) : Either.left(write(asRead(row)))
      }))
}

/** The order key stands for the position; a row without both was never committed. */
const forwards: Condition = {
  condition: "(#order_key <= :order_key OR attribute_not_exists(#order_key) AND attribute_not_exists(#sequence_number))"
}

const positionAttributes = ["position_type", "sequence_number", "order_key"]

/**
 * The order key does not stand for the position: the row is the Go library's, which has none, or somebody changed the
 * sequence number by hand. The position was compared as it was read, so that is what may be replaced.
 */
const asRead = (row: Item): Condition => ({
  condition: positionAttributes.map((name) =>
    row[name] === undefined ? `attribute_not_exists(#${name})` : `#${name} = :seen_${name}`
  ).join(" AND "),
  values: Object.fromEntries(positionAttributes.flatMap((name) => {
    const value = row[name]
    return value === undefined ? [] : [[`seen_${name}`, value] as const]
  }))
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
        // Read first: the answer to a delete may get lost, and then nothing is left to be read back.
        const row = yield* table.get(operation, key)
        if (row === undefined) return
        const checkpoint = yield* table.decode(operation, Rows.decodeCheckpoint(row))
        if (Option.isSome(checkpoint.owner)) return
        const { attempts, item } = yield* table.remove(operation, key, {
          condition: "attribute_not_exists(#lease_owner)"
        }).pipe(
          Effect.catchTag("Refused", () => Effect.succeed({ item: undefined, attempts: 1 }))
        )
        // Better said by two than by nobody: what was not read to its end must not go unheard.
        const gone = item ?? (attempts > 1 ? row : undefined)
        if (gone !== undefined) removed.push(yield* table.decode(operation, Rows.decodeCheckpoint(gone)))
      })
    ).pipe(
      // A row that is still there is found again; one that is gone is told now or never.
      Effect.catchIf(() => removed.length > 0, (error) => Effect.logDebug(`Left rows for later: ${error.message}`))
    )
    return removed
  }
)
