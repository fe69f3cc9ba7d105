/** Builds `dist` of every package afresh, in the order of their dependencies. */
import { execFileSync } from "node:child_process"
import { rmSync } from "node:fs"
import { createRequire } from "node:module"
import { join } from "node:path"
import { buildOrder, root } from "./packages.mjs"

const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc")

// Everything is removed first, so that no package can compile against what an earlier build left behind.
for (const directory of buildOrder) {
  rmSync(join(root, directory, "dist"), { recursive: true, force: true })
}
for (const directory of buildOrder) {
  execFileSync(process.execPath, [tsc, "-p", join(directory, "tsconfig.build.json")], { cwd: root, stdio: "inherit" })
}
