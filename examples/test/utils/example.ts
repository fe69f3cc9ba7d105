/** Runs an example as its users start it, but from the sources. */
import { Command, CommandExecutor } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { Chunk, Effect, Stream } from "effect"
import { fileURLToPath } from "node:url"

const fileOf = (path: string) => fileURLToPath(new URL(path, import.meta.url))

/** What its last line says, and its exit code. */
export const run = (...args: ReadonlyArray<string>) => runIn({}, ...args)

/** The same, with these variables of the environment. */
export const runIn = (environment: Readonly<Record<string, string>>, ...args: ReadonlyArray<string>) =>
  Effect.gen(function*() {
    const executor = yield* CommandExecutor.CommandExecutor
    const child = yield* executor.start(
      Command.make(
        process.execPath,
        "--conditions=@kinesumer/source",
        "--import",
        fileOf("../../../packages/core/test/child/typescript.mjs"),
        fileOf("../../src/example.ts"),
        ...args
      ).pipe(Command.env(environment), Command.stderr("inherit"))
    )
    const lines = yield* Stream.runCollect(Stream.splitLines(Stream.decodeText(child.stdout)))
    const outcome: unknown = JSON.parse(Chunk.unsafeLast(lines))
    return { outcome, exitCode: Number(yield* child.exitCode) }
  }).pipe(Effect.provide(NodeContext.layer))
