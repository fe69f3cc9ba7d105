/** The consumer of a fan-out group at a start, while members come and go, and which stream the calls are about. */
import { assert, describe, it } from "@effect/vitest"
import { Kinesumer, type KinesumerConfig, KinesumerError } from "@kinesumer/core"
import { KinesisClient } from "@kinesumer/core/KinesisClient"
import { KinesisError } from "@kinesumer/core/KinesisError"
import type { TestKinesis } from "@kinesumer/test-kit"
import { Faults } from "@kinesumer/test-kit"
import { Effect, Exit, Fiber, Layer, Option, Scope, TestClock } from "effect"
import { pass, until, world } from "../group/support.js"
import { faulty, type FaultyWorld, seconds } from "./leases-support.js"

const fanOut = { mode: "fanOut", fanOut: { consumerName: "reader" } } satisfies Partial<
  KinesumerConfig.KinesumerOptions
>

/** Streams of one shard, and faults between the members and their services. */
const setUp = (options: TestKinesis.Options = {}, streams: ReadonlyArray<string> = ["orders"]) =>
  Effect.gen(function*() {
    const w: FaultyWorld = { ...(yield* world(options)), faults: yield* Faults.make }
    const created = yield* Effect.forEach(streams, (name) => w.kinesis.createStream({ name }))
    return { w, arns: created.map(({ arn }) => arn) }
  })

const consumersOf = ({ kinesis }: FaultyWorld, streamArn: string) =>
  Effect.map(kinesis.client.listConsumers(streamArn, Option.none()), ({ consumers }) => consumers)

const consumerOf = (w: FaultyWorld, streamArn: string) => w.kinesis.client.describeConsumer(streamArn, "reader")

const membersOf = ({ store }: FaultyWorld) =>
  Effect.map(store.listMembers("app"), (members) => members.map(({ memberId }) => memberId))

/** Starts a member in the background; it is closed with the test. */
const starting = (
  w: FaultyWorld,
  memberId: string,
  options: Partial<KinesumerConfig.KinesumerOptions> = {}
) =>
  Effect.gen(function*() {
    const scope = yield* Effect.acquireRelease(Scope.make(), (scope) => Scope.close(scope, Exit.void))
    return yield* Effect.fork(Scope.extend(faulty(w, memberId, { ...fanOut, ...options }), scope))
  })

const isDone = <A, E>(fiber: Fiber.RuntimeFiber<A, E>) => Effect.map(Fiber.poll(fiber), Option.isSome)

const started = (w: FaultyWorld, memberId: string, options: Partial<KinesumerConfig.KinesumerOptions> = {}) =>
  Effect.gen(function*() {
    const fiber = yield* starting(w, memberId, options)
    yield* until(isDone(fiber))
    return yield* Fiber.join(fiber)
  })

const registrations = (w: FaultyWorld) =>
  Effect.map(w.kinesis.callsOf("registerConsumer"), (calls) => calls.filter(({ error }) => Option.isNone(error)).length)

