/** The shard lists: written by whoever has read the version before. */
import { assert } from "@effect/vitest"
import * as Position from "@kinesumer/core/Position"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { Case } from "../../StateStoreContract.js"
import { makeCase, plainList, shardListOf, shardOf, some, stream, timestamp } from "./fixture.js"

export const cases: ReadonlyArray<Case> = [
  makeCase("has no shard list at first", (store, app) =>
    Effect.gen(function*() {
      assert.isTrue(Option.isNone(yield* store.getShards(app, stream)))
      assert.strictEqual((yield* store.listShardVersions(app)).size, 0)
    })),

  makeCase("keeps every field of a shard list", (store, app) =>
    Effect.gen(function*() {
      const starts = [Position.trimHorizon, timestamp(0), timestamp(1_700_000_000_123)]
      for (const [index, start] of starts.entries()) {
        const list = shardListOf(index + 1, {
          createdAt: 1_600_000_000_000 + index,
          checkpointKey: "orders#123456789012",
          start,
          shards: [
            shardOf("shardId-000000000000", { closed: true, hashKeyRange: { start: "0", end: "9" } }),
            shardOf("shardId-000000000001", { closed: true, hashKeyRange: { start: "10", end: "99" } }),
            shardOf("shardId-000000000002", { parents: ["shardId-000000000000"] }),
            shardOf("shardId-000000000003", { parents: ["shardId-000000000000", "shardId-000000000001"] })
          ]
        })
        assert.isTrue(yield* store.updateShards(app, stream, list))
        assert.deepStrictEqual(plainList(some(yield* store.getShards(app, stream))), plainList(list))
      }
    })),

  makeCase("keeps an empty shard list", (store, app) =>
    Effect.gen(function*() {
      const list = shardListOf(1, { shards: [] })
      assert.isTrue(yield* store.updateShards(app, stream, list))
      assert.deepStrictEqual(plainList(some(yield* store.getShards(app, stream))), plainList(list))
    })),

  makeCase("takes a shard list only as the next version of the stored one", (store, app) =>
    Effect.gen(function*() {
      const update = (version: number) =>
        store.updateShards(app, stream, shardListOf(version, { shards: [shardOf(`written-as-${version}`)] }))
      assert.isFalse(yield* update(2))
      assert.isTrue(Option.isNone(yield* store.getShards(app, stream)))
      assert.isTrue(yield* update(1))
      assert.isTrue(yield* update(2))
      assert.isFalse(yield* update(1))
      assert.isFalse(yield* update(2))
      assert.isFalse(yield* update(4))
      const stored = some(yield* store.getShards(app, stream))
      assert.strictEqual(stored.version, 2)
      assert.deepStrictEqual(stored.shards.map((shard) => shard.shardId), ["written-as-2"])
    })),

  makeCase("lets one of many writers win", (store, app) =>
    Effect.gen(function*() {
      for (const version of [1, 2]) {
        const won = yield* Effect.forEach(
          Array.from({ length: 20 }, (_, writer) => `${writer}`),
          (writer) =>
            Effect.map(
              store.updateShards(app, stream, shardListOf(version, { shards: [shardOf(writer)] })),
              (updated) => updated ? [writer] : []
            ),
          { concurrency: "unbounded" }
        )
        assert.strictEqual(won.flat().length, 1)
        const stored = some(yield* store.getShards(app, stream))
        assert.strictEqual(stored.version, version)
        assert.deepStrictEqual(stored.shards.map((shard) => shard.shardId), won.flat())
      }
    })),

  makeCase("answers the versions of all streams of the app", (store, app) =>
    Effect.gen(function*() {
      const versions = new Map([["orders", 2], ["payments", 1], ["arn:aws:kinesis:eu-west-1:1:stream/orders", 3]])
      for (const [name, version] of versions) {
        for (let next = 1; next <= version; next++) {
          assert.isTrue(yield* store.updateShards(app, name, shardListOf(next)))
        }
      }
      const answer = yield* store.listShardVersions(app)
      assert.deepStrictEqual([...answer].sort(), [...versions].sort())
    }))
]
