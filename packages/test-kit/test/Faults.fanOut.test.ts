import { assert, describe, it, vi } from "@effect/vitest"
// That of `assert` takes `some` and `none` for equal.
import { deepStrictEqual } from "@effect/vitest/utils"
import { KinesisClient, KinesisError, Position } from "@kinesumer/core"
import { Faults, TestKinesis } from "@kinesumer/test-kit"
import { Cause, Effect, Exit, Fiber, Layer, Option, Stream, TestClock } from "effect"

const orders: KinesisClient.StreamId = { name: "orders", arn: Option.none() }
const shard0 = "shardId-000000000000"
const shard1 = "shardId-000000000001"

/** A stream of two shards with a consumer, and a client of member a behind the faults. */
const setUp = Effect.gen(function*() {
  const faults = yield* Faults.Faults
  const kinesis = yield* TestKinesis.TestKinesis
  const client = faults.wrapKinesis(kinesis.client, "a")
  const { arn } = yield* kinesis.createStream({ name: "orders", shards: 2 })
  const consumer = yield* kinesis.client.registerConsumer(arn, "reader")
  const put = (data: string, shardId = shard0) => kinesis.putTo({ stream: "orders", shardId, data })
  const subscribe = (shardId = shard0, position: Position.Position = Position.trimHorizon) =>
    client.subscribeToShard(orders, shardId, { consumerArn: consumer.arn, position })
  return { faults, kinesis, client, arn, consumer, put, subscribe }
})

const provided = Effect.provide(Layer.merge(Faults.layer, TestKinesis.layerWith({ limits: false })))

const textOf = ({ records }: KinesisClient.SubscriptionEvent) =>
  records.map(({ data }) => new TextDecoder().decode(data)).join("")

/** Runs a subscription, and keeps what it tells. */
const watch = (stream: Stream.Stream<KinesisClient.SubscriptionEvent, KinesisError.KinesisError>) =>
  Effect.gen(function*() {
    const texts: Array<string> = []
    const fiber = yield* Effect.forkScoped(
      Stream.runForEach(stream, (event) => Effect.sync(() => texts.push(textOf(event))))
    )
    const settled = TestClock.adjust(0)
    return {
      texts: Effect.as(settled, texts),
      interrupt: Fiber.interrupt(fiber),
      /** `going`, `ended`, or why it failed. */
      state: Effect.map(Effect.zipRight(settled, Fiber.poll(fiber)), (exit) =>
        Option.match(exit, {
          onNone: () => "going",
          onSome: Exit.match({
            onSuccess: () => "ended",
            onFailure: (cause) =>
              Option.match(Cause.failureOption(cause), {
                onNone: () => "defect",
                onSome: ({ reason }) => reason
              })
          })
        }))
    }
  })

