/** What a consumer group never does to a stream: creates it, fills it, reshards it. */
import * as Sdk from "@aws-sdk/client-kinesis"
import { NodeHttpHandler } from "@smithy/node-http-handler"
import { Context, Data, Effect, Layer, Schedule } from "effect"

export class KinesisFailed extends Data.TaggedError("KinesisFailed")<{
  readonly operation: string
  readonly cause: unknown
}> {
  override get message(): string {
    return `${this.operation} failed: ${this.cause instanceof Error ? this.cause.message : String(this.cause)}`
  }
}

export class Kinesis extends Context.Tag("@kinesumer/examples/Kinesis")<Kinesis, {
  /** Calls the SDK. Interruption aborts the request. */
  readonly use: <A>(
    operation: string,
    call: (client: Sdk.KinesisClient, abort: { readonly abortSignal: AbortSignal }) => Promise<A>
  ) => Effect.Effect<A, KinesisFailed>
}>() {}

export const layer = (options: { readonly region: string; readonly endpoint: string }): Layer.Layer<Kinesis> =>
  Layer.scoped(
    Kinesis,
    Effect.map(
      Effect.acquireRelease(
        Effect.sync(() => {
          // What the SDK says of newer versions of Node.js would stand in the middle of the table.
          process.env["AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED"] ??= "true"
          return new Sdk.KinesisClient({
            ...options,
            credentials: { accessKeyId: "demo", secretAccessKey: "demo" },
            // The SDK's default is HTTP/2, which local servers do not speak.
            requestHandler: new NodeHttpHandler()
          })
        }),
        (client) => Effect.sync(() => client.destroy())
      ),
      (client) => ({
        use: (operation, call) =>
          Effect.tryPromise({
            try: (abortSignal) => call(client, { abortSignal }),
            catch: (cause) => new KinesisFailed({ operation, cause })
          })
      })
    )
  )

export const createStream = (StreamName: string, ShardCount: number): Effect.Effect<void, KinesisFailed, Kinesis> =>
  Effect.gen(function*() {
    const { use } = yield* Kinesis
    yield* use(
      "CreateStream",
      (client, abort) => client.send(new Sdk.CreateStreamCommand({ StreamName, ShardCount }), abort)
    )
    yield* untilActive(StreamName)
  })

/** Creating, splitting and merging take a moment. */
export const untilActive = (StreamName: string): Effect.Effect<void, KinesisFailed, Kinesis> =>
  Effect.gen(function*() {
    const { use } = yield* Kinesis
    yield* use("DescribeStreamSummary", (client, abort) =>
      client.send(new Sdk.DescribeStreamSummaryCommand({ StreamName }), abort)).pipe(
        Effect.repeat({
          schedule: Schedule.spaced("50 millis"),
          until: ({ StreamDescriptionSummary }) =>
            StreamDescriptionSummary?.StreamStatus === "ACTIVE"
        })
      )
  })
