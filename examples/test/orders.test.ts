/** The example of orders as its users start it, with fewer of them. */
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Example from "./utils/example.js"

it.scopedLive(
  "orders: loses nothing, doubles nothing and reorders nothing, although it is killed, and counts no earlier run",
  () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* fs.makeTempDirectoryScoped({ prefix: "kinesumer-orders-test-" })
      const run = Example.runIn({ DATABASE_URL: `file:${directory}/orders.db` }, "orders", "--count", "300")
      const expected = {
        outcome: { put: 300, stored: 297, deadLetters: 3, lost: 0, doubled: 0, reorderedKeys: 0 },
        exitCode: 0
      }
      assert.deepStrictEqual(yield* run, expected)
      assert.deepStrictEqual(yield* run, expected)
    }).pipe(Effect.provide(NodeContext.layer)),
  180_000
)
