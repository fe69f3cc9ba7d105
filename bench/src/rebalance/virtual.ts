/** A group of many members in this process, in virtual time: to the millisecond the same each time. */
import { KinesisClient, Kinesumer, StateStore } from "@kinesumer/core"
import { Faults, TestKinesis } from "@kinesumer/test-kit"
import { Context, Effect, Fiber, Layer, Logger, LogLevel, Stream } from "effect"
import { BenchFailed } from "../bench.js"
import * as VirtualTime from "../virtualTime.js"
import { app, type Group } from "./group.js"
import * as Notes from "./notes.js"
import * as Traffic from "./traffic.js"

/** What a call takes: about as much as in one region of AWS. */
const kinesisLatency = "20 millis"
const storeLatency = "5 millis"

const failed = (cause: { readonly message: string }) => new BenchFailed({ message: cause.message })

export const make = (size: { readonly streams: number; readonly shardsPerStream: number }) =>
  Effect.gen(function*() {
    const time = VirtualTime.make()
    yield* Effect.addFinalizer(() => time.end)
    const notes = Notes.make()
    const kinesis = yield* TestKinesis.make({ latency: kinesisLatency }).pipe(Effect.withClock(time.clock))
    const store = yield* StateStore.makeMemory
    const faults = yield* Faults.make
    yield* faults.addStore({}, Faults.delay(storeLatency))
    const streams = Array.from({ length: size.streams }, (_, index) => `stream-${index}`)
    const shards = yield* Effect.forEach(streams, (name) =>
      Effect.zipRight(
        kinesis.createStream({ name, shards: size.shardsPerStream }),
        Effect.map(kinesis.shards(name), (all) => all.map(({ shardId }) => ({ stream: name, shardId })))
      )).pipe(Effect.map((all) => all.flat()), Effect.mapError(failed))

    const producer = yield* time.process
    yield* producer.fork(
      Effect.forever(Effect.zipRight(
        Effect.suspend(() =>
          Effect.forEach(
            shards.filter((_, index) => Traffic.phaseOf(index) === time.now() % Traffic.putMillis),
            ({ shardId, stream }) => kinesis.putTo({ stream, shardId, data: "record" }),
            { discard: true }
          )
        ),
        Effect.sleep(Traffic.tickMillis)
      ))
    )

    const start: Group["start"] = (memberId) =>
      Effect.gen(function*() {
        const client: KinesisClient.KinesisClient["Type"] = {
          ...kinesis.client,
          getRecords: (stream, shardId, options) =>
            Effect.tap(
              kinesis.client.getRecords(stream, shardId, options),
              () => Effect.sync(() => notes.answered(stream.name, shardId, memberId, time.now()))
            )
        }
        const wrapped = yield* Layer.build(
          Faults.stateStore({ member: memberId }).pipe(
            Layer.provide(Layer.succeed(StateStore.StateStore, store)),
            Layer.provide(Layer.succeed(Faults.Faults, faults))
          )
        ).pipe(Effect.scoped, Effect.map(Context.get(StateStore.StateStore)))
        const life = Effect.gen(function*() {
          const { records } = yield* Kinesumer.make({ app, streams, memberId })
          yield* Stream.runForEach(records, ({ arrivalTime, sequenceNumber, shardId, stream }) =>
            Effect.zipRight(
              Effect.sync(() => {
                const at = time.now()
                const put = (arrivalTime?.getTime() ?? NaN) - VirtualTime.epoch
                notes.delivered({ stream, shardId, sequenceNumber, at, latency: at - put })
              }),
              Effect.sleep(Traffic.handling)
            ))
        }).pipe(
          Effect.scoped,
          Effect.provideService(KinesisClient.KinesisClient, client),
          Effect.provideService(StateStore.StateStore, wrapped),
          // Those that were killed warn, at the end of all, of leases that they have lost.
          Logger.withMinimumLogLevel(LogLevel.Error)
        )
        const process = yield* time.process
        const startedAt = time.now()
        const fiber = yield* process.fork(life)
        return {
          memberId,
          startedAt,
          leave: Effect.asVoid(Effect.forkDaemon(Fiber.interrupt(fiber))),
          crash: process.kill
        }
      })

    const group: Group = {
      streams,
      shards: shards.length,
      store,
      notes,
      now: Effect.sync(time.now),
      elapse: time.elapse,
      start
    }
    return group
  })
