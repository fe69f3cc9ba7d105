/** A group that reads by fan-out from real servers, over HTTP/1.1 and over HTTP/2 with TLS. */
import { assert, describe, it } from "@effect/vitest"
import { KinesisClient, Kinesumer, type KinesumerRecord } from "@kinesumer/core"
import { Array, Duration, Effect, Option } from "effect"
import * as Gateway from "../utils/gateway.js"
import * as KinesisAdmin from "../utils/kinesisAdmin.js"
import * as KinesisServers from "../utils/kinesisServers.js"
import * as Support from "./fanOutSupport.js"

const { join, names, put, region, retriesOf, shardId, textsOf, until } = Support

const text = ({ data }: KinesumerRecord.KinesumerRecord) => new TextDecoder().decode(data)

for (const protocol of Gateway.protocols) {
  for (const server of KinesisServers.kinesisServers) {
    describe(`${server.name} over ${protocol}`, () => {
      const setUp = Effect.gen(function*() {
        const { endpoint } = yield* server.start
        const world = yield* Support.worldAt(protocol, endpoint)
        yield* world.admin.createStream("orders", 1)
        return world
      })

      it.scopedLive("delivers what is put, commits it, and goes on after it with the next start", () =>
        Effect.gen(function*() {
          const world = yield* setUp
          yield* put(world, "orders", names(1, 3))
          const first = yield* join(world, { memberId: "first", streams: ["orders"] })
          yield* until(Effect.map(textsOf(first, "orders"), ({ length }) => length >= 3), "what was there")
          yield* put(world, "orders", names(4, 5))
          yield* until(Effect.map(textsOf(first, "orders"), ({ length }) => length >= 5), "what is pushed")
          yield* first.close
          assert.deepStrictEqual(yield* textsOf(first, "orders"), names(1, 5))

          yield* put(world, "orders", names(6, 7))
          const second = yield* join(world, { memberId: "second", streams: ["orders"] })
          yield* until(Effect.map(textsOf(second, "orders"), ({ length }) => length >= 2), "what was put meanwhile")
          yield* put(world, "orders", names(8, 8))
          yield* until(Effect.map(textsOf(second, "orders"), ({ length }) => length >= 3), "what is pushed again")
          yield* second.close
          assert.deepStrictEqual(yield* textsOf(second, "orders"), names(6, 8))

          const subscriptions = world.gateway.requests.filter(({ operation }) => operation === "SubscribeToShard")
          assert.isNotEmpty(subscriptions)
          for (const { httpVersion } of subscriptions) {
            assert.strictEqual(httpVersion, protocol === "http:" ? "1.1" : "2.0")
          }
          yield* until(Effect.sync(() => world.gateway.connections() === 0), "no connection is left")
        }))

      it.scopedLive("hands shards over to those that join", () =>
        Effect.gen(function*() {
          const world = yield* setUp
          yield* world.admin.createStream("payments", 1)
          const streams = ["orders", "payments"]
          yield* Effect.forEach(streams, (stream) => put(world, stream, names(1, 3)))
          const first = yield* join(world, { memberId: "first", streams })
          const count = Effect.zipWith(
            textsOf(first, "orders"),
            textsOf(first, "payments"),
            (orders, payments) => orders.length + payments.length
          )
          yield* until(Effect.map(count, (count) => count >= 6), "what was there")
          const second = yield* join(world, { memberId: "second", streams })
          yield* until(Effect.map(second.service.assignment, ({ length }) => length === 1), "a shard for each")
          yield* Effect.forEach(streams, (stream) => put(world, stream, names(4, 6)))
          const all = Effect.map(
            Effect.all([first.delivered, second.delivered]),
            (delivered) => delivered.flat()
          )
          yield* until(Effect.map(all, ({ length }) => length >= 12), "what is put for both")
          for (const stream of streams) {
            const texts = (yield* all).filter((record) => record.stream === stream).map(text)
            // The shard that was handed over was committed before.
            assert.deepStrictEqual(texts, names(1, 6))
          }
          assert.isNotEmpty(yield* second.delivered)
        }))
    })
  }

  describe(`LocalKinesis alone over ${protocol}`, () => {
    // kinesis-local never tells subscribers that a shard has ended.
    it.scopedLive("a split and a merge: parents to their end, then their children, each in order", () =>
      Effect.gen(function*() {
        const world = yield* Support.world(protocol, ["orders"])
        const member = yield* join(world, { memberId: "first", streams: ["orders"] })
        const keys = Array.makeBy(8, (index) => `key-${index}`)
        const putAll = (number: number) =>
          Effect.forEach(keys, (key) => world.admin.put("orders", key, new TextEncoder().encode(`${number}`)), {
            discard: true
          })
        const arrived = (count: number) =>
          until(Effect.map(member.delivered, ({ length }) => length >= count * keys.length), `round ${count}`)
        yield* putAll(1)
        yield* arrived(1)
        yield* world.admin.splitShard("orders", shardId(0), (KinesisAdmin.lastHashKey + 1n) / 2n)
        yield* putAll(2)
        yield* arrived(2)
        yield* world.admin.mergeShards("orders", shardId(1), shardId(2))
        yield* putAll(3)
        yield* arrived(3)

        const delivered = yield* member.delivered
        for (const key of keys) {
          const ofKey = delivered.filter(({ partitionKey }) => partitionKey === key)
          assert.deepStrictEqual(ofKey.map(text), ["1", "2", "3"], key)
        }
        const shards = Array.dedupeAdjacent(delivered.map((record) => record.shardId === shardId(0)))
        assert.deepStrictEqual(shards, [true, false])
        const ended = Effect.map(
          member.events,
          (events) => events.flatMap((event) => event._tag === "ShardEnded" ? [event.shardId] : [])
        )
        yield* until(Effect.map(ended, ({ length }) => length === 3), "three shards have ended")
        assert.deepStrictEqual((yield* member.service.assignment).map(({ shardId }) => shardId), [shardId(3)])
      }))

    // Neither server looks at credentials: it is the gateway that does.
    it.scopedLive("asks for everything with the credentials that it was given, also when they are new ones", () =>
      Effect.gen(function*() {
        const world = yield* Support.world(protocol, ["orders"])
        yield* Effect.acquireRelease(
          Effect.sync(() => {
            process.env["AWS_ACCESS_KEY_ID"] = "default"
            process.env["AWS_SECRET_ACCESS_KEY"] = "default"
          }),
          () =>
            Effect.sync(() => {
              delete process.env["AWS_ACCESS_KEY_ID"]
              delete process.env["AWS_SECRET_ACCESS_KEY"]
            })
        )
        let accessKeyId = "ours"
        const provider = () =>
          Promise.resolve({ accessKeyId, secretAccessKey: "secret", expiration: new Date("2025-01-01") })
        const member = yield* join(world, { memberId: "first", streams: ["orders"] }, { credentials: provider })
        yield* put(world, "orders", names(1, 1))
        yield* until(Effect.map(member.delivered, ({ length }) => length === 1), "the first record")
        const before = world.gateway.requests.length
        accessKeyId = "rotated"
        yield* world.time.move(5)
        yield* Effect.forEach(world.gateway.subscriptions(), ({ cut }) => Effect.sync(cut))
        yield* put(world, "orders", names(2, 2))
        yield* until(Effect.map(member.delivered, ({ length }) => length === 2), "the second record")
        yield* member.close
        yield* Kinesumer.deregisterConsumers({ app: "app", streams: ["orders"] }).pipe(
          Effect.provide(
            KinesisClient.layer({ region, endpoint: world.gateway.endpoint, credentials: provider })
          )
        )
        const asked = world.gateway.requests.map(({ headers, operation }) => ({
          operation,
          keyId: /Credential=([^/]+)\//.exec(String(headers.authorization))?.[1]
        }))
        const [old, late] = Array.splitAt(asked, before)
        assert.deepStrictEqual(Array.dedupe(old.map(({ keyId }) => keyId)), ["ours"])
        assert.deepStrictEqual(Array.dedupe(late.map(({ keyId }) => keyId)), ["rotated"])
        assert.includeMembers(old.map(({ operation }) => operation), [
          "DescribeStreamSummary",
          "ListShards",
          "DescribeStreamConsumer",
          "RegisterStreamConsumer",
          "SubscribeToShard"
        ])
        assert.includeMembers(late.map(({ operation }) => operation), [
          "SubscribeToShard",
          "DeregisterStreamConsumer"
        ])
      }))

    // kinesis-local refuses for as long as it believes the first one to live.
    it.scopedLive("ResourceInUse after a hand-over is asked through, without haste and without growing pauses", () =>
      Effect.gen(function*() {
        const world = yield* Support.world(protocol, ["orders"], { limits: false })
        // From here on the last subscription is less than 5 seconds ago.
        yield* world.time.stop
        yield* put(world, "orders", names(1, 2))
        const first = yield* join(world, { memberId: "first", streams: ["orders"] })
        yield* until(Effect.map(first.delivered, ({ length }) => length === 2), "what was there")
        yield* first.close
        const second = yield* join(world, { memberId: "second", streams: ["orders"] })
        yield* until(Effect.map(retriesOf(second, "orders"), ({ length }) => length === 3), "three refusals")
        assert.deepStrictEqual(yield* retriesOf(second, "orders"), ["ResourceInUse", "ResourceInUse", "ResourceInUse"])
        for (const event of yield* second.events) {
          if (event._tag !== "Retrying" || event.operation !== "subscribeToShard") continue
          assert.isAtLeast(Duration.toMillis(event.delay), 1000)
          assert.isAtMost(Duration.toMillis(event.delay), 3000)
        }
        assert.isEmpty(yield* second.delivered)
        const { healthy, shards } = yield* second.service.health
        assert.isFalse(healthy)
        assert.deepStrictEqual(shards.map(({ trouble }) => Option.map(trouble, ({ reason }) => reason)), [
          Option.some("ResourceInUse")
        ])
        yield* world.time.move(5)
        yield* put(world, "orders", names(3, 4))
        yield* until(Effect.map(second.delivered, ({ length }) => length === 2), "what was put meanwhile")
        assert.deepStrictEqual(yield* textsOf(second, "orders"), names(3, 4))
        assert.isTrue((yield* second.service.health).healthy)
      }))
  })
}
