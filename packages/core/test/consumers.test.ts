/** The registered consumer of a stream: found or registered, waited for, and found again when it was replaced. */
import { assert, describe, it } from "@effect/vitest"
import { Kinesumer, KinesumerConfig, KinesumerError, KinesumerEvent, StateStore } from "@kinesumer/core"
import { KinesisClient } from "@kinesumer/core/KinesisClient"
import { KinesisError, type KinesisErrorReason } from "@kinesumer/core/KinesisError"
import { Faults, TestKinesis } from "@kinesumer/test-kit"
import { Effect, Exit, Fiber, Layer, Option, PubSub, TestClock } from "effect"
import * as Consumers from "../src/internal/consumers.js"
import * as Environment from "../src/internal/environment.js"
import type { StreamState } from "../src/internal/streams.js"

const setUp = (
  options: TestKinesis.Options = {},
  fanOut: KinesumerConfig.KinesumerOptions["fanOut"] = { consumerName: "reader" }
) =>
  Effect.gen(function*() {
    const kinesis = yield* TestKinesis.make(options)
    const { arn } = yield* kinesis.createStream({ name: "orders" })
    const faults = yield* Faults.make
    const env = yield* Environment.make({
      config: yield* KinesumerConfig.make({ app: "app", streams: ["orders"], mode: "fanOut", fanOut }),
      self: { memberId: "a", incarnation: "1" },
      kinesis: faults.wrapKinesis(kinesis.client),
      store: yield* StateStore.makeMemory
    })
    const events = yield* PubSub.subscribe(env.events)
    const stream: StreamState = {
      key: "orders",
      label: "orders",
      id: { name: "orders", arn: Option.none() },
      arn,
      startFrom: "TrimHorizon"
    }
    return { kinesis, faults, stream, consumers: yield* Consumers.make(env), events: events.takeAll }
  })

type Setting = Effect.Effect.Success<ReturnType<typeof setUp>>

const described = ({ kinesis, stream }: Setting, name = "reader") => kinesis.client.describeConsumer(stream.arn, name)

const register = ({ kinesis, stream }: Setting, name = "reader") => kinesis.client.registerConsumer(stream.arn, name)

const deregister = ({ kinesis, stream }: Setting, name = "reader") =>
  kinesis.client.deregisterConsumer(stream.arn, name)

/** What is there already, up to the limit. */
const registerOthers = (setting: Setting, count: number) =>
  Effect.forEach(
    Array.from({ length: count }, (_, index) => `other${index}`),
    (name) => Effect.zipRight(TestClock.adjust("1 second"), register(setting, name))
  )

const countOf = ({ faults }: Setting, operation: "describeConsumer" | "registerConsumer" | "listConsumers") =>
  Effect.map(faults.callsOf(operation), (calls) => calls.length)

/** Lets time pass until it is done, in small steps; how long that took, in milliseconds, and how it ended. */
const awaited = <A, E>(fiber: Fiber.RuntimeFiber<A, E>, atMostSeconds = 300) =>
  Effect.gen(function*() {
    for (let step = 0; step <= atMostSeconds * 4; step++) {
      yield* TestClock.adjust(step === 0 ? 0 : "250 millis")
      const exit = yield* Fiber.poll(fiber)
      if (Option.isSome(exit)) return { millis: step * 250, exit: exit.value }
    }
    return yield* Effect.dieMessage(`not done within ${atMostSeconds} seconds`)
  })

const valueOf = <A, E>(effect: Effect.Effect<A, E>) =>
  Effect.gen(function*() {
    const { exit, millis } = yield* awaited(yield* Effect.fork(effect))
    return { value: yield* exit, millis }
  })

const errorOf = <A>(effect: Effect.Effect<A, KinesisError>) => valueOf(Effect.flip(effect))

