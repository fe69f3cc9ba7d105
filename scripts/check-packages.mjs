/**
 * Checks what would be published: packs every package and looks at the tarball with publint and attw, and type-checks
 * the emitted declarations themselves, which `skipLibCheck` hides when one refers to something that was stripped.
 */
import { execFileSync } from "node:child_process"
import { mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import ts from "typescript"
import { published, root } from "./packages.mjs"

const bin = join(root, "node_modules", ".bin")
const destination = mkdtempSync(join(tmpdir(), "kinesumer-pack-"))

/**
 * @param {string} command
 * @param {ReadonlyArray<string>} args
 * @param {string} cwd
 */
const run = (command, args, cwd) => {
  try {
    execFileSync(command, args, { cwd, stdio: "inherit" })
  } catch {
    process.exitCode = 1
  }
}

const declarations = published.flatMap((directory) => {
  const dist = join(root, directory, "dist")
  return readdirSync(dist, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".d.ts"))
    .map((file) => join(dist, file))
})
const config = ts.getParsedCommandLineOfConfigFile(join(root, "tsconfig.base.json"), {
  noEmit: true,
  skipLibCheck: false
}, { ...ts.sys, onUnRecoverableConfigFileDiagnostic: () => {} })
if (config === undefined) throw new Error("tsconfig.base.json cannot be read")
const program = ts.createProgram(declarations, config.options)
const problems = declarations.flatMap((file) => [...program.getSemanticDiagnostics(program.getSourceFile(file))])
if (problems.length > 0) {
  console.error(ts.formatDiagnostics(problems, {
    getCanonicalFileName: (file) => file,
    getCurrentDirectory: () => root,
    getNewLine: () => "\n"
  }))
  process.exitCode = 1
}

try {
  for (const directory of published) {
    run("npx", ["-y", "pnpm@10.34.8", "pack", "--pack-destination", destination], join(root, directory))
  }
  const tarballs = readdirSync(destination)
  if (tarballs.length !== published.length) {
    console.error(`packed ${tarballs.length} of ${published.length} packages`)
    process.exitCode = 1
  }
  for (const tarball of tarballs) {
    run(join(bin, "publint"), ["--strict", join(destination, tarball)], root)
    run(join(bin, "attw"), ["--profile", "esm-only", "--format", "table-flipped", join(destination, tarball)], root)
  }
} finally {
  rmSync(destination, { recursive: true, force: true })
}
