/** The example of orders as its users start it, with fewer of them. */
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Example from "./utils/example.js"

it.scopedLive(
  "orders: loses nothing, doubles nothing and reorders nothing, although it is killed",
  () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* Example.run("orders", "--count", "300"), {
        outcome: { put: 300, stored: 297, deadLetters: 3, lost: 0, doubled: 0, reorderedKeys: 0 },
        exitCode: 0
      })
    }),
  180_000
)
