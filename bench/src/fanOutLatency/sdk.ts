/** The SDK as it is, with what a plain server needs. */
import * as Sdk from "@aws-sdk/client-kinesis"
import { NodeHttpHandler } from "@smithy/node-http-handler"
import { Effect, type Scope } from "effect"
import { BenchFailed } from "../bench.js"
import * as Streams from "./streams.js"

export type Call = <A>(
  send: (client: Sdk.KinesisClient, abortSignal: AbortSignal) => Promise<A>
) => Effect.Effect<A, BenchFailed>

export const connect = (endpoint: string): Effect.Effect<Call, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() =>
        new Sdk.KinesisClient({
          endpoint,
          region: Streams.region,
          credentials: Streams.credentials,
          requestHandler: new NodeHttpHandler()
        })
      ),
      (client) => Effect.sync(() => client.destroy())
    ),
    (client): Call => (send) =>
      Effect.tryPromise({
        try: (abortSignal) => send(client, abortSignal),
        catch: (cause) => new BenchFailed({ message: `The SDK fails: ${String(cause)}` })
      })
  )
