/** The small examples as their users start them. */
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Example from "./utils/example.js"

const examples: ReadonlyArray<readonly [name: string, what: string, outcome: Readonly<Record<string, number>>]> = [
  [
    "aggregates",
    "goes on in the middle of an aggregate, and repeats nothing that was marked",
    { put: 30, handled: 30, lost: 0, repeated: 0, resumedAt: 4 }
  ],
  [
    "payload",
    "decodes what is packed, and keeps what is not",
    { put: 100, saved: 97, deadLetters: 3, notUnpacked: 1, lost: 0 }
  ],
  [
    "batches",
    "tries again what the sink refused, and ends with the last change of each account",
    { put: 200, accounts: 10, deadLetters: 1, stale: 0 }
  ],
  [
    "fencing",
    "refuses a write that comes after its shard has gone to another member",
    { customers: 2, done: 2, refused: 1 }
  ]
]

for (const [name, what, outcome] of examples) {
  it.scopedLive(
    `${name}: ${what}`,
    () =>
      Effect.gen(function*() {
        assert.deepStrictEqual(yield* Example.run(name), { outcome, exitCode: 0 })
      }),
    180_000
  )
}
