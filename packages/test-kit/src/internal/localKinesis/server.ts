/**
 * The server of `LocalKinesis`.
 */
import type * as HttpServer from "@effect/platform/HttpServer"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { LocalServerError } from "../../LocalServerError.js"
import type { LocalServer } from "../../LocalServers.js"
import { at, loopback, startFailed } from "../localServer.js"
import type { Server } from "../testServer.js"
import * as OnePort from "./onePort.js"
import * as Router from "./router.js"

/** The package is optional, so it is loaded when it is needed. */
const platformNode = Effect.tryPromise({
  try: () => import("@effect/platform-node/NodeHttpServer"),
  catch: (cause) =>
    new LocalServerError({
      server: "local-kinesis",
      reason: "NotInstalled",
      detail: "@effect/platform-node cannot be loaded. Install it beside @kinesumer/test-kit: " +
        "npm install --save-dev @effect/platform-node",
      cause
    })
})

const portOf = (server: HttpServer.HttpServer): number => server.address._tag === "TcpAddress" ? server.address.port : 0

/** @internal */
export const start = (
  kinesis: Server,
  options: { readonly port: number; readonly latency: Duration.Duration }
): Effect.Effect<LocalServer, LocalServerError, Scope.Scope> =>
  Effect.gen(function*() {
    const NodeHttpServer = yield* platformNode
    const { disconnect, server } = OnePort.make()
    const http = yield* NodeHttpServer.make(() => server, { host: loopback, port: options.port }).pipe(
      Effect.mapError((cause) => startFailed("local-kinesis", `it cannot listen on port ${options.port}`, cause))
    )
    // The server waits for its connections when it closes, so they end before.
    yield* Effect.addFinalizer(() => Effect.sync(disconnect))
    yield* http.serve(Router.make(kinesis, options.latency))
    return at(portOf(http))
  })
