/** Fails when modules under `packages/*\/src` import one another in a circle; imports of types alone do not count. */
import madge from "madge"
import { join } from "node:path"
import { published, root } from "./packages.mjs"

const graph = await madge(published.map((directory) => join(root, directory, "src")), {
  baseDir: root,
  fileExtensions: ["ts"],
  detectiveOptions: { ts: { skipTypeImports: true } }
})
const circles = graph.circular()
for (const circle of circles) {
  console.error(`circular import: ${[...circle, circle[0]].join(" -> ")}`)
}
if (circles.length > 0) process.exitCode = 1
