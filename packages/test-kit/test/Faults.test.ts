import { assert, describe, it } from "@effect/vitest"
import { KinesisClient, KinesisError, Position, StateStore, StateStoreError } from "@kinesumer/core"
import { Faults, KinesisFaults, TestKinesis } from "@kinesumer/test-kit"
import { Context, Effect, Exit, Fiber, Layer, Option, TestClock } from "effect"

const app = "app"
const orders: KinesisClient.StreamId = { name: "orders", arn: Option.none() }
const shard0 = "shardId-000000000000"
const shard1 = "shardId-000000000001"

const ownerOf = (memberId: string): StateStore.Owner => ({ memberId, incarnation: `${memberId}-1` })

const memberOf = (memberId: string, heartbeat = 0): StateStore.Member => ({
  ...ownerOf(memberId),
  heartbeat,
  refreshes: 0,
  streams: ["orders"],
  assignVersion: 1
})

const request = (shardId: string): StateStore.LeaseRequest => ({
  stream: "orders",
  shardId,
  takeFrom: Option.none(),
  epochAbove: 0
})

const commitAt = (shardId: string, sequenceNumber: string) => ({
  stream: "orders",
  shardId,
  epoch: 1,
  position: Position.afterSequence(sequenceNumber)
})

/** Members a and b on one store, each behind the faults, and the store as it is. */
const stores = Effect.gen(function*() {
  const faults = yield* Faults.Faults
  const store = yield* StateStore.StateStore
  return { faults, store, a: faults.wrapStateStore(store, "a"), b: faults.wrapStateStore(store, "b") }
})

const withStores = Effect.provide(Layer.merge(Faults.layer, StateStore.layerMemory))

/** A stream of two shards, the first with records 1 to 5, and a client of member a behind the faults. */
const streams = Effect.gen(function*() {
  const faults = yield* Faults.Faults
  const kinesis = yield* TestKinesis.TestKinesis
  const client = faults.wrapKinesis(kinesis.client, "a")
  yield* kinesis.createStream({ name: "orders", shards: 2 })
  yield* Effect.forEach(["1", "2", "3", "4", "5"], (data) => kinesis.putTo({ stream: "orders", shardId: shard0, data }))
  const open = (position = Position.trimHorizon) => client.getShardIterator(orders, shard0, position)
  const get = (iterator: string, limit = 2) => client.getRecords(orders, shard0, { iterator, limit })
  return { faults, kinesis, client, open, get }
})

const withStreams = Effect.provide(Layer.merge(Faults.layer, TestKinesis.layerWith({ limits: false })))

const texts = (page: KinesisClient.GetRecordsResult) =>
  page.records.map((record) => new TextDecoder().decode(record.data)).join("")

const failed = (exit: Exit.Exit<unknown, unknown>): boolean => Exit.isFailure(exit)