describe("at the moment of subscribing", () => {
  it.scoped("it fails, and does not reach Kinesis", () =>
    Effect.gen(function*() {
      const { consumer, faults, kinesis, put, subscribe } = yield* setUp
      yield* put("a")
      const rule = yield* faults.add({ on: "subscribeToShard", shardId: shard0, nth: 1 }, Faults.fail("Throttled"))
      const run = Effect.flip(Stream.runDrain(subscribe()))
      const error = yield* run
      deepStrictEqual([error.reason, error.operation, error.stream, error.shardId], [
        "Throttled",
        "subscribeToShard",
        "orders",
        shard0
      ])
      deepStrictEqual(yield* kinesis.callsOf("subscribeToShard"), [])
      const one = yield* watch(subscribe())
      deepStrictEqual(yield* one.texts, ["a"], "each run of the stream is a call")
      const other = yield* watch(subscribe(shard1))
      assert.strictEqual(yield* other.state, "going")
      assert.strictEqual(yield* rule.matched, 2)
      assert.strictEqual(yield* rule.fired, 1)
      const calls = yield* faults.callsOf("subscribeToShard", { shardId: shard0 })
      deepStrictEqual(
        calls.map(({ applied, events, faults, member, outcome }) => ({ applied, events, faults, member, outcome })),
        [
          { applied: 0, events: 0, faults: 1, member: "a", outcome: "failure" },
          { applied: 1, events: 1, faults: 0, member: "a", outcome: "pending" }
        ]
      )
      deepStrictEqual(calls[0]?.args, [
        orders,
        shard0,
        { consumerArn: consumer.arn, position: Position.trimHorizon }
      ])
    }).pipe(provided))

  it.scoped("it comes later, hangs, waits until it is healed, or dies", () =>
    Effect.gen(function*() {
      const { faults, kinesis, put, subscribe } = yield* setUp
      yield* put("a")
      const delay = yield* faults.add({ on: "subscribeToShard" }, Faults.delay("2 seconds"))
      const late = yield* watch(subscribe())
      yield* TestClock.adjust(1_999)
      deepStrictEqual(yield* late.texts, [])
      deepStrictEqual(yield* kinesis.callsOf("subscribeToShard"), [])
      yield* TestClock.adjust(1)
      deepStrictEqual(yield* late.texts, ["a"])
      yield* late.interrupt
      yield* delay.heal
      yield* TestClock.adjust("5 seconds")

      const hang = yield* faults.add({ on: "subscribeToShard" }, Faults.hang)
      const stuck = yield* watch(subscribe())
      yield* TestClock.adjust("1 hour")
      assert.strictEqual(yield* stuck.state, "going")
      yield* stuck.interrupt
      yield* hang.heal

      const hold = yield* faults.add({ on: "subscribeToShard" }, Faults.hold)
      const held = yield* watch(subscribe())
      yield* TestClock.adjust("1 hour")
      deepStrictEqual(yield* held.texts, [])
      yield* hold.heal
      deepStrictEqual(yield* held.texts, ["a"])
      yield* held.interrupt

      yield* faults.add({ on: "subscribeToShard" }, Faults.die("broken"))
      const dead = yield* watch(subscribe())
      assert.strictEqual(yield* dead.state, "defect")
      const calls = yield* faults.callsOf("subscribeToShard")
      deepStrictEqual(calls.map(({ outcome }) => outcome), ["interrupted", "interrupted", "interrupted", "failure"])
      assert.lengthOf(yield* kinesis.callsOf("subscribeToShard"), 2)
    }).pipe(provided))

  it.scoped("it takes effect, and its answer is lost or never comes", () =>
    Effect.gen(function*() {
      const { faults, kinesis, put, subscribe } = yield* setUp
      yield* put("a")
      const drop = yield* faults.add({ on: "subscribeToShard" }, Faults.dropAnswer("Unavailable"))
      const lost = yield* watch(subscribe())
      assert.strictEqual(yield* lost.state, "Unavailable")
      deepStrictEqual(yield* kinesis.subscriptions(), [], "what is lost is not left open")
      yield* drop.heal
      const again = yield* watch(subscribe())
      assert.strictEqual(yield* again.state, "ResourceInUse")
      yield* TestClock.adjust("5 seconds")
      yield* faults.add({ on: "subscribeToShard" }, Faults.hangAfter)
      const silent = yield* watch(subscribe())
      yield* TestClock.adjust("1 minute")
      deepStrictEqual(yield* silent.texts, [])
      assert.lengthOf(yield* kinesis.subscriptions(), 1)
      yield* silent.interrupt
      deepStrictEqual(yield* kinesis.subscriptions(), [])
    }).pipe(provided))

  it.scoped("it is made twice, is asked for something else, and is never stale", () =>
    Effect.gen(function*() {
      const { faults, kinesis, put, subscribe } = yield* setUp
      yield* put("a")
      yield* put("b", shard1)
      const twice = yield* faults.add({ on: "subscribeToShard" }, Faults.twice)
      const second = yield* watch(subscribe())
      assert.strictEqual(yield* second.state, "ResourceInUse")
      deepStrictEqual((yield* faults.callsOf("subscribeToShard")).map(({ applied }) => applied), [2])
      yield* twice.heal
      yield* TestClock.adjust("5 seconds")
      const redirect = yield* faults.add(
        { on: "subscribeToShard" },
        Faults.redirect<"subscribeToShard">((stream, _, options) => [stream, shard1, options])
      )
      const other = yield* watch(subscribe())
      deepStrictEqual(yield* other.texts, ["b"])
      yield* redirect.heal
      yield* faults.addKinesis({}, Faults.stale)
      const fresh = yield* watch(subscribe())
      deepStrictEqual(yield* fresh.texts, ["a"])
      assert.lengthOf(yield* kinesis.callsOf("subscribeToShard"), 4)
    }).pipe(provided))

  it.scoped("consumers are subject to faults as well", () =>
    Effect.gen(function*() {
      const { arn, client, faults, kinesis } = yield* setUp
      const calls: ReadonlyArray<Effect.Effect<unknown, KinesisError.KinesisError>> = [
        client.registerConsumer(arn, "other"),
        client.describeConsumer(arn, "other"),
        client.listConsumers(arn, Option.none()),
        client.deregisterConsumer(arn, "other")
      ]
      const rule = yield* faults.addKinesis({ stream: arn }, Faults.fail("LimitExceeded"))
      for (const call of calls) {
        const error = yield* Effect.flip(call)
        deepStrictEqual([error.reason, error.stream], ["LimitExceeded", arn])
      }
      yield* rule.heal
      yield* Effect.all(calls)
      deepStrictEqual(
        (yield* faults.calls).map(({ operation, outcome }) => `${operation} ${outcome}`),
        ["failure", "success"].flatMap((outcome) =>
          ["registerConsumer", "describeConsumer", "listConsumers", "deregisterConsumer"].map((operation) =>
            `${operation} ${outcome}`
          )
        )
      )
      assert.lengthOf(yield* kinesis.callsOf("registerConsumer"), 2, "one of them by the test itself")
    }).pipe(provided))
})

