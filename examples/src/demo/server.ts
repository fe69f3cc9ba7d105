/** The Kinesis of the demo: one of two that run on this machine. */
import { LocalKinesis, type LocalServerError, LocalServers } from "@kinesumer/test-kit"
import { Context, type Effect, Layer, type Scope } from "effect"

/** Where it answers. */
export class KinesisServer extends Context.Tag("@kinesumer/examples/KinesisServer")<
  KinesisServer,
  LocalServers.LocalServer
>() {}

export type Kind = "kinesis-local" | "local"

const servers: Readonly<
  Record<Kind, Effect.Effect<LocalServers.LocalServer, LocalServerError.LocalServerError, Scope.Scope>>
> = {
  "kinesis-local": LocalServers.kinesisLocal(),
  local: LocalKinesis.make()
}

export const layer = (kind: Kind): Layer.Layer<KinesisServer, LocalServerError.LocalServerError> =>
  Layer.scoped(KinesisServer, servers[kind])
