/** What is measured: a member of a group that reads by fan-out. */
import { KinesisClient, Kinesumer, StateStore } from "@kinesumer/core"
import { Context, Effect, Layer, Logger, LogLevel, Queue, type Scope, Stream } from "effect"
import { BenchFailed } from "../bench.js"
import type { Arrival, Rival } from "./rival.js"
import * as Streams from "./streams.js"

export const make = (endpoint: string): Effect.Effect<Rival, BenchFailed, Scope.Scope> =>
  Effect.gen(function*() {
    const arrivals = yield* Queue.unbounded<Arrival>()
    const clock = yield* Effect.clock
    const decoder = new TextDecoder()
    const { records } = yield* Layer.build(
      Kinesumer.layer({ app: "bench", streams: [Streams.group], mode: "fanOut" }).pipe(
        Layer.provide(KinesisClient.layer({ endpoint, region: Streams.region, credentials: Streams.credentials })),
        Layer.provide(StateStore.layerMemory),
        Layer.provide(Logger.minimumLogLevel(LogLevel.Warning))
      )
    ).pipe(Effect.map(Context.get(Kinesumer.Kinesumer)))
    yield* Stream.runForEach(records, ({ data }) => {
      const at = clock.unsafeCurrentTimeNanos()
      return Queue.offer(arrivals, { text: decoder.decode(data), at })
    }).pipe(Effect.forkScoped)
    return { name: "Kinesumer", stream: Streams.group, arrivals }
  }).pipe(Effect.mapError((cause) => new BenchFailed({ message: cause.message })))
