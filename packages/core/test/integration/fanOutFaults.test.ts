/** What ends or breaks a subscription on its way. Each costs nothing but a new one, and the others nothing at all. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Option, Scope } from "effect"
import { constants } from "node:http2"
import * as Gateway from "../utils/gateway.js"
import * as Support from "./fanOutSupport.js"

const { join, names, put, retriesOf, shardId, textsOf, until } = Support

type World = Effect.Effect.Success<ReturnType<typeof Support.world>>

interface Fault {
  readonly name: string
  /** Breaks the only subscription of the stream, with the next record at the latest. */
  readonly inject: (world: World, stream: string, subscription: Gateway.Subscription) => Effect.Effect<unknown>
}

const onConnection = (name: string, act: (subscription: Gateway.Subscription) => void): Fault => ({
  name,
  inject: (_world, _stream, subscription) => Effect.sync(() => act(subscription))
})

const faults: ReadonlyArray<Fault> = [
  { name: "ended", inject: ({ kinesis }, stream) => kinesis.endSubscriptions({ stream }) },
  {
    name: "taken-over",
    inject: ({ kinesis }, stream) => kinesis.endSubscriptions({ stream, error: "ResourceInUse" })
  },
  { name: "error-frame", inject: ({ kinesis }, stream) => kinesis.endSubscriptions({ stream, error: "Unavailable" }) },
  onConnection("cut", ({ cut }) => cut()),
  onConnection("cut-in-mid-frame", ({ cutNext }) => cutNext())
]

/** Only HTTP/2 has words for it. */
const faultsOfHttp2: ReadonlyArray<Fault> = [
  onConnection("told-to-go", ({ cut, goAway }) => {
    goAway(constants.NGHTTP2_NO_ERROR)
    setTimeout(cut, 100)
  }),
  onConnection("told-to-go-for-a-fault", ({ goAway }) => goAway(constants.NGHTTP2_INTERNAL_ERROR)),
  onConnection("reset", ({ reset }) => reset())
]

const subscriptionsTo = ({ gateway }: World, stream: string) =>
  gateway.requests.filter((request) =>
    request.operation === "SubscribeToShard" && Gateway.subscribed(request).ConsumerARN.includes(`:stream/${stream}/`)
  ).length

const findSubscription = ({ gateway }: World, stream: string) =>
  gateway.subscriptions().find(({ consumerArn }) => consumerArn.includes(`:stream/${stream}/`))

const isSubscribed = (world: World, streams: ReadonlyArray<string>) =>
  until(
    Effect.sync(() => streams.every((stream) => findSubscription(world, stream) !== undefined)),
    "all are subscribed"
  )

const subscriptionOf = (world: World, stream: string) => Effect.fromNullable(findSubscription(world, stream))

const arrived = (member: Support.Member, stream: string, count: number) =>
  until(Effect.map(textsOf(member, stream), ({ length }) => length >= count), `${count} records of ${stream}`)

const undisturbed = "undisturbed"

