import { assert, describe, it } from "@effect/vitest"
import * as Position from "@kinesumer/core/Position"
import { Effect, Option } from "effect"
import { after, alice, app, bob, commitOf, listOf, memberOf, request, setup, stream } from "./utils/setup.js"

const pk = `check_point#${app}#${stream}`
const lastUpdate = "2022-07-12T21:35:00.123456789+09:00"
const seen = "49630706038424016596026506533782471779140474214180454402"

/** A checkpoint as the Go library writes it. */
const goRow = (shardId: string, sequenceNumber: string) => ({
  pk: { S: pk },
  sk: { S: shardId },
  sequence_number: { S: sequenceNumber },
  last_update: { S: lastUpdate }
})

const isoUtc = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

describe("coming from the Go library", () => {
  it.scopedLive("reads its checkpoints", () =>
    Effect.gen(function*() {
      const { rows, store } = yield* setup()
      yield* rows.putAll([
        goRow("started", seen),
        goRow("untouched", ""),
        { pk: { S: pk }, sk: { S: "null" }, sequence_number: { NULL: true }, last_update: { S: lastUpdate } },
        { pk: { S: pk }, sk: { S: "omitted" }, last_update: { S: lastUpdate } }
      ])
      const free = { owner: Option.none(), epoch: 0 }
      assert.deepStrictEqual(yield* store.listCheckpoints(app, stream), [
        { shardId: "null", position: Option.none(), ...free },
        { shardId: "omitted", position: Option.none(), ...free },
        { shardId: "started", position: Option.some(after(seen)), ...free },
        { shardId: "untouched", position: Option.none(), ...free }
      ])
    }))

  it.scopedLive("goes on from its checkpoints, and writes what it could read", () =>
    Effect.gen(function*() {
      const { proxy, rows, store } = yield* setup()
      yield* rows.put(goRow("s", seen))
      const [acquired] = yield* store.acquireLeases(app, alice, [request("s")])
      assert.deepStrictEqual(acquired, {
        _tag: "Acquired",
        checkpoint: { shardId: "s", position: Option.some(after(seen)), owner: Option.some(alice), epoch: 1 }
      })
      // One digit more, so that plain text would take it for less.
      const next = `1${"0".repeat(seen.length)}`
      assert.deepStrictEqual(yield* store.commitCheckpoints(app, alice, [commitOf("s", 1, after(next))]), [
        { _tag: "Committed" }
      ])
      const row = yield* rows.get(pk, "s")
      assert.strictEqual(row?.["sequence_number"]?.S, next)
      assert.match(row?.["last_update"]?.S ?? "", isoUtc)
      // Only the first commit of such a row needs more than the one write.
      proxy.calls.length = 0
      yield* store.commitCheckpoints(app, alice, [commitOf("s", 1, after(`${next.slice(0, -1)}1`))])
      assert.deepStrictEqual(proxy.calls.map((call) => call.action), ["UpdateItem"])
    }))

  it.scopedLive("does not go back behind its checkpoints", () =>
    Effect.gen(function*() {
      const { rows, store } = yield* setup()
      yield* rows.put(goRow("s", "10"))
      yield* store.acquireLeases(app, alice, [request("s")])
      for (const position of [Position.trimHorizon, after("9"), after("10", 3)]) {
        assert.deepStrictEqual(yield* store.commitCheckpoints(app, alice, [commitOf("s", 1, position)]), [
          { _tag: "Committed" }
        ])
        assert.strictEqual((yield* rows.get(pk, "s"))?.["sequence_number"]?.S, "10")
      }
      yield* store.commitCheckpoints(app, alice, [commitOf("s", 1, after("11"))])
      assert.strictEqual((yield* rows.get(pk, "s"))?.["sequence_number"]?.S, "11")
    }))

  it.scopedLive("starts a row that it left untouched", () =>
    Effect.gen(function*() {
      const { rows, store } = yield* setup()
      yield* rows.put(goRow("s", ""))
      yield* store.acquireLeases(app, alice, [request("s")])
      yield* store.commitCheckpoints(app, alice, [commitOf("s", 1, after("7"))])
      const [row] = yield* store.listCheckpoints(app, stream)
      assert.deepStrictEqual(row?.position, Option.some(after("7")))
    }))

  it.scopedLive("keeps the sequence number at the end of a shard", () =>
    Effect.gen(function*() {
      const { rows, store } = yield* setup()
      yield* rows.put(goRow("s", seen))
      yield* store.acquireLeases(app, alice, [request("s")])
      assert.deepStrictEqual(yield* store.commitCheckpoints(app, alice, [commitOf("s", 1, Position.shardEnd)]), [
        { _tag: "Committed" }
      ])
      const row = yield* rows.get(pk, "s")
      assert.strictEqual(row?.["sequence_number"]?.S, seen)
      assert.deepStrictEqual(yield* store.listCheckpoints(app, stream), [
        { shardId: "s", position: Option.some(Position.shardEnd), owner: Option.none(), epoch: 1 }
      ])
    }))

  it.scopedLive("follows a sequence number that was set by hand", () =>
    Effect.gen(function*() {
      const { rows, store } = yield* setup()
      yield* store.acquireLeases(app, alice, [request("s")])
      yield* store.commitCheckpoints(app, alice, [commitOf("s", 1, after("1000"))])
      yield* store.releaseLeases(app, alice, [{ stream, shardId: "s", epoch: 1 }])
      const row = yield* rows.get(pk, "s")
      yield* rows.put({ ...row, sequence_number: { S: "500" } })
      const [acquired] = yield* store.acquireLeases(app, bob, [request("s")])
      assert.deepStrictEqual(
        acquired?._tag === "Acquired" ? acquired.checkpoint.position : acquired,
        Option.some(after("500"))
      )
      yield* store.commitCheckpoints(app, bob, [commitOf("s", 2, after("501"))])
      assert.deepStrictEqual((yield* store.listCheckpoints(app, stream))[0]?.position, Option.some(after("501")))
    }))

  it.scopedLive("neither takes its members for ours nor removes them, and learns of one under the same id", () =>
    Effect.gen(function*() {
      const { rows, store } = yield* setup()
      const goMember = { pk: { S: `client#${app}` }, sk: { S: "go" }, last_update: { S: lastUpdate } }
      yield* rows.put(goMember)
      yield* store.registerMember(app, memberOf("ours"))
      assert.deepStrictEqual(yield* store.listMembers(app), [memberOf("ours")])
      // The index of Go's tables is keyed by this attribute, and takes text only.
      assert.match((yield* rows.get(`client#${app}`, "ours"))?.["last_update"]?.S ?? "", isoUtc)
      yield* store.deregisterMember(app, { memberId: "go", incarnation: "1" })
      yield* store.pruneMembers(app, [memberOf("go")])
      assert.deepStrictEqual(yield* rows.get(`client#${app}`, "go"), goMember)
      assert.strictEqual((yield* Effect.flip(store.heartbeat(app, memberOf("go"))))._tag, "MemberReplaced")
    }))

  it.scopedLive("does not count its shard cache, and keeps it readable", () =>
    Effect.gen(function*() {
      const { rows, store } = yield* setup()
      const cachePk = `shard_cache#${app}`
      yield* rows.put({
        pk: { S: cachePk },
        sk: { S: stream },
        shards: { L: [{ M: { ID: { S: "old" }, Closed: { BOOL: false } } }] }
      })
      assert.isTrue(Option.isNone(yield* store.getShards(app, stream)))
      assert.strictEqual((yield* store.listShardVersions(app)).size, 0)
      const [open, closed] = listOf(1, ["a", "b"]).shards
      if (open === undefined || closed === undefined) return assert.fail("two shards")
      assert.isTrue(
        yield* store.updateShards(app, stream, { ...listOf(1, []), shards: [open, { ...closed, closed: true }] })
      )
      assert.deepStrictEqual((yield* rows.get(cachePk, stream))?.["shards"], {
        L: [
          { M: { ID: { S: "a" }, Closed: { BOOL: false } } },
          { M: { ID: { S: "b" }, Closed: { BOOL: true } } }
        ]
      })
    }))
})
