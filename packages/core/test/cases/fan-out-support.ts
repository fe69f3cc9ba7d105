/** What the tests about fan-out share. */
import { assert } from "@effect/vitest"
import type { KinesumerConfig, KinesumerRecord } from "@kinesumer/core"
import { Effect, Fiber, Option } from "effect"
import { shardId, type TestMember } from "../group/support.js"
import { faulty, type FaultyWorld, type Handler, reader, slow, type View } from "./reading-support.js"

export const fanOut = { mode: "fanOut" } satisfies Partial<KinesumerConfig.KinesumerOptions>

/** Fan-out with hardly any wake-ups besides those of the subscriptions. */
export const rareFanOut = {
  ...slow,
  ...fanOut,
  syncInterval: "1 minute",
  livenessTimeout: "4 minutes",
  commit: { interval: "1 minute" }
} satisfies Partial<KinesumerConfig.KinesumerOptions>

/** A member that reads by fan-out, and a run of one of its two streams. */
export const reading = (
  w: FaultyWorld,
  view: View,
  options: Partial<KinesumerConfig.KinesumerOptions> = {},
  handler: Handler = () => Effect.void
) =>
  Effect.gen(function*() {
    const m = yield* faulty(w, { ...fanOut, ...options })
    const run = yield* reader(m, view, handler)
    const fiber = yield* Effect.fork(run.run)
    yield* Effect.yieldNow()
    return { m, fiber, ...run }
  })

/** The subscriptions to a shard that were asked for, whether or not that got to Kinesis. */
export const triesOf = (w: FaultyWorld, id: string = shardId(0)) =>
  w.faults.callsOf("subscribeToShard", { shardId: id })

/** Where each of them began. */
export const startsOf = (w: FaultyWorld, id: string = shardId(0)) =>
  Effect.map(triesOf(w, id), (calls) => calls.map(({ args: [, , { position }] }) => position))

/** No member asked more often than once a second for a shard. */
export const assertPaced = (w: FaultyWorld, ids: ReadonlyArray<string> = [shardId(0)]) =>
  Effect.forEach(ids, (id) =>
    Effect.map(triesOf(w, id), (calls) => {
      const members = new Set(calls.map(({ member }) => member))
      for (const member of members) {
        const times = calls.filter((call) => call.member === member).map(({ at }) => at)
        const gaps = times.slice(1).map((at, index) => at - (times[index] ?? 0))
        assert.isTrue(gaps.every((gap) => gap >= 1_000), `${id}: ${times.join()}`)
      }
    }), { discard: true })

export const shardHealth = (m: TestMember, id: string = shardId(0)) =>
  Effect.map(m.service.health, ({ shards }) => {
    const shard = shards.find((one) => one.shardId === id)
    assert.isDefined(shard)
    return shard
  })

/** Why the shard does not get on, in a word. */
export const troubleOf = (m: TestMember, id: string = shardId(0)) =>
  Effect.map(shardHealth(m, id), ({ trouble }) => Option.getOrUndefined(trouble)?.reason)

export const isRunning = <A, E>(fiber: Fiber.RuntimeFiber<A, E>) => Effect.map(Fiber.poll(fiber), Option.isNone)

export const nameOf = ({ data }: Pick<KinesumerRecord.KinesumerRecord, "data">): string =>
  new TextDecoder().decode(data)
