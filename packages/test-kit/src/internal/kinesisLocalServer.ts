/**
 * `kinesis-local` in a process of its own.
 */
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import type * as Scope from "effect/Scope"
import { type ChildProcess, spawn } from "node:child_process"
import { dirname } from "node:path"
import type { LocalServerError } from "../LocalServerError.js"
import type { KinesisLocalOptions, LocalServer } from "../LocalServers.js"
import { at, loopback, resolve, startFailed } from "./localServer.js"

const failed = (detail: string, cause?: unknown) => startFailed("kinesis-local", detail, cause)

/** What the program asks for, only to tell its two servers apart. It gets free ports in their place. */
const plainPort = 4568
const tlsPort = 4567

/**
 * Runs before the program and in its process. It listens on all addresses and on ports that are chosen beforehand, by
 * which time another may have taken them; so `listen` takes a free port of the loopback address and tells which one.
 * And it does not know its parent: the channel between the two breaks however the parent ends, and the program with it.
 */
const prelude = `
"use strict"
const { Server } = require("node:net")
const { listen } = Server.prototype
const { exit } = process
process.once("disconnect", () => exit.call(process, 0))
Server.prototype.listen = function(asked, ...rest) {
  this.once("listening", () => process.send({ asked, port: this.address().port }))
  return listen.call(this, 0, "${loopback}", rest.find((argument) => typeof argument === "function"))
}
require(process.argv[1])
`

const isListening = Predicate.compose(
  Predicate.isRecord,
  Predicate.struct({ asked: Predicate.isNumber, port: Predicate.isNumber })
)

interface Program {
  readonly child: ChildProcess
  /** The port that answers plain HTTP. */
  readonly port: Deferred.Deferred<number, LocalServerError>
  readonly ended: Deferred.Deferred<void>
}

const environment = (options: KinesisLocalOptions): NodeJS.ProcessEnv => {
  const changeTime = `${Math.max(1, Math.round(Duration.toMillis(options.changeTime ?? 10)))}ms`
  return {
    ...process.env,
    // Options for this process, such as a loader, are not for that one.
    NODE_OPTIONS: undefined,
    LOG_LEVEL: "ERROR",
    SHARD_LIMIT: `${options.shardLimit ?? 10_000}`,
    CREATE_STREAM_DURATION: changeTime,
    DELETE_STREAM_DURATION: changeTime,
    REGISTER_STREAM_CONSUMER_DURATION: changeTime,
    DEREGISTER_STREAM_CONSUMER_DURATION: changeTime,
    SPLIT_SHARD_DURATION: changeTime,
    MERGE_SHARDS_DURATION: changeTime,
    UPDATE_SHARD_COUNT_DURATION: changeTime,
    UPDATE_STREAM_MODE_DURATION: changeTime,
    ...options.environment,
    KINESIS_MOCK_PLAIN_PORT: `${plainPort}`,
    KINESIS_MOCK_TLS_PORT: `${tlsPort}`
  }
}

const tailLength = 2_000

/** Listeners are there before anything can happen, and turn into what can be awaited. */
export const run = (main: string, options: KinesisLocalOptions): Effect.Effect<Program> =>
  Effect.gen(function*() {
    const port = yield* Deferred.make<number, LocalServerError>()
    const ended = yield* Deferred.make<void>()
    return yield* Effect.sync(() => {
      const child = spawn(process.execPath, ["-e", prelude, main], {
        // It finds its certificate there.
        cwd: dirname(main),
        env: environment(options),
        stdio: ["ignore", "ignore", "pipe", "ipc"]
      })
      let output = ""
      child.stderr?.setEncoding("utf8").on("data", (text: string) => {
        output = (output + text).slice(-tailLength)
      })
      child.on("message", (message) => {
        if (isListening(message) && message.asked === plainPort) {
          Deferred.unsafeDone(port, Effect.succeed(message.port))
        }
      })
      child.on("error", (cause) => {
        Deferred.unsafeDone(port, Effect.fail(failed("the process cannot be started", cause)))
        if (child.pid === undefined) Deferred.unsafeDone(ended, Effect.void)
      })
      child.on("exit", () => Deferred.unsafeDone(ended, Effect.void))
      // All of its output is here only now.
      child.on("close", (code, signal) => {
        const end = `the process ended (${signal ?? `exit code ${code ?? "unknown"}`})`
        Deferred.unsafeDone(port, Effect.fail(failed(output === "" ? end : `${end}: ${output.trim()}`)))
      })
      return { child, port, ended }
    })
  })

const stop = ({ child, ended }: Program): Effect.Effect<void> =>
  Effect.zipRight(Effect.sync(() => child.kill("SIGKILL")), Deferred.await(ended))

/** It listens before it answers. */
const answer = (server: LocalServer): Effect.Effect<void, LocalServerError> =>
  Effect.tryPromise({
    try: (signal) => fetch(`${server.endpoint}/healthcheck`, { signal }),
    catch: (cause) => failed(`no answer at ${server.endpoint}`, cause)
  }).pipe(Effect.flatMap((response) =>
    response.ok ? Effect.void : Effect.fail(failed(`${server.endpoint}/healthcheck answers ${response.status}`))
  ))

export const start = (options: KinesisLocalOptions = {}): Effect.Effect<LocalServer, LocalServerError, Scope.Scope> =>
  Effect.gen(function*() {
    const main = yield* resolve("kinesis-local")
    const program = yield* Effect.acquireRelease(run(main, options), stop)
    const startTimeout = Duration.decode(options.startTimeout ?? Duration.seconds(30))
    return yield* Deferred.await(program.port).pipe(
      Effect.map(at),
      Effect.tap(answer),
      Effect.timeoutFail({
        duration: startTimeout,
        onTimeout: () => failed(`it has not come up within ${Duration.format(startTimeout)}`)
      })
    )
  })
