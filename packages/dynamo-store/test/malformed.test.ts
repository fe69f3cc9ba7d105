import type { AttributeValue } from "@aws-sdk/client-dynamodb"
import { assert, describe, it } from "@effect/vitest"
import * as StateStoreError from "@kinesumer/core/StateStoreError"
import { Effect } from "effect"
import { after, alice, app, bob, commitOf, listOf, memberOf, request, setup, stream, tableName } from "./utils/setup.js"

const checkpoints = `check_point#${app}#${stream}`

/** The error names the table, the row and the attribute. */
const isMalformed = (error: unknown, pk: string, sk: string, attribute: string) => {
  if (!(error instanceof StateStoreError.StateStoreError)) return assert.fail(`no StateStoreError: ${String(error)}`)
  assert.strictEqual(error.reason, "MalformedRow")
  for (const part of [tableName, pk, sk, attribute]) assert.include(error.message, `"${part}"`)
}

const wrong: ReadonlyArray<readonly [attribute: string, row: Record<string, AttributeValue>]> = [
  ["sequence_number", { sequence_number: { S: "twelve" } }],
  ["sequence_number", { sequence_number: { S: "012" } }],
  ["sequence_number", { sequence_number: { S: "-1" } }],
  ["sequence_number", { sequence_number: { N: "12" } }],
  ["sequence_number", { position_type: { S: "AFTER_SEQUENCE" } }],
  ["sub_sequence_number", { sequence_number: { S: "1" }, sub_sequence_number: { N: "-1" } }],
  ["sub_sequence_number", { sequence_number: { S: "1" }, sub_sequence_number: { S: "1" } }],
  ["position_type", { position_type: { S: "LATEST" } }],
  ["position_type", { position_type: { BOOL: true } }],
  ["at_timestamp", { position_type: { S: "AT_TIMESTAMP" } }],
  ["at_timestamp", { position_type: { S: "AT_TIMESTAMP" }, at_timestamp: { N: "1e30" } }],
  ["lease_epoch", { lease_epoch: { N: "-1" } }],
  ["lease_epoch", { lease_epoch: { N: "1.5" } }],
  ["lease_epoch", { lease_epoch: { S: "1" } }],
  ["lease_epoch", { lease_epoch: { N: "9007199254740993" } }],
  ["lease_owner", { lease_owner: { N: "1" } }],
  ["lease_incarnation", { lease_owner: { S: "alice" } }],
  ["order_key", { order_key: { N: "1" } }]
]

describe("a malformed row", () => {
  for (const [attribute, row] of wrong) {
    it.scopedLive(`of a shard is told: ${JSON.stringify(row)}`, () =>
      Effect.gen(function*() {
        const { rows, store } = yield* setup()
        yield* rows.put({ pk: { S: checkpoints }, sk: { S: "bad" }, ...row })
        isMalformed(yield* Effect.flip(store.listCheckpoints(app, stream)), checkpoints, "bad", attribute)
        isMalformed(
          yield* Effect.flip(store.removeCheckpoints(app, stream, ["bad"])),
          checkpoints,
          "bad",
          attribute
        )
        const answers = yield* store.acquireLeases(app, bob, [request("bad"), request("good")])
        assert.deepStrictEqual(answers.map(({ _tag }) => _tag), ["Failed", "Acquired"])
        if (answers[0]?._tag === "Failed") isMalformed(answers[0].error, checkpoints, "bad", attribute)
        // Nobody is kept away by a lease that we do not know of.
        assert.notStrictEqual((yield* rows.get(checkpoints, "bad"))?.["lease_owner"]?.S, "bob")
      }))
  }

  it.scopedLive("under a commit fails that commit alone", () =>
    Effect.gen(function*() {
      const { rows, store } = yield* setup()
      yield* store.acquireLeases(app, alice, [request("bad"), request("good")])
      const row = yield* rows.get(checkpoints, "bad")
      yield* rows.put({ ...row, pk: { S: checkpoints }, sk: { S: "bad" }, order_key: { N: "1" } })
      const answers = yield* store.commitCheckpoints(app, alice, [
        commitOf("bad", 1, after("7")),
        commitOf("good", 1, after("7"))
      ])
      assert.deepStrictEqual(answers.map(({ _tag }) => _tag), ["Failed", "Committed"])
      if (answers[0]?._tag === "Failed") isMalformed(answers[0].error, checkpoints, "bad", "order_key")
    }))

  it.scopedLive("of a member is told", () =>
    Effect.gen(function*() {
      const { rows, store } = yield* setup()
      const pk = `client#${app}`
      yield* store.registerMember(app, memberOf("a"))
      const row = { ...(yield* rows.get(pk, "a")), pk: { S: pk }, sk: { S: "a" } }
      const changes: ReadonlyArray<readonly [string, AttributeValue]> = [
        ["incarnation", { N: "1" }],
        ["heartbeat", { S: "1" }],
        ["refreshes", { N: "-1" }],
        ["streams", { S: "orders" }],
        ["streams", { L: [{ S: "orders" }, { N: "1" }] }],
        ["assign_version", { NULL: true }]
      ]
      for (const [attribute, value] of changes) {
        yield* rows.put({ ...row, [attribute]: value })
        isMalformed(yield* Effect.flip(store.listMembers(app)), pk, "a", attribute)
      }
      yield* rows.put({ ...row, incarnation: { N: "1" } })
      isMalformed(yield* Effect.flip(store.heartbeat(app, memberOf("a"))), pk, "a", "incarnation")
    }))

  it.scopedLive("of a shard list is told", () =>
    Effect.gen(function*() {
      const { rows, store } = yield* setup()
      const pk = `shard_list#${app}`
      yield* store.updateShards(app, stream, listOf(1, ["a"]))
      const row = { ...(yield* rows.get(pk, stream)), pk: { S: pk }, sk: { S: stream } }
      const changes: ReadonlyArray<readonly [string, AttributeValue]> = [
        ["version", { N: "0" }],
        ["created_at", { S: "today" }],
        ["checkpoint_key", { N: "1" }],
        ["position_type", { NULL: true }],
        ["write_key", { N: "1" }],
        ["chunks", { N: "-1" }],
        // More than there are, and they do not come.
        ["chunks", { N: "2" }]
      ]
      for (const [attribute, value] of changes) {
        yield* rows.put({ ...row, [attribute]: value })
        isMalformed(yield* Effect.flip(store.getShards(app, stream)), pk, stream, attribute)
      }
      yield* rows.put({ ...row, version: { S: "1" } })
      isMalformed(yield* Effect.flip(store.listShardVersions(app)), pk, stream, "version")
      yield* rows.put(row)
      const chunkPk = `shard_chunk#${app}#${stream}`
      const [sk] = yield* rows.keys(chunkPk)
      if (sk === undefined) return assert.fail("no chunk")
      for (const value of [{ N: "1" }, { S: "[" }, { S: "[{\"shardId\":1}]" }] satisfies Array<AttributeValue>) {
        yield* rows.put({ pk: { S: chunkPk }, sk: { S: sk }, shards: value })
        isMalformed(yield* Effect.flip(store.getShards(app, stream)), chunkPk, sk, "shards")
      }
    }))
})
