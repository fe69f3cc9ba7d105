/** What the documents show is what type-checks and runs here. */
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { readFileSync } from "node:fs"

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8")

for (
  const [document, source] of [
    ["README.md", "examples/src/quickstart.ts"],
    ["README.md", "examples/src/processing.ts"],
    ["docs/testing.md", "examples/test/consumer.test.ts"],
    ["docs/testing.md", "examples/test/store.test.ts"]
  ] as const
) {
  it.effect(`${document} shows ${source} as it is`, () =>
    Effect.sync(() => {
      const [, after = ""] = read(document).split(`<!-- ${source} -->\n\`\`\`ts\n`)
      assert.strictEqual(after.slice(0, after.indexOf("```")), read(source))
    }))
}
