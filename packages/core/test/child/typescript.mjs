/** Lets Node.js run the TypeScript of this repository as it is: `node --import` this file. */
import { readFile } from "node:fs/promises"
import { register } from "node:module"
import { fileURLToPath } from "node:url"
import { isMainThread } from "node:worker_threads"
import ts from "typescript"

// The hooks run in a thread of their own, which loads this file once more.
if (isMainThread) register(import.meta.url)

/** @type {import("node:module").ResolveHook} */
export const resolve = (specifier, context, next) =>
  context.parentURL?.endsWith(".ts") && specifier.startsWith(".")
    ? next(specifier.replace(/\.js$/, ".ts"), context)
    : next(specifier, context)

/** @type {import("node:module").LoadHook} */
export const load = async (url, context, next) => {
  if (!url.endsWith(".ts")) return next(url, context)
  const source = await readFile(fileURLToPath(url), "utf8")
  const { outputText } = ts.transpileModule(source, {
    compilerOptions: { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 }
  })
  return { format: "module", shortCircuit: true, source: outputText }
}