describe("which calls", () => {
  it.effect("the third lookup of one member fails", () =>
    Effect.gen(function*() {
      const { a, b, faults } = yield* stores
      const error = new StateStoreError.StateStoreError({ reason: "Throttled", operation: "x", detail: "y" })
      const rule = yield* faults.add({ on: "listCheckpoints", member: "b", nth: 3 }, Faults.fail(error))
      const exits = yield* Effect.replicateEffect(Effect.exit(b.listCheckpoints(app, "orders")), 4)
      yield* Effect.replicateEffect(a.listCheckpoints(app, "orders"), 4)
      assert.deepStrictEqual(exits.map(failed), [false, false, true, false])
      assert.deepStrictEqual(exits[2], Exit.fail(error))
      assert.strictEqual(yield* rule.matched, 4)
      assert.strictEqual(yield* rule.fired, 1)
    }).pipe(withStores))

  it.effect("every second, from the third, so many times, until it is healed", () =>
    Effect.gen(function*() {
      const { a, faults } = yield* stores
      const pattern = (when: Faults.When) =>
        Effect.gen(function*() {
          const rule = yield* faults.add({ on: "listMembers", ...when }, Faults.fail("Unavailable"))
          const exits = yield* Effect.replicateEffect(Effect.exit(a.listMembers(app)), 6)
          yield* rule.heal
          assert.isTrue(Exit.isSuccess(yield* Effect.exit(a.listMembers(app))))
          return exits.map((exit) => failed(exit) ? "x" : ".").join("")
        })
      assert.strictEqual(yield* pattern({}), "xxxxxx")
      assert.strictEqual(yield* pattern({ every: 2 }), ".x.x.x")
      assert.strictEqual(yield* pattern({ from: 3 }), "..xxxx")
      assert.strictEqual(yield* pattern({ times: 2 }), "xx....")
      assert.strictEqual(yield* pattern({ from: 2, every: 2, times: 2 }), ".x.x..")
    }).pipe(withStores))

  it.effect("by app, stream, shard, and the member in the call", () =>
    Effect.gen(function*() {
      const { faults, store } = yield* stores
      const unlabelled = faults.wrapStateStore(store)
      const failsIn = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.map(Effect.exit(effect), failed)
      yield* faults.add({ on: "getShards", app: "other" }, Faults.fail("Unavailable"))
      assert.isTrue(yield* failsIn(unlabelled.getShards("other", "orders")))
      assert.isFalse(yield* failsIn(unlabelled.getShards(app, "orders")))
      yield* faults.add({ on: "listCheckpoints", stream: "orders" }, Faults.fail("Unavailable"))
      assert.isTrue(yield* failsIn(unlabelled.listCheckpoints(app, "orders")))
      assert.isFalse(yield* failsIn(unlabelled.listCheckpoints(app, "payments")))
      yield* faults.add({ on: "acquireLeases", member: "c" }, Faults.fail("Unavailable"))
      assert.isTrue(yield* failsIn(unlabelled.acquireLeases(app, ownerOf("c"), [request(shard0)])))
      assert.isFalse(yield* failsIn(unlabelled.acquireLeases(app, ownerOf("d"), [request(shard0)])))
      yield* faults.add({ on: "releaseLeases", shardId: shard1 }, Faults.fail("Unavailable"))
      const release = (shardIds: ReadonlyArray<string>) =>
        unlabelled.releaseLeases(
          app,
          ownerOf("d"),
          shardIds.map((shardId) => ({ stream: "orders", shardId, epoch: 1 }))
        )
      assert.isTrue(yield* failsIn(release([shard0, shard1])))
      assert.isFalse(yield* failsIn(release([shard0])))
    }).pipe(withStores))

  it.effect("only with actions that fit the operation", () =>
    Effect.gen(function*() {
      const { faults } = yield* stores
      yield* faults.add({ on: "getRecords" }, Faults.fail("ExpiredIterator"))
      yield* faults.add({ on: "commitCheckpoints" }, Faults.failItems("Throttled"))
      // @ts-expect-error a store has no such reason
      yield* faults.add({ on: "listMembers" }, Faults.fail("ExpiredIterator"))
      // @ts-expect-error nothing else fails like this
      yield* faults.add({ on: "listMembers" }, Faults.fail(new StateStoreError.MemberMissing({ app, memberId: "a" })))
      // @ts-expect-error it has no items
      yield* faults.add({ on: "listMembers" }, Faults.failItems("Throttled"))
      // @ts-expect-error it answers a list
      yield* faults.add({ on: "listMembers" }, Faults.rewrite(() => "nobody"))
      // @ts-expect-error another operation's answer
      yield* faults.add({ on: "listShards" }, KinesisFaults.falseEnd)
      // @ts-expect-error not an operation
      const _unknown = faults.add({ on: "listEverything" }, Faults.hang)
      // @ts-expect-error not all of them can fail like this
      yield* faults.addStore({}, Faults.fail("ExpiredToken"))
    }).pipe(withStores))

  it.effect("of several operations at once, counted together", () =>
    Effect.gen(function*() {
      const { a, faults } = yield* stores
      const { client } = yield* streams
      const rule = yield* faults.addStore({ on: ["listMembers", "getShards"], nth: 2 }, Faults.fail("Timeout"))
      yield* a.listMembers(app)
      const error = yield* Effect.flip(a.getShards(app, "orders"))
      assert.deepStrictEqual([error.reason, error.operation], ["Timeout", "getShards"])
      yield* a.listShardVersions(app)
      assert.strictEqual(yield* rule.matched, 2)
      yield* faults.addKinesis({ stream: "orders" }, Faults.fail("AccessDenied"))
      const denied = yield* Effect.flip(client.describeStream(orders))
      assert.deepStrictEqual(
        [denied.reason, denied.operation, denied.stream],
        ["AccessDenied", "describeStream", "orders"]
      )
      assert.strictEqual(yield* client.region, "us-east-1")
      yield* faults.healAll
      yield* client.describeStream(orders)
      yield* a.getShards(app, "orders")
    }).pipe(withStores, withStreams))
})

