/**
 * What starting the local servers has in common.
 */
import * as Effect from "effect/Effect"
import { createRequire } from "node:module"
import { LocalServerError } from "../LocalServerError.js"
import type { LocalServer } from "../LocalServers.js"

const require_ = createRequire(import.meta.url)

const notInstalled = (server: LocalServerError["server"]) => (cause: unknown): LocalServerError =>
  new LocalServerError({
    server,
    reason: "NotInstalled",
    detail: `the package cannot be loaded. Install it beside @kinesumer/test-kit: npm install --save-dev ${server}`,
    cause
  })

/** The path of the main file of an optional package. */
export const resolve = (server: LocalServerError["server"]): Effect.Effect<string, LocalServerError> =>
  Effect.try({ try: () => require_.resolve(server), catch: notInstalled(server) })

/** An optional package. It may have no types, so what it gives is not known. */
export const load = (server: LocalServerError["server"]): Effect.Effect<unknown, LocalServerError> =>
  Effect.try({ try: (): unknown => require_(server), catch: notInstalled(server) })

export const startFailed = (server: LocalServerError["server"], detail: string, cause?: unknown): LocalServerError =>
  new LocalServerError({ server, reason: "StartFailed", detail, ...(cause === undefined ? {} : { cause }) })

export const loopback = "127.0.0.1"

export const at = (port: number): LocalServer => ({ endpoint: `http://${loopback}:${port}`, port })
