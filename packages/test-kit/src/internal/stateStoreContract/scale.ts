/** Lists of any length: what has pages, batches and size limits below must not show them. */
import { assert } from "@effect/vitest"
import * as Position from "@kinesumer/core/Position"
import * as Effect from "effect/Effect"
import type { Case } from "../../StateStoreContract.js"
import {
  acquired,
  alice,
  leaseOf,
  makeCase,
  memberOf,
  plainList,
  plainMembers,
  requestOf,
  shardListOf,
  shardOf,
  some,
  stream
} from "./fixture.js"

const shardId = (index: number): string => `shardId-${`${index}`.padStart(12, "0")}`

export const cases = (sizes: { readonly shards: number; readonly members: number }): ReadonlyArray<Case> => [
  makeCase(`keeps a list of ${sizes.shards} shards`, (store, app) =>
    Effect.gen(function*() {
      const list = shardListOf(1, {
        shards: Array.from({ length: sizes.shards }, (_, index) =>
          shardOf(shardId(index), {
            parents: index < 2 ? [] : [shardId(index - 2), shardId(index - 1)],
            closed: index % 2 === 0
          }))
      })
      assert.isTrue(yield* store.updateShards(app, stream, list))
      assert.deepStrictEqual(plainList(some(yield* store.getShards(app, stream))), plainList(list))
      // A shorter list leaves nothing behind of the longer one.
      const shorter = shardListOf(2)
      assert.isTrue(yield* store.updateShards(app, stream, shorter))
      assert.deepStrictEqual(plainList(some(yield* store.getShards(app, stream))), plainList(shorter))
    })),

  makeCase(`keeps leases and checkpoints of ${sizes.shards} shards`, (store, app) =>
    Effect.gen(function*() {
      const shardIds = Array.from({ length: sizes.shards }, (_, index) => shardId(index))
      const granted = yield* store.acquireLeases(app, alice, shardIds.map((id) => requestOf(id)))
      assert.deepStrictEqual(granted.map((answer) => acquired(answer).shardId), shardIds)
      const answers = yield* store.commitCheckpoints(
        app,
        alice,
        granted.map((answer, index) => ({
          ...leaseOf(acquired(answer)),
          position: Position.afterSequence(`${index + 1}`)
        }))
      )
      assert.strictEqual(answers.filter((answer) => answer._tag === "Committed").length, sizes.shards)
      const rows = yield* store.listCheckpoints(app, stream)
      assert.strictEqual(rows.length, sizes.shards)
      const positions = new Map(rows.map((row) => [row.shardId, row.position]))
      for (const [index, id] of shardIds.entries()) {
        const position = some(positions.get(id) ?? assert.fail(`no row of ${id}`))
        assert.strictEqual(Position.compare(position, Position.afterSequence(`${index + 1}`)), 0, id)
      }
      yield* store.releaseLeases(app, alice, granted.map((answer) => leaseOf(acquired(answer))))
      const removed = yield* store.removeCheckpoints(app, stream, shardIds)
      assert.strictEqual(new Set(removed.map((row) => row.shardId)).size, sizes.shards)
      assert.deepStrictEqual(yield* store.listCheckpoints(app, stream), [])
    })),

  makeCase(`keeps ${sizes.members} members`, (store, app) =>
    Effect.gen(function*() {
      const members = Array.from({ length: sizes.members }, (_, index) => memberOf(`member-${index}`))
      yield* Effect.forEach(members, (member) => store.registerMember(app, member), { concurrency: 16 })
      assert.deepStrictEqual(plainMembers(yield* store.listMembers(app)), plainMembers(members))
      const [first, ...others] = members
      yield* store.pruneMembers(app, others)
      assert.deepStrictEqual(
        plainMembers(yield* store.listMembers(app)),
        plainMembers(first === undefined ? [] : [first])
      )
    }))
]