describe("what happens to them", () => {
  it.effect("fail: with a named reason, and the call does not take effect", () =>
    Effect.gen(function*() {
      const { a, faults, store } = yield* stores
      yield* faults.add({ on: "registerMember" }, Faults.fail("AccessDenied"))
      const error = yield* Effect.flip(a.registerMember(app, memberOf("a")))
      assert.strictEqual(error.reason, "AccessDenied")
      assert.deepStrictEqual(yield* store.listMembers(app), [])
      yield* faults.add({ on: "heartbeat" }, Faults.fail(new StateStoreError.MemberReplaced({ app, memberId: "a" })))
      assert.strictEqual((yield* Effect.flip(a.heartbeat(app, memberOf("a"))))._tag, "MemberReplaced")
    }).pipe(withStores))

  it.effect("fail: with a given KinesisError, and the error names the call otherwise", () =>
    Effect.gen(function*() {
      const { faults, get, open } = yield* streams
      const error = new KinesisError.KinesisError({ reason: "Unknown", operation: "", stream: "", detail: "" })
      yield* faults.add({ on: "getShardIterator", nth: 1 }, Faults.fail(error))
      assert.strictEqual(yield* Effect.flip(open()), error)
      yield* faults.add({ on: "getRecords", shardId: shard0 }, Faults.fail("Throttled"))
      const named = yield* Effect.flip(get(yield* open()))
      assert.deepStrictEqual([named.reason, named.operation, named.shardId], ["Throttled", "getRecords", shard0])
    }).pipe(withStreams))

  it.effect("dropAnswer: takes effect, and fails", () =>
    Effect.gen(function*() {
      const { a, faults, store } = yield* stores
      yield* faults.add({ on: "registerMember" }, Faults.dropAnswer())
      yield* faults.add({ on: "deregisterMember" }, Faults.dropAnswer("Unavailable"))
      assert.strictEqual((yield* Effect.flip(a.registerMember(app, memberOf("a")))).reason, "Timeout")
      assert.strictEqual((yield* store.listMembers(app)).length, 1)
      assert.strictEqual((yield* Effect.flip(a.deregisterMember(app, ownerOf("a")))).reason, "Unavailable")
      assert.strictEqual((yield* store.listMembers(app)).length, 0)
    }).pipe(withStores))

  it.effect("die: with a defect", () =>
    Effect.gen(function*() {
      const { a, faults } = yield* stores
      yield* faults.add({ on: "listMembers" }, Faults.die("boom"))
      assert.deepStrictEqual(yield* Effect.exit(a.listMembers(app)), Exit.die("boom"))
    }).pipe(withStores))

  it.effect("delay: before or after the effect", () =>
    Effect.gen(function*() {
      const { a, faults, store } = yield* stores
      const before = yield* faults.add({ on: "registerMember" }, Faults.delay("1 second"))
      const first = yield* Effect.fork(a.registerMember(app, memberOf("a")))
      yield* TestClock.adjust(999)
      assert.strictEqual((yield* store.listMembers(app)).length, 0)
      yield* TestClock.adjust(1)
      assert.isTrue(Option.isSome(yield* Fiber.poll(first)))
      assert.strictEqual((yield* store.listMembers(app)).length, 1)
      yield* before.heal
      yield* faults.add({ on: "registerMember" }, Faults.delay("1 second", "after"))
      const second = yield* Effect.fork(a.registerMember(app, memberOf("b")))
      yield* TestClock.adjust(999)
      assert.strictEqual((yield* store.listMembers(app)).length, 2)
      assert.isTrue(Option.isNone(yield* Fiber.poll(second)))
      yield* TestClock.adjust(1)
      assert.isTrue(Option.isSome(yield* Fiber.poll(second)))
    }).pipe(withStores))

  it.effect("hang: no answer, before or after the effect, but an interruption ends it", () =>
    Effect.gen(function*() {
      const { a, faults, store } = yield* stores
      for (const [i, action] of [Faults.hang, Faults.hangAfter].entries()) {
        const rule = yield* faults.add({ on: "registerMember" }, action)
        const fiber = yield* Effect.fork(a.registerMember(app, memberOf("a")))
        yield* TestClock.adjust("1 hour")
        assert.isTrue(Option.isNone(yield* Fiber.poll(fiber)))
        assert.strictEqual((yield* store.listMembers(app)).length, i)
        assert.isTrue(Exit.isInterrupted(yield* Fiber.interrupt(fiber)))
        yield* rule.heal
      }
    }).pipe(withStores))

  it.effect("hold: waits until the rule is healed", () =>
    Effect.gen(function*() {
      const { a, faults } = yield* stores
      const rule = yield* faults.add({ on: "listMembers" }, Faults.hold)
      const fiber = yield* Effect.fork(a.listMembers(app))
      yield* TestClock.adjust("1 hour")
      assert.isTrue(Option.isNone(yield* Fiber.poll(fiber)))
      yield* rule.heal
      assert.deepStrictEqual(yield* Fiber.join(fiber), [])
    }).pipe(withStores))

  it.effect("twice: the call runs twice, and the second answer counts", () =>
    Effect.gen(function*() {
      const { a, faults } = yield* stores
      yield* faults.add({ on: "updateShards" }, Faults.twice)
      const list: StateStore.ShardList = {
        version: 1,
        createdAt: 0,
        checkpointKey: "orders",
        start: Position.trimHorizon,
        shards: []
      }
      assert.isFalse(yield* a.updateShards(app, "orders", list), "the first one has won")
      const [call] = yield* faults.callsOf("updateShards")
      assert.strictEqual(call?.applied, 2)
    }).pipe(withStores))

  it.effect("stale: the member sees what it saw before", () =>
    Effect.gen(function*() {
      const { a, b, faults } = yield* stores
      yield* a.registerMember(app, memberOf("a"))
      yield* a.listMembers(app)
      const rule = yield* faults.add({ on: "listMembers" }, Faults.stale)
      yield* a.registerMember(app, memberOf("b"))
      assert.strictEqual((yield* a.listMembers(app)).length, 1)
      assert.strictEqual((yield* a.listMembers(app)).length, 1)
      assert.strictEqual((yield* b.listMembers(app)).length, 2, "b sees it for the first time")
      yield* rule.heal
      assert.strictEqual((yield* a.listMembers(app)).length, 2)
    }).pipe(withStores))

  it.effect("rewrite: the answer, typed by the operation", () =>
    Effect.gen(function*() {
      const { a, faults } = yield* stores
      yield* a.registerMember(app, memberOf("a"))
      yield* faults.add(
        { on: "listMembers" },
        Faults.rewrite((members, { args: [app], previous }) =>
          Option.isNone(previous) ? members : members.map((member) => ({ ...member, memberId: app }))
        )
      )
      assert.deepStrictEqual((yield* a.listMembers(app)).map((member) => member.memberId), ["a"])
      assert.deepStrictEqual((yield* a.listMembers(app)).map((member) => member.memberId), [app])
    }).pipe(withStores))

  it.effect("redirect: another question than the member asked", () =>
    Effect.gen(function*() {
      const { a, faults } = yield* stores
      yield* a.registerMember("other", memberOf("a"))
      yield* faults.add({ on: "listMembers" }, Faults.redirect(() => ["other"]))
      assert.strictEqual((yield* a.listMembers(app)).length, 1)
    }).pipe(withStores))

  it.effect("items: of leases that are asked for, one fails, one is held, and one was granted all the same", () =>
    Effect.gen(function*() {
      const { a, faults, store } = yield* stores
      const rule = yield* faults.add({ on: "acquireLeases", shardId: shard0 }, Faults.failItems("Throttled"))
      const requests = [request(shard0), request(shard1)]
      const tags = Effect.map(
        a.acquireLeases(app, ownerOf("a"), requests),
        (results) => results.map((result) => result._tag)
      )
      assert.deepStrictEqual(yield* tags, ["Failed", "Acquired"])
      assert.deepStrictEqual((yield* store.listCheckpoints(app, "orders")).map((row) => row.shardId), [shard1])
      yield* rule.heal
      const held = yield* faults.add(
        { on: "acquireLeases", nth: 1 },
        Faults.holdItems(ownerOf("z"), { shardIds: [shard1] })
      )
      assert.deepStrictEqual(yield* tags, ["Acquired", "Held"])
      yield* held.heal
      yield* faults.add({ on: "acquireLeases" }, Faults.failItems("Timeout", { applied: true }))
      assert.deepStrictEqual(
        (yield* a.acquireLeases(app, ownerOf("a"), [request("new")])).map((result) => result._tag),
        ["Failed"]
      )
      assert.include((yield* store.listCheckpoints(app, "orders")).map((row) => row.shardId), "new")
    }).pipe(withStores))

  it.effect("items: of commits, one fails or is lost, and the others go on", () =>
    Effect.gen(function*() {
      const { a, faults, store } = yield* stores
      yield* a.acquireLeases(app, ownerOf("a"), [request(shard0), request(shard1)])
      yield* faults.add({ on: "commitCheckpoints", nth: 1 }, Faults.failItems("Timeout", { shardIds: [shard1] }))
      yield* faults.add({ on: "commitCheckpoints", nth: 2 }, Faults.loseItems(ownerOf("z"), { shardIds: [shard0] }))
      const commit = (sequenceNumber: string) =>
        Effect.map(
          a.commitCheckpoints(app, ownerOf("a"), [commitAt(shard0, sequenceNumber), commitAt(shard1, sequenceNumber)]),
          (results) => results.map((result) => result._tag)
        )
      assert.deepStrictEqual(yield* commit("10"), ["Committed", "Failed"])
      assert.deepStrictEqual(yield* commit("20"), ["Lost", "Committed"])
      const rows = yield* store.listCheckpoints(app, "orders")
      assert.deepStrictEqual(
        new Map(rows.map((row) => [row.shardId, Option.getOrNull(row.position)])),
        new Map([[shard0, Position.afterSequence("10")], [shard1, Position.afterSequence("20")]])
      )
    }).pipe(withStores))

  it.effect("several at once: the first one stands nearest to the member", () =>
    Effect.gen(function*() {
      const { a, faults } = yield* stores
      yield* faults.add({ on: "listMembers" }, Faults.delay("1 second"))
      const inner = yield* faults.add({ on: "listMembers" }, Faults.fail("Timeout"))
      const never = yield* faults.add({ on: "listMembers" }, Faults.die("not reached"))
      const fiber = yield* Effect.fork(Effect.exit(a.listMembers(app)))
      yield* TestClock.adjust(999)
      assert.isTrue(Option.isNone(yield* Fiber.poll(fiber)))
      yield* TestClock.adjust(1)
      assert.isTrue(failed(yield* Fiber.join(fiber)))
      assert.strictEqual(yield* inner.fired, 1)
      assert.strictEqual(yield* never.fired, 1, "counted, although it was not reached")
    }).pipe(withStores))

  it.effect("partition: one member is cut off from the store until it is healed", () =>
    Effect.gen(function*() {
      const { a, b, faults } = yield* stores
      const rule = yield* faults.partition("b")
      yield* a.listMembers(app)
      assert.strictEqual((yield* Effect.flip(b.listMembers(app))).reason, "Unavailable")
      assert.isTrue(failed(yield* Effect.exit(b.heartbeat(app, memberOf("b")))))
      yield* rule.heal
      yield* b.listMembers(app)
      const held = yield* faults.partition("b", "hold")
      const fiber = yield* Effect.fork(b.registerMember(app, memberOf("b")))
      yield* TestClock.adjust("1 minute")
      assert.strictEqual((yield* a.listMembers(app)).length, 0)
      yield* held.heal
      yield* Fiber.join(fiber)
      assert.strictEqual((yield* a.listMembers(app)).length, 1)
    }).pipe(withStores))
})

