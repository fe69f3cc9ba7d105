/**
 * A day of a group in virtual time, told line by line. Its consumers are slow for most of each hour, so that the buffers
 * are full when memory is looked at; its members come and go, and so do the shards.
 *
 * Needs `--expose-gc`.
 */
import { NodeRuntime } from "@effect/platform-node"
import { KinesisClient, Kinesumer, StateStore } from "@kinesumer/core"
import type { Chunk } from "effect"
import { Console, Effect, Fiber, Logger, LogLevel, Random, Schedule, Schema, Stream } from "effect"
import * as VirtualTime from "../virtualTime.js"
import * as Kinesis from "./kinesis.js"
import { Sample } from "./sample.js"

const hours = 24
const app = "bench"

/** Enough for a few minutes of a slow consumer. */
const bufferSize = 2_000

/** How much a consumer handles of what comes meanwhile, by the time of the hour. */
const slow = 0.5
const fast = 12

/** It works in bursts, which leave room for pages that are worth a call. */
const burstMillis = 10_000

/** An hour, in minutes: members join and leave, memory is looked at, and then the consumers catch up. */
const hour = { join: 15, leave: 35, look: 50, end: 60 } as const

const members = 3

/** The first time leaves what finalizers hold, and the heap gives its pages back a while afterwards. */
const collected = Effect.gen(function*() {
  for (let index = 0; index < 5; index++) {
    globalThis.gc?.()
    yield* Effect.sleep("50 millis")
  }
  return process.memoryUsage()
})

const day = Effect.gen(function*() {
  const time = VirtualTime.make()
  const now = () => time.clock.unsafeCurrentTimeMillis()
  const kinesis = Kinesis.make({ now, from: now(), until: now() + hours * Kinesis.hour })
  const store = yield* StateStore.makeMemory
  const random = Random.make("a day")
  let records = 0
  let fastFrom = Infinity

  const pace = () => now() >= fastFrom ? fast : slow

  /** A consumer of so many shards. */
  const handle = (shards: number) => {
    let owed = 0
    return (chunk: Chunk.Chunk<unknown>) =>
      Effect.suspend(() => {
        records += chunk.length
        owed += chunk.length * 1000 / (Kinesis.rate * shards * pace())
        if (owed < burstMillis) return Effect.void
        const wait = owed
        owed = 0
        return Effect.sleep(wait)
      })
  }

  const consume = (group: Kinesumer.Kinesumer["Type"], isByShard: boolean) =>
    isByShard
      ? Stream.runDrain(Stream.flatMap(
        group.shards,
        (shard) => Stream.mapEffect(Stream.chunks(shard.records), handle(1)),
        { concurrency: "unbounded" }
      ))
      : Stream.runForEachChunk(group.records, handle(Kinesis.firstShards / members))

  const start = (index: number) =>
    Effect.gen(function*() {
      const services = yield* time.process
      const member: { group: Kinesumer.Kinesumer["Type"] | undefined } = { group: undefined }
      const fiber = yield* services.fork(
        Effect.gen(function*() {
          const group = yield* Kinesumer.make({
            app,
            streams: [Kinesis.stream],
            memberId: `member-${`${index}`.padStart(3, "0")}`,
            startFrom: "Latest",
            bufferSize
          })
          member.group = group
          yield* Effect.forkScoped(Stream.runDrain(group.events))
          yield* Effect.forkScoped(Effect.repeat(group.health, Schedule.spaced("30 seconds")))
          yield* consume(group, index % 2 === 1)
        }).pipe(
          Effect.scoped,
          Effect.provideService(KinesisClient.KinesisClient, kinesis),
          Effect.provideService(StateStore.StateStore, store),
          Effect.withRandom(random),
          Logger.withMinimumLogLevel(LogLevel.Warning)
        )
      )
      return { member, fiber, end: services.kill }
    })

  const group = yield* Effect.forEach(Array.from({ length: members }, (_, index) => index), start)
  let started = members
  for (let index = 0; index < hours; index++) {
    fastFrom = now() + hour.look * 60_000
    yield* time.elapse(`${hour.join} minutes`)
    group.push(yield* start(started++))
    yield* time.elapse(`${hour.leave - hour.join} minutes`)
    const oldest = group.shift()
    if (oldest !== undefined) {
      yield* Effect.forkDaemon(Fiber.interrupt(oldest.fiber))
      yield* time.elapse("1 minute")
      yield* oldest.end
    }
    yield* time.elapse(`${hour.look - hour.leave - 1} minutes`)
    const health = yield* Effect.forEach(
      group,
      ({ member }) => member.group?.health ?? Effect.dieMessage("not started")
    )
      .pipe(Effect.withClock(time.clock))
    const rows = yield* store.listCheckpoints(app, Kinesis.stream)
    const { heapUsed, rss } = yield* collected
    yield* Console.log(
      yield* Schema.encode(Schema.parseJson(Sample))({
        hour: index + 1,
        heap: heapUsed,
        resident: rss,
        buffered: health.reduce((sum, { bufferedRecords }) => sum + bufferedRecords, 0),
        shards: health.reduce((sum, { shards }) => sum + shards.length, 0),
        rows: rows.length,
        records
      })
    )
    yield* time.elapse(`${hour.end - hour.look} minutes`)
  }
})

/** The members that are left are not waited for. */
const end = Effect.async<never>(() => {
  process.stdout.write("", () => process.exit())
})

NodeRuntime.runMain(Effect.zipRight(day, end))
