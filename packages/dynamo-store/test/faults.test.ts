import { assert, describe, it } from "@effect/vitest"
import { Array as Arr, Duration, Effect, Fiber, Metric, MetricState, Option, TestClock, TestServices } from "effect"
import { exception, Fault } from "./utils/proxy.js"
import { after, alice, app, commitOf, listOf, memberOf, request, setup, stream, tableName } from "./utils/setup.js"

const retriesOf = (operation: string) =>
  Effect.map(
    Metric.snapshot,
    (pairs) =>
      pairs.flatMap(({ metricKey, metricState }) =>
        metricKey.name === "kinesumer_dynamo_retries_total" &&
          metricKey.tags.some(({ key, value }) => key === "operation" && value === operation) &&
          MetricState.isCounterState(metricState)
          ? [Number(metricState.count)]
          : []
      ).reduce((sum, count) => sum + count, 0)
  )

const waitUntil = (condition: () => boolean) =>
  Effect.repeat(Effect.sleep("5 millis"), { until: condition }).pipe(Effect.timeout("10 seconds"))

const passing = [
  ["ProvisionedThroughputExceededException", exception("ProvisionedThroughputExceededException"), "Throttled"],
  ["ThrottlingException", exception("ThrottlingException"), "Throttled"],
  ["RequestLimitExceeded", exception("RequestLimitExceeded"), "Throttled"],
  ["InternalServerError", exception("InternalServerError", 500), "Unavailable"],
  ["an answer of 503 without a name", Fault.Answer({ status: 503, body: {} }), "Unavailable"],
  ["ExpiredTokenException", exception("ExpiredTokenException"), "Unavailable"],
  ["a broken connection", Fault.LoseRequest(), "Unavailable"]
] as const

describe("passing faults", () => {
  for (const [name, fault, reason] of passing) {
    it.scopedLive(`${name}: tries again, and counts it`, () =>
      Effect.gen(function*() {
        const { proxy, store } = yield* setup()
        const before = yield* retriesOf("registerMember")
        proxy.fault = ({ index }) => index < 2 ? fault : undefined
        yield* store.registerMember(app, memberOf("a"))
        assert.strictEqual(proxy.calls.length, 3)
        assert.strictEqual((yield* retriesOf("registerMember")) - before, 2)
        assert.deepStrictEqual(yield* store.listMembers(app), [memberOf("a")])
      }))

    it.scopedLive(`${name}: gives up as ${reason}`, () =>
      Effect.gen(function*() {
        const { proxy, store } = yield* setup({ requestTimeout: "1 minute" })
        proxy.fault = () => fault
        const error = yield* Effect.flip(store.listCheckpoints(app, stream))
        assert.strictEqual(error.reason, reason)
        assert.strictEqual(error.operation, "listCheckpoints")
        assert.include(error.message, `"${tableName}"`)
        assert.include(error.message, proxy.endpoint)
        assert.strictEqual(proxy.calls.length, 5)
      }))
  }

  it.scopedLive("no answer in time: tries again, and gives up as Timeout within seconds", () =>
    Effect.gen(function*() {
      const { proxy, store } = yield* setup({ requestTimeout: "100 millis" })
      proxy.fault = ({ index }) => index < 1 ? Fault.Hang() : undefined
      yield* store.registerMember(app, memberOf("a"))
      proxy.fault = () => Fault.Hang()
      const error = yield* Effect.flip(store.heartbeat(app, memberOf("a", 1)))
      assert.strictEqual(error._tag === "StateStoreError" ? error.reason : error._tag, "Timeout")
      assert.include(error.message, "100ms")
      yield* waitUntil(() => proxy.aborted === 6)
    }))

  it.scoped("starts no try after 5 seconds", () =>
    Effect.gen(function*() {
      const { proxy, store } = yield* TestServices.provideLive(setup({ requestTimeout: "3 seconds" }))
      proxy.fault = () => Fault.Hang()
      const fiber = yield* Effect.fork(Effect.flip(store.listMembers(app)))
      for (const tries of [1, 2]) {
        yield* TestServices.provideLive(waitUntil(() => proxy.calls.length === tries))
        yield* TestClock.adjust("3 seconds")
        yield* TestServices.provideLive(waitUntil(() => proxy.aborted === tries))
        // The longest pause before the second try.
        yield* TestClock.adjust("100 millis")
      }
      assert.strictEqual((yield* Fiber.join(fiber)).reason, "Timeout")
      assert.strictEqual(proxy.calls.length, 2)
    }))

  it.scopedLive("waits longer each time, but never all alike", () =>
    Effect.gen(function*() {
      const { proxy, store } = yield* setup()
      proxy.fault = () => exception("ThrottlingException")
      const times = yield* Effect.forEach(
        Arr.range(1, 8),
        () => Effect.timed(Effect.flip(store.listMembers(app))),
        { concurrency: "unbounded" }
      )
      const millis = times.map(([duration]) => Duration.toMillis(duration))
      assert.isAbove(Math.max(...millis) - Math.min(...millis), 50)
    }))
})

