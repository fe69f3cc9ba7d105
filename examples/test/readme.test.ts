/** What the README shows is what type-checks here. */
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { readFileSync } from "node:fs"

it.effect("the README's quick start is the example's source", () =>
  Effect.sync(() => {
    const read = (path: string) => readFileSync(new URL(path, import.meta.url), "utf8")
    const [, shown] = /<!-- examples\/src\/quickstart.ts -->\n```ts\n([^]*?)```/.exec(read("../../README.md")) ?? []
    assert.strictEqual(shown, read("../src/quickstart.ts"))
  }))
