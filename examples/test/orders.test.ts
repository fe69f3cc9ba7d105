/** The example of orders as its users start it, with fewer of them. */
import { Command, CommandExecutor } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, it } from "@effect/vitest"
import { Chunk, Effect, Stream } from "effect"
import { fileURLToPath } from "node:url"

const fileOf = (path: string) => fileURLToPath(new URL(path, import.meta.url))

it.scopedLive(
  "orders: loses nothing, doubles nothing and reorders nothing, although it is killed",
  () =>
    Effect.gen(function*() {
      const executor = yield* CommandExecutor.CommandExecutor
      const child = yield* executor.start(
        Command.make(
          process.execPath,
          "--conditions=@kinesumer/source",
          "--import",
          fileOf("../../packages/core/test/child/typescript.mjs"),
          fileOf("../src/example.ts"),
          "orders",
          "--count",
          "300"
        ).pipe(Command.stderr("inherit"))
      )
      const lines = yield* Stream.runCollect(Stream.splitLines(Stream.decodeText(child.stdout)))
      assert.deepStrictEqual(JSON.parse(Chunk.unsafeLast(lines)), {
        put: 300,
        stored: 297,
        deadLetters: 3,
        lost: 0,
        doubled: 0,
        reorderedKeys: 0
      })
      assert.strictEqual(yield* child.exitCode, 0)
    }).pipe(Effect.provide(NodeContext.layer)),
  180_000
)
