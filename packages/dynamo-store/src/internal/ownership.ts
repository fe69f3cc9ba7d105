/** What leases and checkpoints have in common: whose row it is, and what to do when a write is refused. */
import type * as StateStore from "@kinesumer/core/StateStore"
import * as StateStoreError from "@kinesumer/core/StateStoreError"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import type { Item, Key } from "./attributes.js"
import { number, text } from "./attributes.js"
import type { Condition, Refused, Table } from "./client.js"

/** @internal */
export const sameOwner = (self: StateStore.Owner, that: StateStore.Owner): boolean =>
  self.memberId === that.memberId && self.incarnation === that.incarnation

/** @internal */
export const isOwner = (checkpoint: StateStore.Checkpoint, owner: StateStore.Owner): boolean =>
  Option.exists(checkpoint.owner, (current) => sameOwner(current, owner))

/**
 * The lease is held by this owner under this epoch.
 *
 * @internal
 */
export const held = (owner: StateStore.Owner, epoch: number) => ({
  condition: "#lease_owner = :member AND #lease_incarnation = :incarnation AND #lease_epoch = :epoch",
  values: { member: text(owner.memberId), incarnation: text(owner.incarnation), epoch: number(epoch) }
} satisfies Condition)

/**
 * Gives a lease back, if it still is this one.
 *
 * @internal
 */
export const giveBack = (
  table: Table,
  operation: string,
  key: Key,
  owner: StateStore.Owner,
  epoch: number
): Effect.Effect<void, StateStoreError.StateStoreError> =>
  table.update(operation, key, {
    update: "REMOVE #lease_owner, #lease_incarnation",
    ...held(owner, epoch)
  }).pipe(
    Effect.catchTag("Refused", () => Effect.void),
    Effect.asVoid
  )

type Write<A> = Effect.Effect<A, StateStoreError.StateStoreError | Refused>

// A round is lost only to another writer of the same row, and a row has few of them.
const rounds = 5

/**
 * Writes. Where that is refused, `judge` looks at the row: it has the answer, or the write that the contract allows for
 * a row that stands like this, under the condition that it still does.
 *
 * @internal
 */
export const settle = Effect.fnUntraced(function*<A>(
  table: Table,
  operation: string,
  key: Key,
  first: Write<A>,
  judge: (row: Item | undefined) => Effect.Effect<Either.Either<A, Write<A>>, StateStoreError.StateStoreError>
) {
  let write = first
  for (let round = 0; round < rounds; round++) {
    const written = yield* Effect.either(write)
    if (Either.isRight(written)) return written.right
    if (written.left._tag === "StateStoreError") return yield* written.left
    const verdict = yield* Effect.flatMap(written.left.row, judge)
    if (Either.isRight(verdict)) return verdict.right
    write = verdict.left
  }
  return yield* new StateStoreError.StateStoreError({
    reason: "Unavailable",
    operation,
    detail:
      `table "${table.tableName}" (${table.where}): the row with pk "${key.pk}" and sk "${key.sk}" changed between ` +
      `each of ${rounds} reads and writes; try again`
  })
})