describe("arnOf", () => {
  it.scoped("finds a consumer that is there, and asks no more", () =>
    Effect.gen(function*() {
      const setting = yield* setUp()
      const { arn } = yield* register(setting)
      assert.strictEqual(yield* setting.consumers.arnOf(setting.stream), arn)
      assert.strictEqual(yield* setting.consumers.arnOf(setting.stream), arn)
      assert.strictEqual(yield* countOf(setting, "describeConsumer"), 1)
      assert.strictEqual(yield* countOf(setting, "registerConsumer"), 0)
    }))

  it.scoped("registers one and waits until it is ACTIVE", () =>
    Effect.gen(function*() {
      const setting = yield* setUp({ consumerDelay: "10 seconds" })
      const { millis, value } = yield* valueOf(setting.consumers.arnOf(setting.stream))
      assert.strictEqual(value, (yield* described(setting)).arn)
      assert.isAtLeast(millis, 10_000)
      assert.isAtMost(millis, 15_000)
      assert.strictEqual(yield* countOf(setting, "registerConsumer"), 1)
      // The delays grow to 5 seconds.
      assert.isAtMost(yield* countOf(setting, "describeConsumer"), 8)
    }))

  it.scoped("waits until one that is DELETING is gone, and then registers", () =>
    Effect.gen(function*() {
      const setting = yield* setUp({ consumerDelay: "10 seconds" })
      const old = yield* register(setting)
      yield* TestClock.adjust("10 seconds")
      yield* deregister(setting)
      yield* TestClock.adjust("5 seconds")
      const { millis, value } = yield* valueOf(setting.consumers.arnOf(setting.stream))
      assert.notStrictEqual(value, old.arn)
      assert.deepInclude(yield* described(setting), { arn: value, status: "ACTIVE" })
      assert.isAtLeast(millis, 15_000)
      assert.isAtMost(millis, 25_000)
      assert.strictEqual(yield* countOf(setting, "registerConsumer"), 1)
    }))

  it.scoped("finds the one that another member registers in between", () =>
    Effect.gen(function*() {
      const setting = yield* setUp()
      yield* setting.faults.add({ on: "describeConsumer", nth: 1 }, Faults.fail("NotFound"))
      const { arn } = yield* register(setting)
      const { value } = yield* valueOf(setting.consumers.arnOf(setting.stream))
      assert.strictEqual(value, arn)
      // The name is taken: that is told, and looked at again.
      assert.strictEqual(yield* countOf(setting, "registerConsumer"), 1)
      assert.strictEqual(yield* countOf(setting, "describeConsumer"), 2)
    }))

  it.scoped("tries passing errors again, and tells of each", () =>
    Effect.gen(function*() {
      const setting = yield* setUp()
      yield* setting.faults.add({ on: "describeConsumer", times: 2 }, Faults.fail("Throttled"))
      yield* setting.faults.add({ on: "registerConsumer", nth: 1 }, Faults.fail("ResourceInUse"))
      const { value } = yield* valueOf(setting.consumers.arnOf(setting.stream))
      assert.strictEqual(value, (yield* described(setting)).arn)
      const told = [...(yield* setting.events)].filter(KinesumerEvent.is("Retrying"))
      assert.deepStrictEqual(
        told.map(({ attempt, error, operation, shardId, stream }) => ({
          attempt,
          operation,
          reason: error.reason,
          shardId,
          stream
        })),
        [
          { attempt: 1, operation: "describeConsumer", reason: "Throttled", shardId: undefined, stream: "orders" },
          { attempt: 2, operation: "describeConsumer", reason: "Throttled", shardId: undefined, stream: "orders" },
          { attempt: 3, operation: "registerConsumer", reason: "ResourceInUse", shardId: undefined, stream: "orders" }
        ]
      )
    }))

  const lasting: ReadonlyArray<KinesisErrorReason> = ["AccessDenied", "InvalidArgument", "Unsupported"]
  for (const reason of lasting) {
    for (const operation of ["describeConsumer", "registerConsumer"] as const) {
      it.scoped(`fails at once where ${operation} is refused with ${reason}`, () =>
        Effect.gen(function*() {
          const setting = yield* setUp()
          yield* setting.faults.add({ on: operation }, Faults.fail(reason))
          const { millis, value } = yield* errorOf(setting.consumers.arnOf(setting.stream))
          assert.strictEqual(millis, 0)
          assert.strictEqual(value.reason, reason)
          assert.strictEqual(yield* countOf(setting, operation), 1)
        }))
    }
  }

  it.scoped("fails at once where the stream does not exist", () =>
    Effect.gen(function*() {
      const setting = yield* setUp()
      yield* setting.kinesis.deleteStream("orders")
      const { millis, value } = yield* errorOf(setting.consumers.arnOf(setting.stream))
      assert.strictEqual(millis, 0)
      assert.strictEqual(value.reason, "NotFound")
    }))

  const hurried = { consumerName: "reader", registerTimeout: "20 seconds" } as const

  it.scoped("gives up after registerTimeout, and says in what state the consumer was", () =>
    Effect.gen(function*() {
      const setting = yield* setUp({ consumerDelay: "1 hour" }, hurried)
      const { millis, value } = yield* errorOf(setting.consumers.arnOf(setting.stream))
      assert.strictEqual(millis, 20_000)
      assert.strictEqual(
        value.message,
        "describeConsumer orders: Timeout: the consumer \"reader\" was not ACTIVE within 20s (fanOut.registerTimeout): " +
          "at the last look it was CREATING"
      )
      assert.isTrue(value.retryable)
    }))

  it.scoped("says what stood in the way all the time", () =>
    Effect.gen(function*() {
      const setting = yield* setUp({}, hurried)
      yield* setting.faults.add({ on: "registerConsumer" }, Faults.fail("ResourceInUse"))
      const { value } = yield* errorOf(setting.consumers.arnOf(setting.stream))
      assert.strictEqual(value.reason, "Timeout")
      assert.include(value.detail, "could not be asked for (registerConsumer")
      assert.include(value.detail, "ResourceInUse")
    }))

  it.scoped("is not held up by a call that is never answered", () =>
    Effect.gen(function*() {
      const setting = yield* setUp()
      yield* setting.faults.add({ on: "describeConsumer", nth: 1 }, Faults.hang)
      yield* setting.faults.add({ on: "registerConsumer", nth: 1 }, Faults.hang)
      const { millis } = yield* valueOf(setting.consumers.arnOf(setting.stream))
      // Twice polling.timeout, and the delays.
      assert.isAtLeast(millis, 20_000)
      assert.isAtMost(millis, 24_000)
    }))

  it.scoped("is registered once where the answer was lost", () =>
    Effect.gen(function*() {
      const setting = yield* setUp()
      yield* setting.faults.add({ on: "registerConsumer", nth: 1 }, Faults.dropAnswer("Timeout"))
      const { value } = yield* valueOf(setting.consumers.arnOf(setting.stream))
      assert.strictEqual(value, (yield* described(setting)).arn)
      assert.strictEqual(yield* countOf(setting, "registerConsumer"), 1)
    }))
})

