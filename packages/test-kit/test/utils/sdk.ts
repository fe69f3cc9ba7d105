/** The AWS SDK, unmodified, in each protocol that `LocalKinesis` speaks. */
import * as Sdk from "@aws-sdk/client-kinesis"
import { AwsSmithyRpcV2CborProtocol } from "@aws-sdk/core/protocols"
import { NodeHttpHandler } from "@smithy/node-http-handler"
import { Effect } from "effect"

export const region = "us-east-1"

/** Each client has a handler of its own, which is gone with it. */
type Configure = () => Sdk.KinesisClientConfig

const http1: Configure = () => ({ requestHandler: new NodeHttpHandler() })
const cbor = { protocol: AwsSmithyRpcV2CborProtocol }

export const protocols: ReadonlyArray<readonly [string, Configure]> = [
  ["JSON over HTTP/2", () => ({})],
  ["JSON over HTTP/1.1", http1],
  ["CBOR over HTTP/2", () => cbor],
  ["CBOR over HTTP/1.1", () => ({ ...http1(), ...cbor })]
]

/** What one client is asked for. */
export const connect = (endpoint: string, configure: Configure = () => ({})) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() =>
        new Sdk.KinesisClient({
          endpoint,
          region,
          credentials: { accessKeyId: "any", secretAccessKey: "any" },
          maxAttempts: 1,
          ...configure()
        })
      ),
      (client) => Effect.sync(() => client.destroy())
    ),
    (client) => <A>(call: (client: Sdk.KinesisClient) => Promise<A>) => Effect.tryPromise(() => call(client))
  )
