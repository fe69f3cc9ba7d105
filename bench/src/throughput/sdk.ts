/** A loop of the SDK as it is: it decodes and counts, and nothing else. */
import * as Sdk from "@aws-sdk/client-kinesis"
import { NodeHttpHandler } from "@smithy/node-http-handler"
import { Array, Config, Effect } from "effect"
import * as Contender from "./contender.js"
import * as Pace from "./pace.js"
import * as Streams from "./streams.js"

const port = Effect.runSync(Config.integer("KINESIS_PORT"))

Contender.main(({ stream }, got) =>
  Effect.gen(function*() {
    const client = yield* Effect.acquireRelease(
      Effect.sync(() =>
        new Sdk.KinesisClient({
          endpoint: Streams.endpointOf(port),
          region: Streams.region,
          credentials: Streams.credentials,
          requestHandler: new NodeHttpHandler({ httpAgent: { maxSockets: Streams.shards } })
        })
      ),
      (client) => Effect.sync(() => client.destroy())
    )
    yield* Effect.forEach(Array.range(0, Streams.shards - 1), (shard) =>
      Effect.gen(function*() {
        const { ShardIterator: first } = yield* Effect.tryPromise((abortSignal) =>
          client.send(
            new Sdk.GetShardIteratorCommand({
              StreamName: stream,
              ShardId: Streams.shardId(shard),
              ShardIteratorType: "TRIM_HORIZON"
            }),
            { abortSignal }
          )
        )
        yield* Pace.loop(first ?? "", (iterator) =>
          Effect.map(
            Effect.tryPromise((abortSignal) =>
              client.send(new Sdk.GetRecordsCommand({ ShardIterator: iterator, Limit: 10_000 }), { abortSignal })
            ),
            ({ NextShardIterator: next, Records: records = [] }) => ({
              records: records.length,
              bytes: records.reduce(
                (sum, { Data, PartitionKey }) => sum + (Data?.byteLength ?? 0) + (PartitionKey?.length ?? 0),
                0
              ),
              next
            })
          ), got)
      }), { concurrency: "unbounded", discard: true })
  })
)
