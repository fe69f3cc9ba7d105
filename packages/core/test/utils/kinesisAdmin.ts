/** What a group never does to a stream, and a test must: create it, fill it, reshard it. */
import * as Sdk from "@aws-sdk/client-kinesis"
import { NodeHttpHandler } from "@smithy/node-http-handler"
import { Data, Effect } from "effect"

export class AdminError extends Data.TaggedError("AdminError")<{ readonly cause: unknown }> {
  override get message(): string {
    return String(this.cause)
  }
}

export interface PutResult {
  readonly shardId: string
  readonly sequenceNumber: string
}

/** Hash keys of a stream with one shard go from 0 to this. */
export const lastHashKey = (2n ** 128n) - 1n

/** Operations that return when the stream is active again. */
export const make = (options: { readonly endpoint: string; readonly region: string }) =>
  Effect.gen(function*() {
    const client = yield* Effect.acquireRelease(
      Effect.sync(() =>
        new Sdk.KinesisClient({
          ...options,
          credentials: { accessKeyId: "test", secretAccessKey: "test" },
          requestHandler: new NodeHttpHandler()
        })
      ),
      (client) => Effect.sync(() => client.destroy())
    )

    const call = <A>(send: (abortSignal: AbortSignal) => Promise<A>): Effect.Effect<A, AdminError> =>
      Effect.tryPromise({ try: (abortSignal) => send(abortSignal), catch: (cause) => new AdminError({ cause }) })

    const describe = (StreamName: string) =>
      call((abortSignal) => client.send(new Sdk.DescribeStreamSummaryCommand({ StreamName }), { abortSignal }))

    const untilActive = (name: string) =>
      describe(name).pipe(
        Effect.delay("10 millis"),
        Effect.repeat({ until: ({ StreamDescriptionSummary }) => StreamDescriptionSummary?.StreamStatus === "ACTIVE" }),
        Effect.asVoid
      )

    return {
      createStream: (name: string, shards: number): Effect.Effect<void, AdminError> =>
        call((abortSignal) =>
          client.send(new Sdk.CreateStreamCommand({ StreamName: name, ShardCount: shards }), { abortSignal })
        ).pipe(Effect.zipRight(untilActive(name))),

      deleteStream: (name: string): Effect.Effect<void, AdminError> =>
        call((abortSignal) => client.send(new Sdk.DeleteStreamCommand({ StreamName: name }), { abortSignal })).pipe(
          Effect.zipRight(
            describe(name).pipe(Effect.delay("10 millis"), Effect.forever, Effect.catchAll(() => Effect.void))
          )
        ),

      put: (name: string, partitionKey: string, data: Uint8Array): Effect.Effect<PutResult, AdminError> =>
        call((abortSignal) =>
          client.send(new Sdk.PutRecordCommand({ StreamName: name, PartitionKey: partitionKey, Data: data }), {
            abortSignal
          })
        ).pipe(Effect.map(({ SequenceNumber, ShardId }) => ({
          shardId: ShardId ?? "",
          sequenceNumber: SequenceNumber ?? ""
        }))),

      /** The second half begins at `at`. */
      splitShard: (name: string, shardId: string, at: bigint): Effect.Effect<void, AdminError> =>
        call((abortSignal) =>
          client.send(
            new Sdk.SplitShardCommand({ StreamName: name, ShardToSplit: shardId, NewStartingHashKey: `${at}` }),
            { abortSignal }
          )
        ).pipe(Effect.zipRight(untilActive(name))),

      mergeShards: (name: string, shardId: string, adjacent: string): Effect.Effect<void, AdminError> =>
        call((abortSignal) =>
          client.send(
            new Sdk.MergeShardsCommand({ StreamName: name, ShardToMerge: shardId, AdjacentShardToMerge: adjacent }),
            { abortSignal }
          )
        ).pipe(Effect.zipRight(untilActive(name)))
    }
  })