describe("the limits of a stream", () => {
  it.scoped("all consumers that it may have: the error names them, through all pages", () =>
    Effect.gen(function*() {
      const setting = yield* setUp({ pageSize: 3 })
      const others = yield* registerOthers(setting, 20)
      yield* setting.faults.clearCalls
      const { value } = yield* errorOf(setting.consumers.arnOf(setting.stream))
      assert.strictEqual(value.reason, "LimitExceeded")
      assert.isFalse(value.retryable)
      assert.strictEqual(value.stream, "orders")
      for (const { name } of others) assert.include(value.detail, name)
      for (const advice of ["Deregister", "higher limit", "mode \"polling\""]) assert.include(value.detail, advice)
      // Seven pages, at 5 calls a second: a page that is refused is asked for again, and not all of those before it.
      assert.isAtLeast(yield* countOf(setting, "listConsumers"), 8)
      assert.isAtMost(yield* countOf(setting, "listConsumers"), 10)
      assert.strictEqual(yield* countOf(setting, "registerConsumer"), 1)
    }))

  it.scoped("our own among them is used", () =>
    Effect.gen(function*() {
      const setting = yield* setUp({ pageSize: 8 })
      const { arn } = yield* register(setting)
      yield* setting.faults.add({ on: "describeConsumer" }, Faults.fail("NotFound"))
      yield* setting.faults.add({ on: "registerConsumer" }, Faults.fail("LimitExceeded"))
      assert.strictEqual((yield* valueOf(setting.consumers.arnOf(setting.stream))).value, arn)
    }))

  it.scoped("a list that is not allowed does not hide what is wrong", () =>
    Effect.gen(function*() {
      const setting = yield* setUp()
      yield* setting.faults.add({ on: "registerConsumer" }, Faults.fail("LimitExceeded"))
      yield* setting.faults.add({ on: "listConsumers" }, Faults.fail("AccessDenied"))
      const { value } = yield* errorOf(setting.consumers.arnOf(setting.stream))
      assert.strictEqual(value.reason, "LimitExceeded")
      assert.include(value.detail, "AccessDenied")
    }))

  it.scoped("a list whose token expires is begun anew", () =>
    Effect.gen(function*() {
      const setting = yield* setUp()
      yield* register(setting, "other")
      yield* setting.faults.add({ on: "registerConsumer" }, Faults.fail("LimitExceeded"))
      yield* setting.faults.add({ on: "listConsumers", nth: 1 }, Faults.fail("ExpiredToken"))
      const { value } = yield* errorOf(setting.consumers.arnOf(setting.stream))
      assert.strictEqual(value.reason, "LimitExceeded")
      assert.include(value.detail, "other")
    }))

  it.scoped("five that are being created pass", () =>
    Effect.gen(function*() {
      const setting = yield* setUp({ consumerDelay: "30 seconds" })
      yield* registerOthers(setting, 5)
      const { millis, value } = yield* valueOf(setting.consumers.arnOf(setting.stream))
      assert.deepInclude(yield* described(setting), { arn: value, status: "ACTIVE" })
      assert.isAtLeast(millis, 50_000)
      assert.isAtMost(millis, 70_000)
    }))
})