describe("faults that do not pass", () => {
  it.scopedLive("are not tried again", () =>
    Effect.gen(function*() {
      const { proxy, store } = yield* setup()
      const reasons = {
        AccessDeniedException: "AccessDenied",
        UnrecognizedClientException: "AccessDenied",
        ResourceNotFoundException: "TableMissing",
        ValidationException: "Unknown"
      }
      for (const [name, reason] of Object.entries(reasons)) {
        proxy.calls.length = 0
        proxy.fault = () => exception(name)
        const error = yield* Effect.flip(store.listMembers(app))
        assert.strictEqual(error.reason, reason)
        assert.include(error.message, name)
        assert.strictEqual(proxy.calls.length, 1)
      }
    }))

  it.scopedLive("AccessDenied names the permissions", () =>
    Effect.gen(function*() {
      const { proxy, store } = yield* setup()
      proxy.fault = () => exception("AccessDeniedException")
      const { message } = yield* Effect.flip(store.listMembers(app))
      for (const action of ["DescribeTable", "GetItem", "Query", "PutItem", "UpdateItem", "DeleteItem"]) {
        assert.include(message, action)
      }
    }))
})

describe("many writes", () => {
  it.scopedLive("one that fails is its own failure, and the others stand", () =>
    Effect.gen(function*() {
      const { proxy, store } = yield* setup()
      const isBad = (body: string) => body.includes("\"bad\"")
      proxy.fault = ({ body }) => isBad(body) ? exception("ValidationException") : undefined
      const shardIds = ["a", "bad", "b"]
      const acquired = yield* store.acquireLeases(app, alice, shardIds.map((shardId) => request(shardId)))
      assert.deepStrictEqual(acquired.map(({ _tag }) => _tag), ["Acquired", "Failed", "Acquired"])
      const committed = yield* store.commitCheckpoints(
        app,
        alice,
        shardIds.map((shardId) => commitOf(shardId, 1, after("7")))
      )
      assert.deepStrictEqual(committed.map(({ _tag }) => _tag), ["Committed", "Failed", "Committed"])
      const leases = shardIds.map((shardId) => ({ stream, shardId, epoch: 1 }))
      assert.strictEqual((yield* Effect.flip(store.releaseLeases(app, alice, leases))).reason, "Unknown")
      const rows = yield* store.listCheckpoints(app, stream)
      assert.deepStrictEqual(rows.map(({ owner, shardId }) => [shardId, owner._tag]), [["a", "None"], ["b", "None"]])
    }))

  it.scopedLive("know an outage after the first of them", () =>
    Effect.gen(function*() {
      const { proxy, store } = yield* setup({ requestTimeout: "1 minute" })
      proxy.fault = () => Fault.LoseRequest()
      const requests = Arr.makeBy(500, (index) => request(`${index}`))
      const answers = yield* store.acquireLeases(app, alice, requests)
      assert.strictEqual(answers.length, 500)
      assert.isTrue(answers.every(({ _tag }) => _tag === "Failed"))
      assert.isAtMost(proxy.calls.length, 16 * 5)
    }))

  it.scopedLive("run side by side, but not all at once", () =>
    Effect.gen(function*() {
      const { proxy, store } = yield* setup()
      proxy.fault = () => Fault.Hang()
      const requests = Arr.makeBy(100, (index) => request(`${index}`))
      const fiber = yield* Effect.fork(store.acquireLeases(app, alice, requests))
      yield* waitUntil(() => proxy.calls.length >= 16)
      yield* Effect.sleep("50 millis")
      assert.strictEqual(proxy.calls.length, 16)
      yield* Fiber.interrupt(fiber)
      yield* waitUntil(() => proxy.aborted === 16)
    }))
})