describe("fanout-consumer-still-deleting", () => {
  it.scoped("a start waits while it is DELETING, absent and CREATING; only then the member is there", () =>
    Effect.gen(function*() {
      const { arns: [arn = ""], w } = yield* setUp({ consumerDelay: "10 seconds" })
      const { arn: old } = yield* w.kinesis.client.registerConsumer(arn, "reader")
      yield* seconds(10)
      yield* w.kinesis.client.deregisterConsumer(arn, "reader")
      yield* seconds(5)
      const start = yield* starting(w, "a")
      const seen = new Set<string>()
      yield* until(
        Effect.gen(function*() {
          const status = yield* Effect.match(consumerOf(w, arn), {
            onFailure: ({ reason }) => reason,
            onSuccess: (consumer) => consumer.status
          })
          seen.add(status)
          const members = yield* membersOf(w)
          if (status !== "ACTIVE") assert.deepStrictEqual(members, [])
          return members.length > 0
        })
      )
      yield* until(isDone(start))
      yield* Fiber.join(start)
      assert.deepStrictEqual([...seen], ["DELETING", "NotFound", "CREATING", "ACTIVE"])
      assert.notStrictEqual((yield* consumerOf(w, arn)).arn, old)
      assert.strictEqual(yield* registrations(w), 2)
    }))

  it.scoped("three members that start at once share one registration", () =>
    Effect.gen(function*() {
      const { arns: [arn = ""], w } = yield* setUp({ consumerDelay: "10 seconds" })
      const starts = yield* Effect.forEach(["a", "b", "c"], (memberId) => starting(w, memberId))
      yield* until(Effect.map(Effect.forEach(starts, isDone), (done) => done.every((one) => one)))
      yield* Effect.forEach(starts, Fiber.join)
      assert.strictEqual(yield* registrations(w), 1)
      assert.strictEqual((yield* consumersOf(w, arn)).length, 1)
    }))

  it.scoped("five others that are being created pass", () =>
    Effect.gen(function*() {
      const { arns: [arn = ""], w } = yield* setUp({ consumerDelay: "20 seconds" })
      for (const name of ["v", "w", "x", "y", "z"]) yield* w.kinesis.client.registerConsumer(arn, name)
      yield* seconds(2)
      yield* started(w, "a")
      assert.strictEqual((yield* consumerOf(w, arn)).status, "ACTIVE")
    }))

  it.scoped("a start that cannot wait any longer is a typed error, and no member was there", () =>
    Effect.gen(function*() {
      const { w } = yield* setUp({ consumerDelay: "1 hour" })
      const start = yield* starting(w, "a", { fanOut: { consumerName: "reader", registerTimeout: "90 seconds" } })
      yield* seconds(89)
      assert.isFalse(yield* isDone(start))
      yield* seconds(2)
      const error = yield* Effect.flip(Fiber.join(start))
      assert.instanceOf(error, KinesisError)
      assert.strictEqual(error.reason, "Timeout")
      assert.include(error.message, "orders")
      assert.include(error.message, "CREATING")
      assert.deepStrictEqual(yield* membersOf(w), [])
    }))

  it.scoped("a stream with all its consumers is a typed error that names them", () =>
    Effect.gen(function*() {
      const { arns: [arn = ""], w } = yield* setUp()
      yield* Effect.forEach(Array.from({ length: 20 }, (_, index) => `group${index}`), (name) =>
        Effect.zipRight(TestClock.adjust("1 second"), w.kinesis.client.registerConsumer(arn, name)))
      const error = yield* Effect.flip(started(w, "a"))
      assert.instanceOf(error, KinesisError)
      assert.strictEqual(error.reason, "LimitExceeded")
      for (let index = 0; index < 20; index++) {
        assert.include(error.message, `group${index}`)
      }
      assert.deepStrictEqual(yield* membersOf(w), [])
    }))

  it.scoped("an endpoint without fan-out is a typed error: nothing is read by polling instead", () =>
    Effect.gen(function*() {
      const { w } = yield* setUp()
      yield* w.faults.add({ on: "describeConsumer" }, Faults.fail("Unsupported"))
      const error = yield* Effect.flip(started(w, "a"))
      assert.instanceOf(error, KinesisError)
      assert.strictEqual(error.reason, "Unsupported")
      assert.deepStrictEqual(yield* membersOf(w), [])
      assert.deepStrictEqual(yield* w.kinesis.callsOf("getRecords"), [])
    }))

  it.scoped("a start can be interrupted while it waits", () =>
    Effect.gen(function*() {
      const { w } = yield* setUp({ consumerDelay: "1 hour" })
      const start = yield* starting(w, "a")
      yield* seconds(3)
      assert.isTrue(Exit.isInterrupted(yield* Fiber.interrupt(start)))
      yield* w.faults.clearCalls
      yield* seconds(30)
      assert.deepStrictEqual(yield* w.faults.calls, [])
    }))

  it.scoped("a member that closes leaves the consumer to the others, and so does the last one", () =>
    Effect.gen(function*() {
      const { arns: [arn = ""], w } = yield* setUp()
      const [first, ...others] = yield* Effect.forEach(["a", "b", "c"], (memberId) => started(w, memberId))
      const before = yield* consumerOf(w, arn)
      yield* first?.close ?? Effect.void
      assert.deepStrictEqual(yield* consumerOf(w, arn), before)
      for (const other of others) yield* other.close
      assert.deepStrictEqual(yield* membersOf(w), [])
      assert.deepStrictEqual(yield* consumerOf(w, arn), before)
      assert.deepStrictEqual(yield* w.kinesis.callsOf("deregisterConsumer"), [])
    }))

  it.scoped("refresh waits for the consumers of new streams, and changes nothing where there is none to be had", () =>
    Effect.gen(function*() {
      const { arns: [, payments = ""], w } = yield* setUp({ consumerDelay: "4 seconds" }, ["orders", "payments"])
      const m = yield* started(w, "a")
      const before = yield* m.service.assignment
      const broken = yield* w.faults.add({ on: "registerConsumer" }, Faults.fail("AccessDenied"))
      assert.instanceOf(yield* Effect.flip(m.service.refresh(["orders", "payments"])), KinesisError)
      assert.deepStrictEqual(yield* m.service.assignment, before)
      yield* broken.heal
      const refreshing = yield* Effect.fork(m.service.refresh(["orders", "payments"]))
      yield* pass(2)
      assert.strictEqual((yield* consumerOf(w, payments)).status, "CREATING")
      assert.deepStrictEqual(yield* m.service.assignment, before)
      yield* until(isDone(refreshing))
      yield* Fiber.join(refreshing)
      assert.strictEqual((yield* consumerOf(w, payments)).status, "ACTIVE")
      yield* until(Effect.map(m.service.assignment, (shards) => shards.length === 2))
      assert.strictEqual(yield* registrations(w), 2)
    }))

  it.scoped("closing ends a refresh that waits", () =>
    Effect.gen(function*() {
      const { w } = yield* setUp({ consumerDelay: "20 seconds" }, ["orders", "payments"])
      const m = yield* started(w, "a")
      const refreshing = yield* Effect.fork(m.service.refresh(["orders", "payments"]))
      yield* pass(2)
      yield* m.close
      assert.isTrue(Exit.isInterrupted(yield* Fiber.await(refreshing)))
      yield* w.faults.clearCalls
      yield* seconds(30)
      assert.deepStrictEqual(yield* w.faults.calls, [])
    }))

  it.scoped("a group that polls asks for no consumer", () =>
    Effect.gen(function*() {
      const { arns: [arn = ""], w } = yield* setUp()
      yield* started(w, "a", { mode: "polling" })
      assert.deepStrictEqual(yield* consumersOf(w, arn), [])
      assert.deepStrictEqual(yield* w.kinesis.callsOf("describeConsumer"), [])
    }))
})

