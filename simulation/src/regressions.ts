/** The scenarios that failed once. */
import { FileSystem, Path } from "@effect/platform"
import { Effect } from "effect"
import { fileURLToPath } from "node:url"
import { readRegression } from "./scenario.js"
import type { Job } from "./task.js"

const directory = fileURLToPath(new URL("../regressions", import.meta.url))

/** Each with the name of its file. */
export const all = Effect.gen(function*() {
  const { readDirectory } = yield* FileSystem.FileSystem
  const { join } = yield* Path.Path
  const files = (yield* readDirectory(directory)).filter((file) => file.endsWith(".json")).sort()
  return yield* Effect.forEach(
    files,
    (file) =>
      Effect.map(readRegression(join(directory, file)), ({ broke: _broke, name: _name, ...scenario }): Job => ({
        name: file,
        scenario
      }))
  )
})
