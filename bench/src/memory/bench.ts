/** Whether memory grows in a day of a group with slow consumers, while members and shards come and go. */
import { Command } from "@effect/platform"
import { Chunk, Effect, Schema, Stream } from "effect"
import { fileURLToPath } from "node:url"
import { type Bench, BenchFailed } from "../bench.js"
import { median } from "../statistics.js"
import { Sample } from "./sample.js"

const program = fileURLToPath(new URL("./day.js", import.meta.url))

/** In a process of its own, whose memory is the group's. */
const day = Command.make(process.execPath, "--expose-gc", program).pipe(
  Command.stderr("inherit"),
  Command.streamLines,
  Stream.mapEffect(Schema.decode(Schema.parseJson(Sample))),
  Stream.runCollect,
  Effect.map(Chunk.toReadonlyArray),
  Effect.mapError(({ message }) => new BenchFailed({ message: `the day has no end: ${message}` }))
)

/** Before that, buffers fill for the first time, and most of the code is compiled. */
const early = [3, 9] as const
const late = [18, 24] as const

const within = (samples: ReadonlyArray<Sample>, [from, to]: readonly [number, number]) =>
  samples.filter(({ hour }) => hour >= from && hour <= to)

const megabytes = (bytes: number) => bytes / 1024 / 1024

export const memory: Bench = {
  name: "memory",
  description:
    "a day of a group in virtual time, once: growth of resident memory or of the heap, whichever is larger, " +
    "from hours 3 to 9 to hours 18 to 24",
  run: () =>
    Effect.gen(function*() {
      const samples = yield* day
      if (samples.length !== late[1]) return yield* new BenchFailed({ message: `the day has ${samples.length} hours` })
      const parts = [early, late] as const
      const series = (name: string, unit: string, value: (sample: Sample) => number) =>
        parts.map((part) => ({
          name: `${name}, hours ${part.join(" to ")}`,
          unit,
          values: within(samples, part).map(value)
        }))
      const growth = (value: (sample: Sample) => number) => {
        const [before = NaN, after = NaN] = parts.map((part) => median(within(samples, part).map(value)))
        return (after / before - 1) * 100
      }
      return {
        series: [
          ...series("resident", "MiB", ({ resident }) => megabytes(resident)),
          ...series("heap", "MiB", ({ heap }) => megabytes(heap)),
          ...series("waiting", "records", ({ buffered }) => buffered),
          ...series("shards that are run", "shards", ({ shards }) => shards),
          ...series("rows in the store", "rows", ({ rows }) => rows),
          { name: "handled in the day", unit: "records", values: samples.slice(-1).map(({ records }) => records) }
        ],
        // The heap is small beside what the process has resident, and tells of growth sooner.
        summary: {
          growthPercent: Number(
            Math.max(growth(({ resident }) => resident), growth(({ heap }) => heap)).toFixed(1)
          )
        }
      }
    })
}