describe("inside a subscription", () => {
  /** Three events, one after the other. */
  const three = Effect.gen(function*() {
    const w = yield* setUp
    const put = Effect.forEach(["a", "b", "c"], (text) => Effect.zipLeft(w.put(text), TestClock.adjust(0)))
    return { ...w, put }
  })

  it.scoped("it fails after some events", () =>
    Effect.gen(function*() {
      const { faults, kinesis, put, subscribe } = yield* three
      yield* faults.add({ on: "subscribeToShard", nth: 1 }, Faults.failEvents("ResourceInUse", { after: 2 }))
      const one = yield* watch(subscribe())
      yield* put
      deepStrictEqual(yield* one.texts, ["a", "b"])
      assert.strictEqual(yield* one.state, "ResourceInUse")
      deepStrictEqual(yield* kinesis.subscriptions(), [])
      yield* TestClock.adjust("5 seconds")
      const error = new KinesisError.KinesisError({ reason: "Timeout", operation: "x", stream: "y", detail: "z" })
      yield* faults.add({ on: "subscribeToShard", nth: 1 }, Faults.failEvents(error))
      const two = yield* Effect.flip(Stream.runDrain(subscribe()))
      assert.strictEqual(two, error)
      const [first] = yield* faults.callsOf("subscribeToShard")
      deepStrictEqual([first?.outcome, first?.events, first?.faults], ["failure", 2, 1])
    }).pipe(provided))

  it.scoped("it ends after some events", () =>
    Effect.gen(function*() {
      const { faults, kinesis, put, subscribe } = yield* three
      yield* faults.add({ on: "subscribeToShard", nth: 1 }, Faults.endEvents({ after: 1 }))
      const one = yield* watch(subscribe())
      yield* put
      deepStrictEqual(yield* one.texts, ["a"])
      assert.strictEqual(yield* one.state, "ended")
      deepStrictEqual(yield* kinesis.subscriptions(), [])
      const [call] = yield* faults.callsOf("subscribeToShard")
      deepStrictEqual(call?.exit, Option.some(Exit.succeed(undefined)))
      yield* TestClock.adjust("5 seconds")
      yield* faults.add({ on: "subscribeToShard", nth: 1 }, Faults.endEvents())
      const two = yield* watch(subscribe())
      deepStrictEqual([yield* two.state, yield* two.texts], ["ended", []])
    }).pipe(provided))

  it.scoped("it is silent after some events, and lives on in Kinesis", () =>
    Effect.gen(function*() {
      const { faults, kinesis, put, subscribe } = yield* three
      yield* faults.add({ on: "subscribeToShard" }, Faults.hangEvents({ after: 2 }))
      const one = yield* watch(subscribe())
      yield* put
      yield* TestClock.adjust("1 minute")
      deepStrictEqual(yield* one.texts, ["a", "b"])
      assert.lengthOf(yield* kinesis.subscriptions(), 1)
      yield* TestClock.adjust("10 minutes")
      assert.strictEqual(yield* one.state, "going")
      yield* one.interrupt
      deepStrictEqual(yield* kinesis.subscriptions(), [])
    }).pipe(provided))

  it.scoped("events are dropped, repeated and rewritten, by what came before", () =>
    Effect.gen(function*() {
      const { faults, put, subscribe } = yield* three
      yield* faults.add(
        { on: "subscribeToShard" },
        Faults.rewriteEvents((event, { args: [, shardId], previous }) => {
          assert.strictEqual(shardId, shard0)
          return textOf(event) === "b" ? [] : [...Option.toArray(previous), event]
        })
      )
      yield* faults.add(
        { on: "subscribeToShard" },
        Faults.rewrite<"subscribeToShard">((event, { previous }) => ({
          ...event,
          millisBehindLatest: Option.some(previous._tag === "None" ? 1 : 2)
        }))
      )
      const seen: Array<readonly [string, number | undefined]> = []
      yield* Effect.forkScoped(Stream.runForEach(subscribe(), (event) =>
        Effect.sync(() =>
          seen.push([textOf(event), Option.getOrUndefined(event.millisBehindLatest)])
        )))
      yield* TestClock.adjust(0)
      yield* put
      deepStrictEqual(seen, [["a", 1], ["b", 0], ["c", 2]], "the previous event is the true one")
    }).pipe(provided))

  it.scoped("is logged with the events that the member got, and how it ended", () =>
    Effect.gen(function*() {
      const { faults, put, subscribe } = yield* three
      const left = yield* watch(Stream.take(subscribe(), 1))
      yield* put
      assert.strictEqual(yield* left.state, "ended")
      yield* TestClock.adjust("5 seconds")
      const stopped = yield* watch(subscribe())
      deepStrictEqual(yield* stopped.texts, ["abc"])
      yield* TestClock.adjust("5 seconds")
      yield* stopped.interrupt
      const whole = yield* watch(subscribe())
      yield* TestClock.adjust("5 minutes")
      assert.strictEqual(yield* whole.state, "ended")
      const calls = yield* faults.callsOf("subscribeToShard")
      deepStrictEqual(
        calls.map(({ at, endedAt, events, outcome }) => [at, Option.getOrUndefined(endedAt), events, outcome]),
        [
          [0, 0, 1, "success"],
          [5_000, 10_000, 2, "interrupted"],
          [10_000, 310_000, 60, "success"]
        ]
      )
    }).pipe(provided))

  it.effect("and nowhere else", () =>
    Effect.gen(function*() {
      const { faults } = yield* setUp
      // @ts-expect-error it answers once
      yield* faults.add({ on: "getRecords" }, Faults.failEvents("Timeout"))
      // @ts-expect-error it answers once
      yield* faults.add({ on: "getRecords" }, Faults.rewriteEvents((event) => [event]))
      // @ts-expect-error no such reason
      yield* faults.add({ on: "subscribeToShard" }, Faults.failEvents("Conflict"))
    }).pipe(provided))
})

