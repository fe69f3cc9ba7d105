/** A program that measures itself in a process of its own, and says what it found in a line of JSON. */
import { Command } from "@effect/platform"
import { Effect, Schema, Stream } from "effect"
import { fileURLToPath } from "node:url"
import { BenchFailed } from "./bench.js"

/** Runs a program of this folder. */
export const measure = <A, I>(
  program: string,
  result: Schema.Schema<A, I>,
  environment: Readonly<Record<string, string>>
) =>
  Effect.gen(function*() {
    const path = fileURLToPath(new URL(program, import.meta.url))
    const child = yield* Command.start(
      Command.make(process.execPath, "--expose-gc", path).pipe(Command.env(environment), Command.stderr("inherit"))
    )
    const line = yield* child.stdout.pipe(Stream.decodeText(), Stream.splitLines, Stream.runHead, Effect.flatten)
    yield* child.exitCode
    return yield* Schema.decode(Schema.parseJson(result))(line)
  }).pipe(
    Effect.scoped,
    Effect.mapError((cause) => new BenchFailed({ message: `${program} does not measure: ${cause.message}` }))
  )
