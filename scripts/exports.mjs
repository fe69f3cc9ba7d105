/**
 * Writes the `exports` map of every published package from its public modules, `src/*.ts`.
 *
 * Each module gets a path of its own (no pattern), so that the packaging checks see every one of them;
 * `src/internal` stays private. With `--check` nothing is written, and a map that is out of date is an error.
 */
import { readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { published, root } from "./packages.mjs"

const check = process.argv.includes("--check")

/** @param {string} module */
const conditions = (module) => ({
  "@kinesumer/source": `./src/${module}.ts`,
  "types": `./dist/${module}.d.ts`,
  "default": `./dist/${module}.js`
})

let outdated = 0
for (const directory of published) {
  const modules = readdirSync(join(root, directory, "src"), { withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(".ts"))
    .map((entry) => entry.name.slice(0, -".ts".length))
    .filter((module) => module !== "index")
    .sort()
  const exports = {
    ".": conditions("index"),
    ...Object.fromEntries(modules.map((module) => [`./${module}`, conditions(module)])),
    "./package.json": "./package.json"
  }
  const file = join(root, directory, "package.json")
  const before = readFileSync(file, "utf8")
  const after = `${JSON.stringify({ ...JSON.parse(before), exports }, null, 2)}\n`
  if (before === after) continue
  outdated++
  if (check) {
    console.error(`${directory}/package.json: the exports are out of date, run \`node scripts/exports.mjs\``)
  } else {
    writeFileSync(file, after)
  }
}
if (check && outdated > 0) process.exitCode = 1
