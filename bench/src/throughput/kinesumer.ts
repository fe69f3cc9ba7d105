/** What is measured: a member of a group that hands each record to `Stream.runForEach`, and commits by itself. */
import { KinesisClient, Kinesumer, StateStore } from "@kinesumer/core"
import { Config, Context, Effect, Layer, Logger, LogLevel, Stream } from "effect"
import * as Contender from "./contender.js"
import * as Streams from "./streams.js"

const { port, protocol } = Effect.runSync(Config.all({
  port: Config.integer("KINESIS_PORT"),
  protocol: Config.literal("cbor", "json")("PROTOCOL")
}))

Contender.main(({ stream }, got) =>
  Effect.gen(function*() {
    const { records } = yield* Effect.map(
      Layer.build(
        Kinesumer.layer({ app: "bench", streams: [stream] }).pipe(
          Layer.provide(KinesisClient.layer({
            endpoint: Streams.endpointOf(port),
            region: Streams.region,
            credentials: Streams.credentials,
            protocol
          })),
          Layer.provide(StateStore.layerMemory),
          Layer.provide(Logger.minimumLogLevel(LogLevel.Warning))
        )
      ),
      Context.get(Kinesumer.Kinesumer)
    )
    yield* Stream.runForEach(records, ({ data }) => Effect.sync(() => got(data.byteLength > 0 ? 1 : 0)))
  })
)
