import { assert, describe, it } from "@effect/vitest"
import { Array as Arr, Effect, Option } from "effect"
import { after, alice, app, commitOf, listOf, memberOf, request, setup, stream } from "./utils/setup.js"

const shardIds = Arr.makeBy(10_000, (index) => `shardId-${`${index}`.padStart(12, "0")}`)

const sequenceNumber = "49630706038424016596026506533782471779140474214180454402"

describe("lists of any length", () => {
  it.scopedLive("10,000 shards in one list, whose version is still a small read", () =>
    Effect.gen(function*() {
      const { proxy, rows, store } = yield* setup()
      const list = listOf(1, shardIds)
      assert.isTrue(yield* store.updateShards(app, stream, list))
      assert.deepStrictEqual(yield* store.getShards(app, stream), Option.some(list))
      for (const { action, body } of proxy.calls) {
        if (action === "PutItem") assert.isBelow(Buffer.byteLength(body), 400_000)
      }
      proxy.calls.length = 0
      assert.deepStrictEqual(yield* store.listShardVersions(app), new Map([[stream, 1]]))
      assert.strictEqual(proxy.calls.length, 1)
      const head = yield* rows.get(`shard_list#${app}`, stream)
      assert.isBelow(JSON.stringify(head).length, 1_000)
      // Too long for the Go library's single item.
      assert.isUndefined(yield* rows.get(`shard_cache#${app}`, stream))
    }))

  it.scopedLive("10,000 checkpoints, page by page", () =>
    Effect.gen(function*() {
      const { proxy, rows, store } = yield* setup()
      yield* rows.putAll(shardIds.map((shardId) => ({
        pk: { S: `check_point#${app}#${stream}` },
        sk: { S: shardId },
        sequence_number: { S: sequenceNumber },
        position_type: { S: "AFTER_SEQUENCE" },
        order_key: { S: `2:056${sequenceNumber}:~` },
        lease_owner: { S: "member" },
        lease_incarnation: { S: "incarnation" },
        lease_epoch: { N: "1" },
        last_update: { S: "2022-07-12T21:35:00.123Z" }
      })))
      const found = yield* store.listCheckpoints(app, stream)
      assert.deepStrictEqual(found.map(({ shardId }) => shardId), shardIds)
      assert.isTrue(found.every(({ position }) => Option.isSome(position)))
      assert.isAbove(proxy.calls.length, 1)
    }))

  it.scopedLive("500 members whose rows are more than a page", () =>
    Effect.gen(function*() {
      const { proxy, rows, store } = yield* setup()
      const streams = Arr.makeBy(30, (index) => `stream-${index}-${"x".repeat(100)}`)
      const members = Arr.makeBy(500, (index) => ({ ...memberOf(`m-${`${index}`.padStart(3, "0")}`), streams }))
      yield* rows.putAll(members.map((member) => ({
        pk: { S: `client#${app}` },
        sk: { S: member.memberId },
        incarnation: { S: member.incarnation },
        heartbeat: { N: "0" },
        refreshes: { N: "0" },
        streams: { L: streams.map((S) => ({ S })) },
        assign_version: { N: "1" }
      })))
      assert.deepStrictEqual(yield* store.listMembers(app), members)
      assert.isAbove(proxy.calls.length, 1)
      yield* store.pruneMembers(app, members.slice(100))
      assert.deepStrictEqual(yield* store.listMembers(app), members.slice(0, 100))
    }))
})

describe("requests", () => {
  it.scopedLive("one for each lease, commit and release, and one for a heartbeat and its members", () =>
    Effect.gen(function*() {
      const { proxy, store } = yield* setup()
      const actions = <A, E>(effect: Effect.Effect<A, E>) =>
        Effect.map(effect, () => proxy.calls.splice(0).map(({ action }) => action))
      assert.deepStrictEqual(yield* actions(store.acquireLeases(app, alice, [request("s")])), ["UpdateItem"])
      for (const position of [after("1"), after("2", 0), after("2")]) {
        assert.deepStrictEqual(
          yield* actions(store.commitCheckpoints(app, alice, [commitOf("s", 1, position)])),
          ["UpdateItem"]
        )
      }
      assert.deepStrictEqual(
        yield* actions(store.releaseLeases(app, alice, [{ stream, shardId: "s", epoch: 1 }])),
        ["UpdateItem"]
      )
      // Taken over from the dead, and by the next incarnation.
      assert.deepStrictEqual(
        yield* actions(store.acquireLeases(app, { ...alice, incarnation: "2" }, [request("s", { takeFrom: alice })])),
        ["UpdateItem"]
      )
      assert.deepStrictEqual(
        yield* actions(store.acquireLeases(app, { ...alice, incarnation: "3" }, [request("s", { epochAbove: 2 })])),
        ["UpdateItem"]
      )
      // Renewed.
      assert.deepStrictEqual(
        yield* actions(store.acquireLeases(app, { ...alice, incarnation: "3" }, [request("s", { epochAbove: 3 })])),
        ["UpdateItem"]
      )
      assert.deepStrictEqual(yield* actions(store.registerMember(app, memberOf("a"))), ["PutItem"])
      assert.deepStrictEqual(yield* actions(store.heartbeat(app, memberOf("a", 1))), ["PutItem"])
      assert.deepStrictEqual(yield* actions(store.listMembers(app)), ["Query"])
    }))
})
