/** Breaks the library in one place after another, and looks how soon the simulation finds it. */
import Table from "cli-table3"
import { Clock, Console, Data, Effect, Option, Stream } from "effect"
import * as Children from "../children.js"
import { seedJob, slices } from "../seeds.js"
import type { Result } from "../task.js"
import { checkBuilt, type Mutation } from "./mutation.js"
import { mutations } from "./mutations.js"

/** By then the simulation has to have found it. */
const mostSeeds = 500

interface Finding {
  readonly mutation: Mutation
  readonly found: Option.Option<Result>
  readonly seconds: number
}

/** Nothing was found out: the child that was to carry out the seeds has not come to an end. */
class MutationFailed extends Data.TaggedError("MutationFailed")<{
  readonly mutation: string
  readonly detail: string
}> {
  override get message(): string {
    return `the mutation "${this.mutation}" can't be judged: ${this.detail}`
  }
}

const firstBroken = (seeds: ReadonlyArray<number>, mutation: string, isApplied: boolean) =>
  Children.run(seeds.map(seedJob), {
    mutation: isApplied ? mutation : undefined,
    journal: false,
    untilBroken: true,
    shrinks: false
  }).pipe(
    Stream.mapEffect((result) =>
      Effect.as(
        Effect.forEach(
          result.violations.filter(({ promise }) => promise === Children.noPromise),
          ({ detail }) => new MutationFailed({ mutation, detail: `seed ${result.scenario.seed}: ${detail}` })
        ),
        result
      )
    ),
    Stream.filter(({ violations }) => violations.length > 0),
    Stream.runHead
  )

/** Only a seed that breaks nothing in the library as it is has found the mutation. */
const search = Effect.fnUntraced(function*(mutation: Mutation, from: number) {
  for (const slice of slices(from, mostSeeds)) {
    for (let rest = slice; rest.length > 0;) {
      const broken = yield* firstBroken(rest, mutation.name, true)
      if (Option.isNone(broken)) break
      const { seed } = broken.value.scenario
      if (Option.isNone(yield* firstBroken([seed], mutation.name, false))) return broken
      rest = rest.slice(rest.indexOf(seed) + 1)
    }
  }
  return Option.none()
})

export const mutate = Effect.fnUntraced(function*(options: {
  readonly from: number
  readonly workers: number
  readonly isQuiet: boolean
}) {
  for (const mutation of mutations) yield* Effect.sync(() => checkBuilt(mutation))
  const findings = yield* Effect.forEach(
    mutations,
    Effect.fnUntraced(function*(mutation) {
      const startedAt = yield* Clock.currentTimeMillis
      const found = yield* search(mutation, options.from)
      const finding: Finding = { mutation, found, seconds: ((yield* Clock.currentTimeMillis) - startedAt) / 1000 }
      if (!options.isQuiet) yield* Console.error(progress(finding))
      return finding
    }),
    { concurrency: options.workers }
  )
  const missed = findings.filter(({ found }) => Option.isNone(found)).map(({ mutation }) => mutation.name)
  if (!options.isQuiet) yield* Console.log(table(findings))
  yield* Console.log(JSON.stringify({ mutations: findings.length, found: findings.length - missed.length, missed }))
  return missed.length === 0
})

const progress = ({ found, mutation, seconds }: Finding): string =>
  Option.match(found, {
    onNone: () => `${mutation.name}: not found in ${mostSeeds} seeds, ${seconds.toFixed(0)} s`,
    onSome: ({ scenario, violations: [violation] }) =>
      `${mutation.name}: seed ${scenario.seed}, ${violation?.promise ?? ""} ${violation?.detail ?? ""}`
  })

const table = (findings: ReadonlyArray<Finding>): string => {
  const rows = new Table({
    head: ["mutation", "what it breaks", "found by", "seed", "virtual min", "seconds"],
    colWidths: [26, 50],
    wordWrap: true,
    style: { head: [], border: [] }
  })
  for (const { found, mutation, seconds } of findings) {
    const [promise, seed, minutes] = Option.match(found, {
      onNone: () => ["nothing", "", ""],
      onSome: ({ scenario, violations: [violation] }) => [
        violation?.promise ?? "",
        String(scenario.seed),
        ((violation?.at ?? 0) / 60_000).toFixed(1)
      ]
    })
    rows.push([mutation.name, mutation.breaks, promise, seed, minutes, seconds.toFixed(1)])
  }
  return rows.toString()
}
