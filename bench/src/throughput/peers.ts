/** Installs what the benches are measured against, where it is not there: it is no dependency of the repository. */
import { Command, FileSystem } from "@effect/platform"
import { NodeFileSystem } from "@effect/platform-node"
import { Effect } from "effect"
import { fileURLToPath } from "node:url"
import { BenchFailed } from "../bench.js"

const folder = fileURLToPath(new URL("../../peers", import.meta.url))

export const install = Effect.gen(function*() {
  const { exists } = yield* FileSystem.FileSystem
  if (yield* exists(`${folder}/node_modules/lifion-kinesis`)) return
  const code = yield* Command.exitCode(
    Command.make("npm", "install", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund", "--silent").pipe(
      Command.workingDirectory(folder),
      Command.stderr("inherit")
    )
  )
  if (code !== 0) return yield* new BenchFailed({ message: `npm install in ${folder} ends with ${code}` })
}).pipe(
  Effect.provide(NodeFileSystem.layer),
  Effect.catchTag(
    "SystemError",
    "BadArgument",
    ({ message }) => new BenchFailed({ message: `The peers can't be installed: ${message}` })
  )
)
