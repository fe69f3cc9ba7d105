/** A group in virtual time, and what its members ask of their store while nothing changes. */
import { KinesisClient, Kinesumer, StateStore } from "@kinesumer/core"
import { Array, Context, Effect, Layer, Logger, LogLevel, Ref, Stream } from "effect"
import { BenchFailed } from "../bench.js"
import * as CountedStore from "../countedStore.js"
import * as SteadyKinesis from "../steadyKinesis.js"
import * as VirtualTime from "../virtualTime.js"

export interface Cell {
  readonly shards: number
  readonly members: number
  readonly isBusy: boolean
}

/** The defaults of the library. */
const seconds = { heartbeat: 5, sync: 5, commit: 5 }

/** What is asked of Kinesis makes no difference here, but that each commit finds something new where it is busy. */
const pollSeconds = { idle: 60, busy: 4 }

/** Until all shards are where they belong, and the list was refreshed once. */
const minutesBefore = 2

export interface Minutes {
  readonly minutes: number
  readonly requests: CountedStore.Requests
}

export const perMinute = {
  heartbeats: 60 / seconds.heartbeat,
  syncs: 60 / seconds.sync,
  commits: 60 / seconds.commit
}

type Store = typeof StateStore.StateStore.Service

/**
 * What is asked of the store within some minutes, from the moment on at which the group has come to rest. A store that
 * answers in real time is waited for after each of the steps.
 */
export const run = (
  cell: Cell,
  store: Store,
  { atRest = Effect.void, minutes, stepMillis = Infinity }: {
    readonly minutes: number
    readonly atRest?: Effect.Effect<void> | undefined
    readonly stepMillis?: number | undefined
  }
): Effect.Effect<Minutes, BenchFailed> =>
  Effect.gen(function*() {
    const time = VirtualTime.make()
    yield* Effect.addFinalizer(() => time.end)
    const process = yield* time.process
    const counted = CountedStore.make(store)
    const recordsPerSecond = cell.isBusy ? 1 : 0
    const kinesis = yield* Effect.withClock(
      SteadyKinesis.make({ shards: cell.shards, recordsPerSecond }),
      time.clock
    )
    const owned = yield* Ref.make<ReadonlyArray<number>>([])
    const failed = yield* Ref.make<ReadonlyArray<string>>([])
    const member = (index: number) =>
      Effect.gen(function*() {
        const group = yield* Effect.map(
          Layer.build(
            Kinesumer.layer({
              app: "bench",
              memberId: `member-${index}`,
              streams: [SteadyKinesis.stream],
              polling: { idleInterval: `${cell.isBusy ? pollSeconds.busy : pollSeconds.idle} seconds` }
            }).pipe(
              Layer.provide(Layer.succeed(KinesisClient.KinesisClient, kinesis)),
              Layer.provide(Layer.succeed(StateStore.StateStore, counted.store)),
              Layer.provide(Logger.minimumLogLevel(LogLevel.Warning))
            )
          ),
          Context.get(Kinesumer.Kinesumer)
        )
        yield* Effect.forkScoped(Stream.runDrain(group.records))
        yield* Effect.sleep(`${minutesBefore} minutes`)
        const { length } = yield* group.assignment
        yield* Ref.update(owned, Array.append(length))
        yield* Effect.never
      }).pipe(
        Effect.scoped,
        Effect.catchAllCause((cause) => Ref.update(failed, Array.append(cause.toString())))
      )
    const elapse = (millis: number) =>
      Effect.gen(function*() {
        for (let at = 0; at < millis; at += stepMillis) {
          yield* time.elapse(Math.min(stepMillis, millis - at))
          while (counted.pending() > 0) yield* time.elapse(0)
        }
      })
    for (const index of Array.range(1, cell.members)) yield* process.fork(member(index))
    yield* elapse((minutesBefore + 0.1) * 60_000)
    const sizes = yield* Ref.get(owned)
    const sum = sizes.reduce((total, size) => total + size, 0)
    const [failure] = yield* Ref.get(failed)
    if (failure !== undefined || sizes.length !== cell.members || sum !== cell.shards) {
      return yield* new BenchFailed({
        message:
          `${cell.members} members on ${cell.shards} shards have ${sum} after ${minutesBefore} minutes: ${failure}`
      })
    }
    yield* atRest
    const before = counted.requests()
    yield* elapse(minutes * 60_000)
    const requests = CountedStore.since(before, counted.requests())
    return { minutes, requests }
  }).pipe(Effect.scoped)
