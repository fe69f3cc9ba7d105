/** Apps share a store without seeing each other, and any name is only a name. */
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
  only,
  plainList,
  plainMembers,
  plainRows,
  requestOf,
  shardListOf,
  shardOf,
  some
} from "./fixture.js"

const longest = "s".repeat(128)

/** Pairs that a careless key would mix up, and characters that a careless encoding would lose. */
const names: ReadonlyArray<readonly [app: string, stream: string]> = [
  ["", "orders"],
  ["#a", "b"],
  ["#a#b", "c"],
  ["#a", "b#c"],
  ["/../a", "../b"],
  [" a", "b "],
  ["%23a", "%23"],
  ["주문", "스트림-α-🙂"],
  [`-${"a".repeat(200)}`, longest],
  [`-${"가".repeat(100)}`, `${longest.slice(1)}t`],
  ["\"a\\", "\"b\\"],
  ["A", "Orders"],
  ["a", "orders"],
  ["__proto__", "__proto__"],
  ["orders", "arn:aws:kinesis:ap-northeast-2:123456789012:stream/orders"]
]

export const cases: ReadonlyArray<Case> = [
  makeCase("keeps apps and streams apart, whatever their names", (store, prefix) =>
    Effect.gen(function*() {
      // All rows are written before any is read, and each is different.
      const written = yield* Effect.forEach(names, ([suffix, stream], index) =>
        Effect.gen(function*() {
          const app = `${prefix}${suffix}`
          const member = memberOf("m#1", { heartbeat: index })
          yield* store.registerMember(app, member)
          const list = shardListOf(1, { createdAt: index, shards: [shardOf("s#1")] })
          assert.isTrue(yield* store.updateShards(app, stream, list), `${app} ${stream}`)
          const held = leaseOf(
            acquired(only(yield* store.acquireLeases(app, alice, [requestOf("s#1", { stream, epochAbove: index })])))
          )
          yield* store.commitCheckpoints(app, alice, [{
            ...held,
            stream,
            position: Position.afterSequence(`${index + 1}`)
          }])
          return { app, stream, member, list, epoch: index + 1, position: `after ${index + 1}` }
        }))
      for (const { app, epoch, list, member, position, stream } of written) {
        const sameApp = written.filter((other) => other.app === app)
        assert.deepStrictEqual(
          plainMembers(yield* store.listMembers(app)),
          plainMembers([sameApp[sameApp.length - 1]?.member ?? member])
        )
        assert.deepStrictEqual(plainList(some(yield* store.getShards(app, stream))), plainList(list))
        assert.deepStrictEqual(
          [...(yield* store.listShardVersions(app)).keys()].sort(),
          sameApp.map((other) => other.stream).sort()
        )
        assert.deepStrictEqual(
          plainRows(yield* store.listCheckpoints(app, stream)),
          [{ shardId: "s#1", position, owner: "alice (1)", epoch }]
        )
      }
    })),

  makeCase("changes nothing of another app", (store, app) =>
    Effect.gen(function*() {
      const other = `${app}-other`
      yield* store.registerMember(app, memberOf("a"))
      const held = acquired(only(yield* store.acquireLeases(app, alice, [requestOf("s")])))
      yield* store.deregisterMember(other, memberOf("a"))
      yield* store.pruneMembers(other, [memberOf("a")])
      const error = yield* Effect.flip(store.heartbeat(other, memberOf("a")))
      assert.strictEqual(error._tag, "MemberMissing")
      yield* store.releaseLeases(other, alice, [leaseOf(held)])
      const [answer] = yield* store.commitCheckpoints(other, alice, [{
        ...leaseOf(held),
        position: Position.shardEnd
      }])
      assert.strictEqual(answer?._tag, "Missing")
      assert.deepStrictEqual(yield* store.removeCheckpoints(other, "orders", ["s"]), [])
      assert.strictEqual((yield* store.listMembers(app)).length, 1)
      assert.deepStrictEqual(
        plainRows(yield* store.listCheckpoints(app, "orders")),
        [{ shardId: "s", position: null, owner: "alice (1)", epoch: 1 }]
      )
    }))
]