describe("interruption", () => {
  it.scopedLive("gives the request up at once", () =>
    Effect.gen(function*() {
      const { proxy, store } = yield* setup()
      proxy.fault = () => Fault.Hang()
      const fiber = yield* Effect.fork(store.listMembers(app))
      yield* waitUntil(() => proxy.calls.length === 1)
      yield* Fiber.interrupt(fiber)
      yield* waitUntil(() => proxy.aborted === 1)
      assert.strictEqual(proxy.calls.length, 1)
    }))
})

describe("shard lists", () => {
  it.scopedLive("a write that dies before the flip changes nothing, and is tidied by the next one", () =>
    Effect.gen(function*() {
      const { proxy, rows, store } = yield* setup()
      assert.isTrue(yield* store.updateShards(app, stream, listOf(1, ["a"])))
      proxy.fault = ({ body }) => body.includes("write_key") ? exception("ValidationException") : undefined
      yield* Effect.flip(store.updateShards(app, stream, listOf(2, ["dead"])))
      proxy.fault = () => undefined
      assert.deepStrictEqual(yield* store.listShardVersions(app), new Map([[stream, 1]]))
      assert.isTrue(yield* store.updateShards(app, stream, listOf(2, ["b"])))
      assert.isTrue(yield* store.updateShards(app, stream, listOf(3, ["c"])))
      assert.strictEqual((yield* rows.keys(`shard_chunk#${app}#${stream}`)).length, 1)
    }))

  it.scopedLive("a writer that comes second leaves no chunk behind", () =>
    Effect.gen(function*() {
      const { rows, store } = yield* setup()
      assert.isTrue(yield* store.updateShards(app, stream, listOf(1, ["a"])))
      assert.isFalse(yield* store.updateShards(app, stream, listOf(1, ["b"])))
      assert.isFalse(yield* store.updateShards(app, stream, listOf(9, ["b"])))
      assert.strictEqual((yield* rows.keys(`shard_chunk#${app}#${stream}`)).length, 1)
    }))

  it.scopedLive("tidying that fails is no failure of the write", () =>
    Effect.gen(function*() {
      const { proxy, store } = yield* setup()
      assert.isTrue(yield* store.updateShards(app, stream, listOf(1, ["a"])))
      proxy.fault = ({ action }) => action === "DeleteItem" ? exception("AccessDeniedException") : undefined
      assert.isTrue(yield* store.updateShards(app, stream, listOf(2, ["b"])))
    }))

  it.scopedLive("a reader that finds its chunks gone asks the head again", () =>
    Effect.gen(function*() {
      const { proxy, store } = yield* setup()
      assert.isTrue(yield* store.updateShards(app, stream, listOf(1, ["a"])))
      let goOn = () => {}
      const until = new Promise<void>((resolve) => {
        goOn = resolve
      })
      let held = false
      proxy.fault = ({ action }) => {
        if (held || action !== "Query") return undefined
        held = true
        return Fault.Hold({ until })
      }
      const reader = yield* Effect.fork(store.getShards(app, stream))
      yield* waitUntil(() => held)
      // The reader has the head of version 1, and its chunks are removed now.
      assert.isTrue(yield* store.updateShards(app, stream, listOf(2, ["b"])))
      goOn()
      assert.deepStrictEqual(yield* Fiber.join(reader), Option.some(listOf(2, ["b"])))
    }))
})