describe("renew", () => {
  it.scoped("registers the consumer that is gone anew, once for all shards", () =>
    Effect.gen(function*() {
      const setting = yield* setUp({ consumerDelay: "2 seconds" })
      const { value: first } = yield* valueOf(setting.consumers.arnOf(setting.stream))
      yield* deregister(setting)
      yield* TestClock.adjust("3 seconds")
      yield* setting.faults.clearCalls
      const { value } = yield* valueOf(
        Effect.forEach(
          Array.from({ length: 200 }),
          () => setting.consumers.renew(setting.stream, first),
          { concurrency: "unbounded" }
        )
      )
      const { arn } = yield* described(setting)
      assert.notStrictEqual(arn, first)
      assert.deepStrictEqual(new Set(value), new Set([arn]))
      assert.strictEqual(yield* countOf(setting, "registerConsumer"), 1)
      assert.isAtMost(yield* countOf(setting, "describeConsumer"), 6)
      // One that comes late is given the new one at once, and so is every other who asks.
      const calls = yield* setting.faults.calls
      assert.strictEqual(yield* setting.consumers.renew(setting.stream, first), arn)
      assert.strictEqual(yield* setting.consumers.arnOf(setting.stream), arn)
      assert.strictEqual((yield* setting.faults.calls).length, calls.length)
    }))

  it.scoped("gives the same ARN back where the consumer is there, after one look for all", () =>
    Effect.gen(function*() {
      const setting = yield* setUp({ latency: "100 millis" })
      const { value: arn } = yield* valueOf(setting.consumers.arnOf(setting.stream))
      yield* setting.faults.clearCalls
      const { value } = yield* valueOf(
        Effect.forEach(
          Array.from({ length: 50 }),
          () => setting.consumers.renew(setting.stream, arn),
          { concurrency: "unbounded" }
        )
      )
      assert.deepStrictEqual(new Set(value), new Set([arn]))
      assert.strictEqual(yield* countOf(setting, "describeConsumer"), 1)
      assert.strictEqual(yield* countOf(setting, "registerConsumer"), 0)
      // The next one looks again: it may have gone since.
      yield* valueOf(setting.consumers.renew(setting.stream, arn))
      assert.strictEqual(yield* countOf(setting, "describeConsumer"), 2)
    }))

  it.scoped("finds the consumer that somebody else made anew behind our back", () =>
    Effect.gen(function*() {
      const setting = yield* setUp()
      const old = yield* setting.consumers.arnOf(setting.stream)
      yield* deregister(setting)
      yield* TestClock.adjust("5 seconds")
      const { arn } = yield* register(setting)
      assert.strictEqual(yield* setting.consumers.renew(setting.stream, old), arn)
      assert.strictEqual(yield* countOf(setting, "registerConsumer"), 1)
    }))

  it.scoped("never goes back to an ARN from before, whatever a stale answer says", () =>
    Effect.gen(function*() {
      const setting = yield* setUp()
      yield* setting.consumers.arnOf(setting.stream)
      const old = yield* described(setting)
      yield* deregister(setting)
      yield* TestClock.adjust("5 seconds")
      const { arn } = yield* register(setting)
      assert.strictEqual(yield* setting.consumers.renew(setting.stream, old.arn), arn)
      yield* setting.faults.add({ on: "describeConsumer", times: 3 }, Faults.rewrite(() => old))
      const { millis, value } = yield* valueOf(setting.consumers.renew(setting.stream, arn))
      assert.strictEqual(value, arn)
      assert.isAbove(millis, 0)
    }))

  it.scoped("does not go back to it either while the new one is being created", () =>
    Effect.gen(function*() {
      const setting = yield* setUp({ consumerDelay: "4 seconds" })
      const { value: first } = yield* valueOf(setting.consumers.arnOf(setting.stream))
      const old = yield* described(setting)
      yield* deregister(setting)
      yield* TestClock.adjust("5 seconds")
      yield* setting.faults.clearCalls
      yield* setting.faults.add({ on: "describeConsumer", nth: 2 }, Faults.rewrite(() => old))
      const { value } = yield* valueOf(setting.consumers.renew(setting.stream, first))
      assert.strictEqual(value, (yield* described(setting)).arn)
      assert.notStrictEqual(value, first)
    }))

  it.scoped("nobody is given what was refused while it is looked for", () =>
    Effect.gen(function*() {
      const setting = yield* setUp({ consumerDelay: "4 seconds" })
      const { value: first } = yield* valueOf(setting.consumers.arnOf(setting.stream))
      yield* deregister(setting)
      const renewing = yield* Effect.fork(setting.consumers.renew(setting.stream, first))
      yield* TestClock.adjust("1 second")
      const { value } = yield* valueOf(setting.consumers.arnOf(setting.stream))
      assert.notStrictEqual(value, first)
      assert.strictEqual(yield* Fiber.join(renewing), value)
    }))

  it.scoped("a failure is shared by those that wait, and the next one looks again", () =>
    Effect.gen(function*() {
      const setting = yield* setUp({ latency: "100 millis" })
      const { value: arn } = yield* valueOf(setting.consumers.arnOf(setting.stream))
      yield* setting.faults.clearCalls
      yield* setting.faults.add({ on: "describeConsumer", nth: 1 }, Faults.fail("AccessDenied"))
      const { value } = yield* valueOf(
        Effect.forEach(
          Array.from({ length: 20 }),
          () => Effect.flip(setting.consumers.renew(setting.stream, arn)),
          { concurrency: "unbounded" }
        )
      )
      assert.deepStrictEqual(new Set(value.map(({ reason }) => reason)), new Set(["AccessDenied"]))
      assert.strictEqual(yield* countOf(setting, "describeConsumer"), 1)
      assert.strictEqual((yield* valueOf(setting.consumers.renew(setting.stream, arn))).value, arn)
    }))

  it.scoped("an interruption leaves no lock behind, and another one goes on looking", () =>
    Effect.gen(function*() {
      const setting = yield* setUp({ consumerDelay: "4 seconds" })
      const first = yield* Effect.fork(setting.consumers.arnOf(setting.stream))
      const second = yield* Effect.fork(setting.consumers.arnOf(setting.stream))
      yield* TestClock.adjust("1 second")
      assert.isTrue(Exit.isInterrupted(yield* Fiber.interrupt(first)))
      const { exit } = yield* awaited(second)
      assert.strictEqual(yield* exit, (yield* described(setting)).arn)
      assert.strictEqual(yield* countOf(setting, "registerConsumer"), 1)
      assert.strictEqual(yield* setting.consumers.arnOf(setting.stream), yield* exit)
    }))
})

