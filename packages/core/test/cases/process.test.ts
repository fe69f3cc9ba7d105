/** What the process that a member lives in sees of it. */
import { Command } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Option, Stream } from "effect"
import { fileURLToPath } from "node:url"

const fileOf = (path: string) => fileURLToPath(new URL(path, import.meta.url))

/** A program of its own that waits for one operation, from the moment on at which it does. */
const start = (operation: string) =>
  Effect.gen(function*() {
    const child = yield* Command.start(Command.make(
      process.execPath,
      "--conditions=@kinesumer/source",
      "--import",
      fileOf("../child/typescript.mjs"),
      fileOf("../child/reads.ts"),
      operation
    ))
    const said = yield* Stream.runHead(Stream.splitLines(Stream.decodeText(child.stdout)))
    assert.deepStrictEqual(said, Option.some("pending"))
    return child
  })

describe("process-ends-while-reading", () => {
  for (const operation of ["describeStream", "getRecords"]) {
    it.scopedLive(`does not, while ${operation} is pending and nothing else holds the process`, () =>
      Effect.gen(function*() {
        const exit = yield* Effect.fork(Effect.flatMap(start("nothing"), (child) => child.exitCode))
        const child = yield* start(operation)
        // A process that only waits for such a call ends at once. So would this one have, in the same time.
        assert.strictEqual(yield* Fiber.join(exit), 0)
        assert.isTrue(yield* child.isRunning)
      }).pipe(Effect.provide(NodeContext.layer)))
  }
})