describe("faulty Kinesises", () => {
  it.effect("end where there is no end", () =>
    Effect.gen(function*() {
      const { faults, get, open } = yield* streams
      yield* faults.add({ on: "getRecords", nth: 1 }, KinesisFaults.falseEnd)
      const page = yield* get(yield* open())
      assert.deepStrictEqual([texts(page), page.nextIterator], ["12", Option.none()])
    }).pipe(withStreams))

  it.effect("name no children, or say nothing of the lag", () =>
    Effect.gen(function*() {
      const { faults, get, kinesis, open } = yield* streams
      yield* kinesis.split("orders", shard0)
      const iterator = yield* open()
      assert.strictEqual((yield* get(iterator, 10)).childShards.length, 2)
      yield* faults.add({ on: "getRecords" }, KinesisFaults.noChildren)
      yield* faults.add({ on: "getRecords" }, KinesisFaults.noLag)
      const page = yield* get(iterator, 10)
      assert.deepStrictEqual([page.childShards, page.millisBehindLatest], [[], Option.none()])
    }).pipe(withStreams))

  it.effect("give empty pages, also at the end", () =>
    Effect.gen(function*() {
      const { faults, get, kinesis, open } = yield* streams
      yield* kinesis.split("orders", shard0)
      yield* faults.add({ on: "getRecords", times: 3 }, KinesisFaults.emptyPage)
      let iterator = Option.some(yield* open())
      const pages: Array<string> = []
      while (Option.isSome(iterator)) {
        const page = yield* get(iterator.value, 5)
        pages.push(texts(page))
        iterator = page.nextIterator
      }
      assert.deepStrictEqual(pages, ["", "", "", "12345"])
    }).pipe(withStreams))

  it.effect("repeat records, whole pages, or the record that was read last, or turn a page round", () =>
    Effect.gen(function*() {
      const { faults, get, kinesis, open } = yield* streams
      const records = yield* kinesis.records("orders", shard0)
      const pagesWith = (rule: Effect.Effect<Faults.Rule>) =>
        Effect.gen(function*() {
          const { heal } = yield* rule
          const pages: Array<string> = []
          let iterator = yield* open(Position.afterSequence(records[0]?.sequenceNumber ?? ""))
          for (let i = 0; i < 4; i++) {
            const page = yield* get(iterator)
            pages.push(texts(page))
            iterator = yield* page.nextIterator
          }
          yield* heal
          return pages
        })
      assert.deepStrictEqual(
        yield* pagesWith(faults.add({ on: "getRecords", nth: 2 }, KinesisFaults.repeatRecords(1))),
        ["23", "345", "", ""]
      )
      assert.deepStrictEqual(
        yield* pagesWith(faults.add({ on: "getRecords", nth: 2 }, Faults.stale)),
        ["23", "23", "45", ""]
      )
      assert.deepStrictEqual(
        yield* pagesWith(faults.add({ on: "getRecords", nth: 1 }, KinesisFaults.reverseRecords)),
        ["32", "45", "", ""]
      )
      assert.deepStrictEqual(
        yield* pagesWith(faults.add({ on: "getRecords", nth: 1 }, KinesisFaults.skipRecords(1))),
        ["3", "45", "", ""]
      )
      assert.deepStrictEqual(
        yield* pagesWith(faults.add({ on: "getShardIterator", nth: 1 }, KinesisFaults.iteratorAtRecord)),
        ["12", "34", "5", ""]
      )
    }).pipe(withStreams))

  it.effect("list shards that are not so, and stale lists page by page", () =>
    Effect.gen(function*() {
      const { client, faults, kinesis } = yield* streams
      yield* kinesis.split("orders", shard0)
      const list = Effect.map(
        client.listShards(orders, Option.none()),
        ({ shards }) => shards.map((shard) => `${shard.shardId.slice(-1)}${shard.closed ? "x" : ""}`)
      )
      assert.deepStrictEqual(yield* list, ["0x", "1", "2", "3"])
      const hidden = yield* faults.add({ on: "listShards" }, KinesisFaults.hideShards(["shardId-000000000003"]))
      yield* faults.add({ on: "listShards" }, KinesisFaults.reopenShards([shard0]))
      assert.deepStrictEqual(yield* list, ["0", "1", "2"])
      yield* hidden.heal
      assert.deepStrictEqual(yield* list, ["0", "1", "2", "3"])
      yield* faults.healAll
      yield* faults.add({ on: "listShards" }, Faults.stale)
      yield* kinesis.split("orders", shard1)
      assert.deepStrictEqual(yield* list, ["0x", "1", "2", "3"])
    }).pipe(withStreams))
})

