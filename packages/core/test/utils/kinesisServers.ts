/** The servers that the integration tests speak to: each test runs against both, unless it says why not. */
import { LocalKinesis, type LocalServerError, LocalServers } from "@kinesumer/test-kit"
import { Context, type Effect, Layer, type Scope } from "effect"

export interface KinesisServer {
  readonly name: "kinesis-local" | "LocalKinesis"
  readonly start: Effect.Effect<LocalServers.LocalServer, LocalServerError.LocalServerError, Scope.Scope>
}

export const kinesisServers: ReadonlyArray<KinesisServer> = [
  { name: "kinesis-local", start: LocalServers.kinesisLocal() },
  // With what the other one does not have left out: limits, and pages of more than 100 shards.
  { name: "LocalKinesis", start: LocalKinesis.make({ limits: false, pageSize: 100 }) }
]

/** The server of a layer. */
export class Kinesis extends Context.Tag("@kinesumer/core/test/Kinesis")<Kinesis, LocalServers.LocalServer>() {}

export const layer = (server: KinesisServer): Layer.Layer<Kinesis, LocalServerError.LocalServerError> =>
  Layer.scoped(Kinesis, server.start)
