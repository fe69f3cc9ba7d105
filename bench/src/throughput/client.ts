/** A loop of our client, in the form that `PROTOCOL` says: what the pipeline behind it is measured against. */
import { KinesisClient, Position } from "@kinesumer/core"
import { Array, Config, Context, Effect, Layer, Option } from "effect"
import * as Contender from "./contender.js"
import * as Pace from "./pace.js"
import * as Streams from "./streams.js"

const { port, protocol } = Effect.runSync(Config.all({
  port: Config.integer("KINESIS_PORT"),
  protocol: Config.literal("cbor", "json")("PROTOCOL")
}))

Contender.main(({ stream }, got) =>
  Effect.gen(function*() {
    const client = yield* Effect.map(
      Layer.build(
        KinesisClient.layer({
          endpoint: Streams.endpointOf(port),
          region: Streams.region,
          credentials: Streams.credentials,
          protocol
        })
      ),
      Context.get(KinesisClient.KinesisClient)
    )
    const id = { name: stream, arn: Option.none() }
    yield* Effect.forEach(Array.range(0, Streams.shards - 1), (shard) =>
      Effect.gen(function*() {
        const shardId = Streams.shardId(shard)
        const first = yield* client.getShardIterator(id, shardId, Position.trimHorizon)
        yield* Pace.loop(first, (iterator) =>
          client.getRecords(id, shardId, { iterator, limit: 10_000 }).pipe(
            // As the SDK does by itself: the server may have closed a connection that was idle.
            Effect.retry({ times: 2, while: ({ retryable }) => retryable }),
            Effect.map(({ nextIterator, records }) => ({
              records: records.length,
              bytes: records.reduce((sum, { data, partitionKey }) => sum + data.byteLength + partitionKey.length, 0),
              next: Option.getOrUndefined(nextIterator)
            }))
          ), got)
      }), { concurrency: "unbounded", discard: true })
  })
)