describe("the log", () => {
  it.effect("has every call with its result, pending ones too", () =>
    Effect.gen(function*() {
      const { a, b, faults } = yield* stores
      yield* a.registerMember(app, memberOf("x"))
      yield* TestClock.adjust(10)
      yield* faults.add({ on: "listMembers", member: "b" }, Faults.fail("Timeout"))
      yield* Effect.exit(b.listMembers(app))
      yield* faults.add({ on: "getShards" }, Faults.delay("5 millis", "after"))
      const fiber = yield* Effect.fork(a.getShards(app, "orders"))
      yield* TestClock.adjust(1)
      const pending = yield* faults.callsOf("getShards")
      assert.deepStrictEqual(pending.map((call) => [call.exit, call.outcome]), [[Option.none(), "pending"]])
      yield* TestClock.adjust(4)
      yield* Fiber.join(fiber)
      assert.deepStrictEqual(pending.map((call) => call.exit), [Option.none()], "what was read does not change")
      assert.deepStrictEqual(
        (yield* faults.calls).map((call) => [
          call.operation,
          call.member,
          call.at,
          Option.getOrNull(call.endedAt),
          call.applied,
          call.faults,
          call.outcome
        ]),
        [
          ["registerMember", "a", 0, 0, 1, 0, "success"],
          ["listMembers", "b", 10, 10, 0, 1, "failure"],
          ["getShards", "a", 10, 15, 1, 1, "success"]
        ]
      )
      const [registered] = yield* faults.callsOf("registerMember", { member: "x" })
      assert.deepStrictEqual(registered?.args, [app, memberOf("x")])
      assert.strictEqual((yield* faults.callsOf("getShards", { stream: "payments" })).length, 0)
      yield* faults.clearCalls
      assert.deepStrictEqual(yield* faults.calls, [])
    }).pipe(withStores))

  it.effect("is one for all members that are wrapped by layers", () =>
    Effect.gen(function*() {
      const shared = yield* Effect.context<Faults.Faults | StateStore.StateStore | KinesisClient.KinesisClient>()
      const member = (name: string) =>
        Layer.build(Layer.merge(Faults.stateStore({ member: name }), Faults.kinesis({ member: name }))).pipe(
          Effect.provide(shared)
        )
      const contexts = yield* Effect.forEach(["a", "b"], member)
      const faults = yield* Faults.Faults
      yield* faults.add({ on: "listMembers", member: "b" }, Faults.fail("Timeout"))
      yield* faults.add({ on: "region", member: "a" }, Faults.fail("Timeout"))
      const exits = yield* Effect.forEach(contexts, (context) =>
        Effect.all([
          Effect.exit(Context.get(context, StateStore.StateStore).listMembers(app)),
          Effect.exit(Context.get(context, KinesisClient.KinesisClient).region)
        ]))
      assert.deepStrictEqual(exits.map((pair) => pair.map(failed)), [[false, true], [true, false]])
      assert.deepStrictEqual(
        (yield* faults.calls).map((call) => [call.member, call.operation]),
        [["a", "listMembers"], ["a", "region"], ["b", "listMembers"], ["b", "region"]]
      )
    }).pipe(withStores, withStreams, Effect.scoped))
})