/** A client that answers with its region, and nothing else. */
const regional = KinesisClient.KinesisClient.of({
  region: Effect.succeed("us-east-1"),
  describeStream: () => Effect.die("not asked for"),
  listShards: () => Effect.die("not asked for"),
  getShardIterator: () => Effect.die("not asked for"),
  getRecords: () => Effect.die("not asked for"),
  registerConsumer: () => Effect.die("not asked for"),
  describeConsumer: () => Effect.die("not asked for"),
  listConsumers: () => Effect.die("not asked for"),
  deregisterConsumer: () => Effect.die("not asked for"),
  subscribeToShard: () => Stream.die("not asked for")
})

describe("by chance", () => {
  const client = Effect.map(Faults.Faults, (faults) => faults.wrapKinesis(regional))

  /** Which of so many calls fail, as a word. */
  const pattern = (when: Faults.When, calls = 40) =>
    Effect.gen(function*() {
      const { region } = yield* client
      const faults = yield* Faults.Faults
      const rule = yield* faults.add({ on: "region", ...when }, Faults.fail("Unavailable"))
      const exits = yield* Effect.replicateEffect(Effect.exit(region), calls)
      yield* rule.heal
      return exits.map((exit) => Exit.isFailure(exit) ? "x" : ".").join("")
    })

  const seeded = (seed: number, when: Faults.When, calls?: number) =>
    Effect.provide(pattern(when, calls), Faults.layerWith({ seed }))

  it.effect("the same seed chooses the same calls, another one chooses others", () =>
    Effect.gen(function*() {
      const first = yield* seeded(1, { chance: 0.5 })
      assert.strictEqual(yield* seeded(1, { chance: 0.5 }), first)
      assert.notStrictEqual(yield* seeded(2, { chance: 0.5 }), first)
      assert.strictEqual(
        yield* Effect.provide(pattern({ chance: 0.5 }), Faults.layer),
        yield* seeded(0, { chance: 0.5 })
      )
    }))

  it.effect("of the given probability, among the calls that the other conditions leave", () =>
    Effect.gen(function*() {
      const count = (word: string) => word.replaceAll(".", "").length
      assert.strictEqual(yield* seeded(1, { chance: 0 }), ".".repeat(40))
      assert.strictEqual(yield* seeded(1, { chance: 1 }), "x".repeat(40))
      const many = count(yield* seeded(1, { chance: 0.2 }, 2_000))
      assert.isAbove(many, 330)
      assert.isBelow(many, 470)
      assert.match(yield* seeded(1, { chance: 0.5, every: 2 }), /^(\.[.x]){20}$/)
      const few = yield* seeded(1, { chance: 0.5, from: 11, times: 3 })
      assert.strictEqual(count(few), 3)
      assert.match(few, /^\.{10}/)
    }))
})

