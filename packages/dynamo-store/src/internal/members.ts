/** The members of a group: a row for each, and a condition on whose row it is. */
import type * as StateStore from "@kinesumer/core/StateStore"
import * as StateStoreError from "@kinesumer/core/StateStoreError"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { number, text } from "./attributes.js"
import * as Batch from "./batch.js"
import type { Table } from "./client.js"
import * as Rows from "./rows.js"

/** @internal */
export const register = (table: Table, app: string, member: StateStore.Member) =>
  Effect.flatMap(Rows.lastUpdate, (now) => table.put("registerMember", Rows.encodeMember(app, member, now)))

/** @internal */
export const heartbeat = Effect.fnUntraced(function*(table: Table, app: string, member: StateStore.Member) {
  const operation = "heartbeat"
  const item = Rows.encodeMember(app, member, yield* Rows.lastUpdate)
  yield* table.putIf(operation, item, {
    condition: "#incarnation = :own",
    values: { own: text(member.incarnation) }
  }).pipe(
    Effect.catchTag("Refused", (refused) =>
      Effect.gen(function*() {
        const found = yield* refused.row
        const where = { app, memberId: member.memberId }
        if (found === undefined) return yield* new StateStoreError.MemberMissing(where)
        // A row without an incarnation is a process of the Go library under the same id.
        const incarnation = yield* table.decode(operation, Rows.decodeIncarnation(found))
        if (!Option.contains(incarnation, member.incarnation)) {
          return yield* new StateStoreError.MemberReplaced(where)
        }
        // Registered anew since the refusal, by ourselves: the next heartbeat finds it.
      }))
  )
})

/** @internal */
export const deregister = (table: Table, app: string, member: StateStore.Owner) =>
  table.remove("deregisterMember", Rows.memberKey(app, member.memberId), {
    condition: "#incarnation = :own",
    values: { own: text(member.incarnation) }
  }).pipe(
    Effect.catchTag("Refused", () => Effect.void),
    Effect.asVoid
  )

/** @internal */
export const list = (table: Table, app: string) =>
  table.query("listMembers", { condition: "#pk = :pk", values: { pk: text(Rows.membersPk(app)) } }).pipe(
    // Rows without an incarnation were left behind by the Go library.
    Effect.map((items) => items.filter((item) => item["incarnation"] !== undefined)),
    Effect.flatMap(Effect.forEach((item) => table.decode("listMembers", Rows.decodeMember(item))))
  )

/** @internal */
export const prune = (table: Table, app: string, members: ReadonlyArray<StateStore.Member>) =>
  Batch.all(members, (member) =>
    table.remove("pruneMembers", Rows.memberKey(app, member.memberId), {
      condition: "#incarnation = :seen AND #heartbeat = :heartbeat",
      values: { seen: text(member.incarnation), heartbeat: number(member.heartbeat) }
    }).pipe(
      Effect.catchTag("Refused", () => Effect.void),
      Effect.asVoid
    ))