describe.each(Gateway.protocols)("over %s", (protocol) => {
  it.scopedLive("each fault in a shard of its own: everything comes once and in order, and quickly", () =>
    Effect.gen(function*() {
      const all = protocol === "https:" ? [...faults, ...faultsOfHttp2] : faults
      const streams = [undisturbed, ...all.map(({ name }) => name)]
      const world = yield* Support.world(protocol, streams)
      const member = yield* join(world, { memberId: "member", streams })
      yield* Effect.forEach(streams, (stream) => put(world, stream, names(1, 3)))
      yield* Effect.forEach(streams, (stream) => arrived(member, stream, 3))
      // Kinesis would refuse what comes within 5 seconds.
      yield* world.time.move(5)

      yield* Effect.forEach(all, ({ inject, name }) =>
        Effect.gen(function*() {
          yield* inject(world, name, yield* subscriptionOf(world, name))
          yield* put(world, name, names(4, 6))
          yield* until(Effect.sync(() => subscriptionsTo(world, name) === 2), `${name}: a second subscription`)
          yield* put(world, name, names(7, 9))
          yield* arrived(member, name, 9)
          assert.deepStrictEqual(yield* textsOf(member, name), names(1, 9), name)
          assert.isAtMost((yield* retriesOf(member, name)).length, 1, name)
        }), { concurrency: "unbounded", discard: true })

      yield* put(world, undisturbed, names(4, 6))
      yield* arrived(member, undisturbed, 6)
      assert.deepStrictEqual(yield* textsOf(member, undisturbed), names(1, 6))
      assert.strictEqual(subscriptionsTo(world, undisturbed), 1)
      assert.isEmpty(yield* retriesOf(member, undisturbed))
      yield* until(Effect.map(member.service.health, ({ healthy }) => healthy), "everything is well again")
      // A cut between two frames looks like an end, or like a fault.
      assert.deepStrictEqual(yield* retriesOf(member, "ended"), [])
      assert.deepStrictEqual(yield* retriesOf(member, "taken-over"), ["ResourceInUse"])
      assert.deepStrictEqual(yield* retriesOf(member, "cut-in-mid-frame"), ["Unavailable"])
    }))

  it.scopedLive("a connection that goes silent is left for a new one, and nothing else waits for it", () =>
    Effect.gen(function*() {
      const streams = ["orders", undisturbed]
      const world = yield* Support.world(protocol, streams)
      // Kinesis itself is silent for 5 seconds.
      const member = yield* join(world, { memberId: "member", streams, fanOut: { watchdog: "8 seconds" } })
      yield* isSubscribed(world, streams)
      yield* put(world, "orders", names(1, 2))
      yield* arrived(member, "orders", 2)
      const { hush } = yield* subscriptionOf(world, "orders")
      yield* Effect.sync(hush)
      yield* put(world, "orders", names(3, 4))
      yield* put(world, undisturbed, names(1, 4))
      yield* arrived(member, undisturbed, 4)
      assert.deepStrictEqual(yield* textsOf(member, "orders"), names(1, 2))
      yield* arrived(member, "orders", 4)
      assert.deepStrictEqual(yield* textsOf(member, "orders"), names(1, 4))
      assert.deepStrictEqual(yield* retriesOf(member, "orders"), ["Timeout"])
      yield* until(
        Effect.sync(() => world.gateway.subscriptions().length === streams.length),
        "the connection is left"
      )
    }))

  it.scopedLive("a server that takes nothing more on its old connections costs one try each", () =>
    Effect.gen(function*() {
      const world = yield* Support.world(protocol, ["orders"])
      const member = yield* join(world, { memberId: "member", streams: ["orders"] })
      yield* put(world, "orders", names(1, 2))
      yield* arrived(member, "orders", 2)
      yield* world.time.move(5)
      yield* Effect.sync(world.gateway.retire)
      yield* put(world, "orders", names(3, 4))
      yield* arrived(member, "orders", 4)
      yield* world.kinesis.endSubscriptions()
      yield* put(world, "orders", names(5, 6))
      yield* arrived(member, "orders", 6)
      assert.deepStrictEqual(yield* textsOf(member, "orders"), names(1, 6))
      assert.isAtMost((yield* retriesOf(member, "orders")).length, 1)
    }))

  it.scopedLive("a server that stops is waited for, and read on from when it is there again", () =>
    Effect.gen(function*() {
      const { endpoint, ...world } = yield* Support.world(protocol, ["orders"])
      const first = yield* Scope.make()
      const gateway = yield* Scope.extend(Gateway.make(protocol, endpoint), first)
      const member = yield* join({ ...world, gateway }, { memberId: "member", streams: ["orders"] })
      yield* put(world, "orders", names(1, 3))
      yield* arrived(member, "orders", 3)
      yield* Scope.close(first, Exit.void)
      yield* put(world, "orders", names(4, 6))
      yield* until(Effect.map(retriesOf(member, "orders"), ({ length }) => length >= 3), "three tries")
      const { healthy, shards } = yield* member.service.health
      assert.isFalse(healthy)
      assert.deepStrictEqual(shards.map(({ trouble, ...shard }) => [shard.shardId, Option.isSome(trouble)]), [
        [shardId(0), true]
      ])
      yield* world.time.move(5)
      yield* Gateway.make(protocol, endpoint, { port: gateway.port })
      yield* arrived(member, "orders", 6)
      yield* put(world, "orders", names(7, 9))
      yield* arrived(member, "orders", 9)
      assert.deepStrictEqual(yield* textsOf(member, "orders"), names(1, 9))
      yield* until(Effect.map(member.service.health, ({ healthy }) => healthy), "everything is well again")
    }))
})