describe("a long run", () => {
  it.effect("keeps no calls where no log is wanted, and counts them all the same", () =>
    Effect.gen(function*() {
      const faults = yield* Faults.Faults
      const { region } = faults.wrapKinesis(regional)
      const rule = yield* faults.add({ on: "region", nth: 3 }, Faults.fail("Unavailable"))
      yield* Effect.replicateEffect(Effect.exit(region), 5)
      deepStrictEqual(yield* faults.calls, [])
      deepStrictEqual(yield* faults.callsOf("region"), [])
      assert.strictEqual(yield* rule.matched, 5)
      assert.strictEqual(yield* rule.fired, 1)
    }).pipe(Effect.provide(Faults.layerWith({ log: false }))))

  it.scoped("hangs without a timer, which would keep the process alive", () =>
    Effect.gen(function*() {
      const { faults, put, subscribe } = yield* setUp
      yield* put("a")
      const timers = yield* Effect.acquireRelease(
        Effect.sync(() => [vi.spyOn(globalThis, "setInterval"), vi.spyOn(globalThis, "setTimeout")] as const),
        (spies) => Effect.sync(() => spies.forEach((spy) => spy.mockRestore()))
      )
      yield* faults.addKinesis({ on: ["region"], nth: 1 }, Faults.hang)
      yield* faults.addKinesis({ on: ["region"], nth: 2 }, Faults.hangAfter)
      yield* faults.add({ on: "subscribeToShard" }, Faults.hangEvents({ after: 1 }))
      const { region } = faults.wrapKinesis(regional)
      yield* Effect.forkScoped(region)
      yield* Effect.forkScoped(region)
      yield* Effect.forkScoped(Stream.runDrain(subscribe()))
      yield* Effect.repeatN(Effect.yieldNow(), 100)
      deepStrictEqual(timers.map((spy) => spy.mock.calls.filter(([, millis]) => Number(millis) > 0)), [[], []])
      deepStrictEqual((yield* faults.calls).map(({ outcome }) => outcome), ["pending", "pending", "pending"])
    }).pipe(provided))
})
