/** One member with all shards of a stream, in a process of its own, and what it costs that process. */
import { NodeRuntime } from "@effect/platform-node"
import { KinesisClient, Kinesumer, StateStore } from "@kinesumer/core"
import { Clock, Config, Console, Context, Deferred, Duration, Effect, Layer, Logger, LogLevel, Stream } from "effect"
import { monitorEventLoopDelay } from "node:perf_hooks"
import * as CountedStore from "../countedStore.js"
import * as SteadyKinesis from "../steadyKinesis.js"

/** Calls for each shard until what begins a member is over. */
const callsBefore = 3

/** In milliseconds. The delays of its timer are counted from this. */
const resolution = 10

const seconds = Effect.map(Clock.currentTimeNanos, (nanos) => Number(nanos) / 1e9)

/**
 * Calls are counted, not seconds: a process that has more to do than there is time for makes fewer of them, and may not
 * come to its timers at all.
 */
const makeCalls = (shards: number, callsMeasured: number) =>
  Effect.gen(function*() {
    const begun = yield* Deferred.make<void>()
    const ended = yield* Deferred.make<void>()
    let count = 0
    return {
      begun: Deferred.await(begun),
      ended: Deferred.await(ended),
      onGetRecords: () => {
        count++
        if (count === callsBefore * shards) Deferred.unsafeDone(begun, Effect.void)
        if (count === (callsBefore + callsMeasured) * shards) Deferred.unsafeDone(ended, Effect.void)
      }
    }
  })

const program = Effect.gen(function*() {
  const shards = yield* Config.integer("SHARDS")
  const recordsPerSecond = yield* Config.number("RECORDS_PER_SECOND")
  const callsMeasured = yield* Config.integer("CALLS")
  const idleInterval = yield* Config.duration("IDLE_INTERVAL")
  const calls = yield* makeCalls(shards, callsMeasured)
  const kinesis = yield* SteadyKinesis.make({ shards, recordsPerSecond, onGetRecords: calls.onGetRecords })
  const counted = CountedStore.make(yield* StateStore.makeMemory)
  const group = yield* Effect.map(
    Layer.build(
      Kinesumer.layer({ app: "bench", streams: [SteadyKinesis.stream], polling: { idleInterval } }).pipe(
        Layer.provide(Layer.succeed(KinesisClient.KinesisClient, kinesis)),
        Layer.provide(Layer.succeed(StateStore.StateStore, counted.store)),
        Layer.provide(Logger.minimumLogLevel(LogLevel.Warning))
      )
    ),
    Context.get(Kinesumer.Kinesumer)
  )
  let records = 0
  yield* Stream.runForEach(group.records, () => {
    records++
    return Effect.void
  }).pipe(Effect.forkScoped)

  yield* calls.begun
  const histogram = monitorEventLoopDelay({ resolution })
  histogram.enable()
  const recordsBefore = records
  const requestsBefore = counted.requests()
  const begun = yield* seconds
  const cpuBefore = process.cpuUsage()
  yield* calls.ended
  const cpu = process.cpuUsage(cpuBefore)
  const wall = (yield* seconds) - begun
  histogram.disable()
  const requests = CountedStore.since(requestsBefore, counted.requests())
  const { length: owned } = yield* group.assignment
  // Most shards have been read by now, and wait for their next call.
  yield* Effect.sleep(Duration.times(idleInterval, 0.5))
  globalThis.gc?.()
  globalThis.gc?.()
  const { heapUsed, rss } = process.memoryUsage()
  yield* Console.log(JSON.stringify({
    owned,
    cores: (cpu.user + cpu.system) / 1e6 / wall,
    callsPerSecond: callsMeasured * shards / wall,
    recordsPerSecond: (records - recordsBefore) / wall,
    delayMillis: Math.max(0, histogram.percentile(99) / 1e6 - resolution),
    rss,
    heapUsed,
    syncs: requests.memberLists,
    reads: requests.reads - requests.listReads
  }))
  // Nobody needs its leases, and a process that has too much to do may not hear a signal.
  process.exit()
})

NodeRuntime.runMain(Effect.scoped(program))
