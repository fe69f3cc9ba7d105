import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import ts from "typescript"
import { apply, type Mutation } from "../src/mutation/mutation.js"
import { mutations } from "../src/mutation/mutations.js"

const root = fileURLToPath(new URL("../..", import.meta.url))
const compilerOptions: ts.CompilerOptions = {
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.ESNext,
  verbatimModuleSyntax: true
}

/** What the build makes of a module. */
const built = ({ file }: Mutation): string => {
  const source = readFileSync(`${root}packages/core/src/${file.replace(/\.js$/, ".ts")}`, "utf8")
  return ts.transpileModule(source, { compilerOptions }).outputText
}

const problems = (javascript: string) =>
  ts.transpileModule(javascript, {
    compilerOptions: { ...compilerOptions, allowJs: true },
    fileName: "mutated.js",
    reportDiagnostics: true
  }).diagnostics ?? []

describe("mutations", () => {
  it.each(mutations.map((mutation) => [mutation.name, mutation] as const))("%s", (_name, mutation) => {
    const source = built(mutation)
    const mutated = apply(mutation, source)
    assert.notStrictEqual(mutated, source)
    assert.deepStrictEqual(problems(mutated), [])
  })

  it("have names of their own", () => {
    assert.lengthOf(new Set(mutations.map(({ name }) => name)), mutations.length)
  })

  it("are refused where their text is gone, or occurs twice", () => {
    const mutation: Mutation = {
      name: "nothing",
      breaks: "",
      file: "internal/lane.js",
      changes: [{ text: "a", replacement: "b" }]
    }
    assert.throws(() => apply(mutation, "x"), /"nothing".*internal\/lane\.js.*exactly once.*does not/)
    assert.throws(() => apply(mutation, "a a"), /exactly once.*does more often/)
    assert.strictEqual(apply(mutation, "x a"), "x b")
  })
})