describe("fanout-client-forgets-credentials", () => {
  const operations = ["describeConsumer", "registerConsumer", "listConsumers", "deregisterConsumer"] as const

  /** The stream of each call about consumers, as it was asked for. */
  const asked = (w: FaultyWorld) =>
    Effect.map(
      Effect.forEach(operations, (operation) => w.kinesis.callsOf(operation)),
      (calls) => calls.map((of) => [...new Set(of.map(({ stream }) => stream))].sort())
    )

  it.scoped("all calls about consumers carry the ARN of their stream: a name's, and another account's", () =>
    Effect.gen(function*() {
      const { arns: [own = ""], w } = yield* setUp()
      const { arn: other } = yield* w.kinesis.createStream({ name: "orders", account: "111111111111" })
      // The first try of each stream is told that there is no room, so that its consumers are listed too.
      yield* w.faults.add({ on: "registerConsumer", stream: own, nth: 1 }, Faults.fail("LimitExceeded"))
      yield* w.faults.add({ on: "registerConsumer", stream: other, nth: 1 }, Faults.fail("LimitExceeded"))
      const options = { app: "app", streams: ["orders", other], fanOut: fanOut.fanOut }
      yield* Effect.flip(started(w, "a", { ...options, streams: ["orders"] }))
      yield* Effect.flip(started(w, "a", { ...options, streams: [other] }))
      const m = yield* started(w, "a", options)
      yield* m.close
      assert.deepStrictEqual((yield* consumersOf(w, own)).length, 1)
      assert.deepStrictEqual((yield* consumersOf(w, other)).length, 1)
      yield* Kinesumer.deregisterConsumers(options).pipe(
        Effect.provide(Layer.succeed(KinesisClient, w.kinesis.client))
      )
      assert.deepStrictEqual(yield* consumersOf(w, own), [])
      assert.deepStrictEqual(yield* consumersOf(w, other), [])
      assert.deepStrictEqual(yield* asked(w), operations.map(() => [own, other].sort()))
    }))

  it.scoped("a stream that is not in this account is a typed error at the start that names it", () =>
    Effect.gen(function*() {
      const { w } = yield* setUp()
      const error = yield* Effect.flip(
        started(w, "a", { streams: ["arn:aws:kinesis:us-east-1:222222222222:stream/orders"] })
      )
      assert.instanceOf(error, KinesisError)
      assert.include(error.message, "222222222222")
      assert.deepStrictEqual(yield* w.kinesis.callsOf("registerConsumer"), [])
    }))

  it.scoped("a name that no consumer can have is refused before any call", () =>
    Effect.gen(function*() {
      const { w } = yield* setUp()
      const error = yield* Effect.flip(started(w, "a", { app: "an app", fanOut: undefined }))
      assert.instanceOf(error, KinesumerError.InvalidConfig)
      assert.strictEqual(error.field, "fanOut.consumerName")
      assert.deepStrictEqual(yield* w.kinesis.calls, [])
    }))
})
