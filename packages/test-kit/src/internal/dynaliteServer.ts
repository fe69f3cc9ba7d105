/**
 * `dynalite` in this process.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { Server } from "node:http"
import type { LocalServerError } from "../LocalServerError.js"
import type { DynaliteOptions, LocalServer } from "../LocalServers.js"
import { at, load, loopback, startFailed } from "./localServer.js"

const failed = (detail: string, cause?: unknown) => startFailed("dynalite", detail, cause)

/** What `dynalite` gives: it has no types of its own. */
type MakeServer = (options: Readonly<Record<string, number>>) => unknown

const isMakeServer = (value: unknown): value is MakeServer => typeof value === "function"

const isServer = (value: unknown): value is Server => value instanceof Server

const create = (dynalite: unknown, changeMillis: number): Effect.Effect<Server, LocalServerError> =>
  Effect.suspend(() => {
    const server = isMakeServer(dynalite)
      ? dynalite({ createTableMs: changeMillis, updateTableMs: changeMillis, deleteTableMs: changeMillis })
      : undefined
    return isServer(server) ? Effect.succeed(server) : Effect.fail(failed("the package makes no HTTP server"))
  })

const listen = (server: Server): Effect.Effect<number, LocalServerError> =>
  Effect.async((resume) => {
    server.once("error", (cause) => resume(Effect.fail(failed(`it cannot listen on ${loopback}`, cause))))
    server.listen(0, loopback, () => {
      const address = server.address()
      resume(
        typeof address === "object" && address !== null
          ? Effect.succeed(address.port)
          : Effect.fail(failed("it listens on no port"))
      )
    })
  })

const stop = (server: Server): Effect.Effect<void> =>
  Effect.async((resume) => {
    server.close(() => resume(Effect.void))
    // Clients keep their connections open, and closing would wait for them.
    server.closeAllConnections()
  })

export const start = (options: DynaliteOptions = {}): Effect.Effect<LocalServer, LocalServerError, Scope.Scope> =>
  Effect.gen(function*() {
    const dynalite = yield* load("dynalite")
    const server = yield* create(dynalite, Duration.toMillis(options.changeTime ?? 0))
    const port = yield* Effect.acquireRelease(listen(server), () => stop(server))
    return at(port)
  })
