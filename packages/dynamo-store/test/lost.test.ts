import { assert, describe, it } from "@effect/vitest"
import * as Position from "@kinesumer/core/Position"
import * as StateStore from "@kinesumer/core/StateStore"
import * as StateStoreContract from "@kinesumer/test-kit/StateStoreContract"
import { Cause, Effect, Option } from "effect"
import { type Call, Fault, type Proxy } from "./utils/proxy.js"
import { after, alice, app, bob, commitOf, listOf, memberOf, request, setup, stream } from "./utils/setup.js"

const isWrite = ({ action }: Call) => /^(Put|Update|Delete)Item$/.test(action)

/** Every write takes effect, and its first answer is lost. */
const loseFirstAnswers = (proxy: Proxy) => {
  const seen = new Set<string>()
  proxy.fault = (call) => {
    if (!isWrite(call) || seen.has(call.body)) return undefined
    seen.add(call.body)
    return Fault.LoseAnswer()
  }
}

describe("when the answer to a write is lost", () => {
  it.scopedLive("a lease is acquired once", () =>
    Effect.gen(function*() {
      const { proxy, store } = yield* setup()
      loseFirstAnswers(proxy)
      const row = (shardId: string, epoch: number) =>
        StateStore.AcquireResult.Acquired({
          checkpoint: { shardId, position: Option.none(), owner: Option.some(bob), epoch }
        })
      assert.deepStrictEqual(yield* store.acquireLeases(app, bob, [request("free")]), [row("free", 1)])
      yield* store.acquireLeases(app, alice, [request("dead")])
      assert.deepStrictEqual(
        yield* store.acquireLeases(app, bob, [request("dead", { takeFrom: alice, epochAbove: 7 })]),
        [row("dead", 8)]
      )
    }))

  it.scopedLive("a lease is renewed once", () =>
    Effect.gen(function*() {
      const { proxy, store } = yield* setup()
      yield* store.acquireLeases(app, alice, [request("s")])
      loseFirstAnswers(proxy)
      const renewed = [
        StateStore.AcquireResult.Acquired({
          checkpoint: { shardId: "s", position: Option.none(), owner: Option.some(alice), epoch: 2 }
        })
      ]
      assert.deepStrictEqual(yield* store.acquireLeases(app, alice, [request("s", { epochAbove: 1 })]), renewed)
      assert.deepStrictEqual(yield* store.acquireLeases(app, alice, [request("s", { epochAbove: 1 })]), renewed)
    }))

  it.scopedLive("a commit and the end of a shard are committed", () =>
    Effect.gen(function*() {
      const { proxy, store } = yield* setup()
      yield* store.acquireLeases(app, alice, [request("s")])
      loseFirstAnswers(proxy)
      for (const position of [after("9"), after("10"), Position.shardEnd]) {
        assert.deepStrictEqual(yield* store.commitCheckpoints(app, alice, [commitOf("s", 1, position)]), [
          { _tag: "Committed" }
        ])
      }
      assert.deepStrictEqual(yield* store.listCheckpoints(app, stream), [
        { shardId: "s", position: Option.some(Position.shardEnd), owner: Option.none(), epoch: 1 }
      ])
    }))

  it.scopedLive("the end of a shard is no longer ours once somebody else has the lease", () =>
    Effect.gen(function*() {
      const { proxy, store } = yield* setup()
      yield* store.acquireLeases(app, alice, [request("s")])
      yield* store.commitCheckpoints(app, alice, [commitOf("s", 1, Position.shardEnd)])
      yield* store.acquireLeases(app, bob, [request("s")])
      loseFirstAnswers(proxy)
      const [answer] = yield* store.commitCheckpoints(app, alice, [commitOf("s", 1, Position.shardEnd)])
      assert.strictEqual(answer?._tag, "Lost")
    }))

  it.scopedLive("a shard list is ours", () =>
    Effect.gen(function*() {
      const { proxy, rows, store } = yield* setup()
      loseFirstAnswers(proxy)
      assert.isTrue(yield* store.updateShards(app, stream, listOf(1, ["a"])))
      assert.isTrue(yield* store.updateShards(app, stream, listOf(2, ["b"])))
      assert.deepStrictEqual(yield* store.getShards(app, stream), Option.some(listOf(2, ["b"])))
      assert.strictEqual((yield* rows.keys(`shard_chunk#${app}#${stream}`)).length, 1)
    }))

  it.scopedLive("a row that was removed is told", () =>
    Effect.gen(function*() {
      const { proxy, store } = yield* setup()
      yield* store.acquireLeases(app, alice, [request("s")])
      yield* store.commitCheckpoints(app, alice, [commitOf("s", 1, after("7"))])
      yield* store.releaseLeases(app, alice, [{ stream, shardId: "s", epoch: 1 }])
      loseFirstAnswers(proxy)
      const row = { shardId: "s", position: Option.some(after("7")), owner: Option.none(), epoch: 1 }
      assert.deepStrictEqual(yield* store.removeCheckpoints(app, stream, ["s"]), [row])
      assert.deepStrictEqual(yield* store.removeCheckpoints(app, stream, ["s"]), [])
    }))

  it.scopedLive("rows that were removed are told, whatever befalls the others", () =>
    Effect.gen(function*() {
      const { proxy, store } = yield* setup()
      for (const shardId of ["a", "b"]) {
        yield* store.acquireLeases(app, alice, [request(shardId)])
        yield* store.releaseLeases(app, alice, [{ stream, shardId, epoch: 1 }])
      }
      const refusal = { __type: "com.amazonaws.dynamodb.v20120810#ValidationException", message: "by the test" }
      proxy.fault = ({ action, body }) =>
        action === "DeleteItem" && body.includes("\"b\"") ? Fault.Answer({ status: 400, body: refusal }) : undefined
      assert.deepStrictEqual((yield* store.removeCheckpoints(app, stream, ["b", "a"])).map((row) => row.shardId), ["a"])
      const error = yield* Effect.flip(store.removeCheckpoints(app, stream, ["b"]))
      assert.strictEqual(error.reason, "Unknown")
      proxy.fault = () => undefined
      assert.deepStrictEqual((yield* store.removeCheckpoints(app, stream, ["b"])).map((row) => row.shardId), ["b"])
    }))

  it.scopedLive("members come and go all the same", () =>
    Effect.gen(function*() {
      const { proxy, store } = yield* setup()
      loseFirstAnswers(proxy)
      yield* store.registerMember(app, memberOf("a"))
      yield* store.registerMember(app, memberOf("b"))
      yield* store.heartbeat(app, memberOf("a", 1))
      yield* store.pruneMembers(app, [memberOf("b")])
      assert.deepStrictEqual(yield* store.listMembers(app), [memberOf("a", 1)])
      yield* store.deregisterMember(app, alice)
      yield* store.deregisterMember(app, memberOf("a"))
      assert.deepStrictEqual(yield* store.listMembers(app), [])
    }))

  it.scopedLive("the contract holds", () =>
    Effect.gen(function*() {
      const { proxy, store } = yield* setup({ requestTimeout: "1 minute" })
      loseFirstAnswers(proxy)
      // Of removals at the same time, all of them without an answer, nobody can tell which one it was: each says so.
      const cases = StateStoreContract.cases({ shards: 20, members: 10 })
        .filter(({ name }) => name !== "returns a removed row to one of many that remove it")
      yield* Effect.forEach(
        cases,
        ({ name, program }) =>
          Effect.provideService(program, StateStore.StateStore, store).pipe(
            Effect.catchAllCause((cause) => Effect.dieMessage(`${name}: ${Cause.pretty(cause)}`))
          ),
        { concurrency: 5, discard: true }
      )
    }), 120_000)
})

describe("when a refusal brings the row along, as DynamoDB does", () => {
  it.scopedLive("it is not read again", () =>
    Effect.gen(function*() {
      const { proxy, rows, store } = yield* setup()
      yield* store.acquireLeases(app, alice, [request("s")])
      const row = yield* rows.get(`check_point#${app}#${stream}`, "s")
      proxy.calls.length = 0
      proxy.fault = () =>
        Fault.Change({
          change: (answer) =>
            String(answer["__type"]).endsWith("ConditionalCheckFailedException")
              ? { ...answer, Item: row }
              : answer
        })
      const [answer] = yield* store.acquireLeases(app, bob, [request("s")])
      assert.deepStrictEqual(answer, {
        _tag: "Held",
        checkpoint: { shardId: "s", position: Option.none(), owner: Option.some(alice), epoch: 1 }
      })
      assert.deepStrictEqual(proxy.calls.map((call) => call.action), ["UpdateItem"])
      assert.include(proxy.calls[0]?.body, "\"ReturnValuesOnConditionCheckFailure\":\"ALL_OLD\"")
    }))
})
