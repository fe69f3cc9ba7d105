/** The last figures of each bench, kept in `bench/results`, and the chart of all of them. */
import { FileSystem } from "@effect/platform"
import { Clock, Effect, Schema } from "effect"
import { availableParallelism } from "node:os"
import { fileURLToPath } from "node:url"
import type { Bench, Report } from "../bench.js"
import * as Chart from "./chart.js"
import { Result } from "./result.js"

const Text = Schema.parseJson(Result, { space: 2 })

const folder = fileURLToPath(new URL("../../results", import.meta.url))

export const save = ({ description, name }: Bench, { summary }: Report) =>
  Effect.gen(function*() {
    const files = yield* FileSystem.FileSystem
    const text = yield* Schema.encode(Text)({
      bench: name,
      description,
      date: new Date(yield* Clock.currentTimeMillis).toISOString().slice(0, 10),
      node: process.version,
      cores: availableParallelism(),
      summary
    })
    yield* files.makeDirectory(folder, { recursive: true })
    yield* files.writeFileString(`${folder}/${name}.json`, `${text}\n`)
  })

export const draw = Effect.gen(function*() {
  const files = yield* FileSystem.FileSystem
  const names = (yield* files.readDirectory(folder)).filter((name) => name.endsWith(".json")).sort()
  const results = yield* Effect.forEach(
    names,
    (name) => Effect.flatMap(files.readFileString(`${folder}/${name}`), Schema.decode(Text))
  )
  yield* files.writeFileString(`${folder}/chart.svg`, Chart.draw(results))
})