describe("deregisterConsumers", () => {
  const options = { app: "app", streams: ["orders", "payments"], fanOut: { consumerName: "reader" } }

  const retire = (setting: Setting, changes: Partial<typeof options> = {}) =>
    Kinesumer.deregisterConsumers({ ...options, ...changes }).pipe(
      Effect.provide(Layer.succeed(KinesisClient, setting.faults.wrapKinesis(setting.kinesis.client)))
    )

  const twoStreams = Effect.gen(function*() {
    const setting = yield* setUp()
    const { arn } = yield* setting.kinesis.createStream({ name: "payments" })
    return { setting, arns: [setting.stream.arn, arn] }
  })

  it.scoped("takes the consumer away from each stream, and leaves all others", () =>
    Effect.gen(function*() {
      const { arns, setting } = yield* twoStreams
      for (const arn of arns) {
        yield* setting.kinesis.client.registerConsumer(arn, "reader")
        yield* setting.kinesis.client.registerConsumer(arn, "other")
      }
      yield* retire(setting)
      for (const arn of arns) {
        const { consumers } = yield* setting.kinesis.client.listConsumers(arn, Option.none())
        assert.deepStrictEqual(consumers.map(({ name }) => name), ["other"])
      }
    }))

  it.scoped("passes over a stream without one, and can be done twice", () =>
    Effect.gen(function*() {
      const { setting } = yield* twoStreams
      yield* register(setting)
      yield* retire(setting)
      yield* retire(setting)
      assert.strictEqual((yield* Effect.flip(described(setting))).reason, "NotFound")
    }))

  it.scoped("a stream that does not exist is named, and nothing is deregistered", () =>
    Effect.gen(function*() {
      const { setting } = yield* twoStreams
      yield* register(setting)
      const error = yield* Effect.flip(retire(setting, { streams: ["orders", "nowhere"] }))
      assert.include(error.message, "nowhere")
      assert.strictEqual((yield* described(setting)).status, "ACTIVE")
    }))

  it.scoped("tries passing errors again, others not", () =>
    Effect.gen(function*() {
      const { setting } = yield* twoStreams
      yield* register(setting)
      yield* setting.faults.add({ on: "describeStream", nth: 1 }, Faults.fail("Unavailable"))
      yield* setting.faults.add({ on: "deregisterConsumer", nth: 1 }, Faults.fail("Throttled"))
      yield* setting.faults.add({ on: "deregisterConsumer", nth: 2 }, Faults.hang)
      yield* valueOf(retire(setting))
      assert.strictEqual((yield* Effect.flip(described(setting))).reason, "NotFound")
      yield* setting.faults.add({ on: "deregisterConsumer" }, Faults.fail("AccessDenied"))
      const { millis, value } = yield* valueOf(Effect.flip(retire(setting)))
      assert.strictEqual(millis, 0)
      assert.instanceOf(value, KinesisError)
      assert.strictEqual(value.reason, "AccessDenied")
    }))

  it.scoped("gives up after registerTimeout", () =>
    Effect.gen(function*() {
      const { setting } = yield* twoStreams
      yield* setting.faults.add({ on: "deregisterConsumer" }, Faults.fail("Throttled"))
      const { millis, value } = yield* valueOf(Effect.flip(retire(setting)))
      assert.instanceOf(value, KinesisError)
      assert.strictEqual(value.reason, "Throttled")
      assert.isAtLeast(millis, 115_000)
      assert.isAtMost(millis, 130_000)
    }))

  it.scoped("refuses a name that no consumer can have", () =>
    Effect.gen(function*() {
      const { setting } = yield* twoStreams
      const error = yield* Effect.flip(retire(setting, { app: "an app", fanOut: undefined } as object))
      assert.instanceOf(error, KinesumerError.InvalidConfig)
      assert.strictEqual(error.field, "fanOut.consumerName")
    }))
})
