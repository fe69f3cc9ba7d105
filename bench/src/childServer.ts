/** A server in a process of its own: it must not share a core with who measures it. */
import { Command } from "@effect/platform"
import { NodeRuntime } from "@effect/platform-node"
import { Console, Effect, Schema, type Scope, Stream } from "effect"
import { fileURLToPath } from "node:url"
import { BenchFailed } from "./bench.js"

/** What such a server says when it listens. */
const Ready = Schema.parseJson(Schema.Struct({ port: Schema.Number }))

/** Starts a program of this folder, and gives the port that it listens on. It ends with the scope. */
export const start = (program: string, environment: Readonly<Record<string, string>> = {}) =>
  Effect.gen(function*() {
    const path = fileURLToPath(new URL(program, import.meta.url))
    const child = yield* Command.start(
      Command.make(process.execPath, path).pipe(Command.env(environment), Command.stderr("inherit"))
    )
    const line = yield* child.stdout.pipe(Stream.decodeText(), Stream.splitLines, Stream.runHead, Effect.flatten)
    const { port } = yield* Schema.decode(Ready)(line)
    return port
  }).pipe(Effect.mapError((cause) => new BenchFailed({ message: `${program} does not start: ${cause.message}` })))

/** The main of such a program: says where it listens, and stays. */
export const main = <E>(server: Effect.Effect<number, E, Scope.Scope>): void =>
  server.pipe(
    Effect.tap((port) => Console.log(JSON.stringify({ port }))),
    Effect.zipRight(Effect.never),
    Effect.scoped,
    NodeRuntime.runMain
  )
