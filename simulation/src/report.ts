/** What people read of a scenario. */
import type { Simulation } from "@kinesumer/test-kit"
import { noPromise } from "./children.js"
import type { Result } from "./task.js"

const journalLines = 60

/** A scenario, one line for each event. */
const describe = ({ events, seed, streams, ...settings }: Simulation.Scenario): ReadonlyArray<string> => [
  `seed ${seed}: ${streams.map(({ name, shards }) => `${name} (${shards} shards)`).join(", ")}`,
  Object.entries(settings).map(([name, value]) => `${name} ${String(value)}`).join(", "),
  ...events.map(({ _tag, at, ...rest }) => `${seconds(at)} ${_tag} ${words(rest)}`.trimEnd())
]

const words = (value: object): string =>
  Object.entries(value).flatMap(([name, field]) =>
    field === undefined ? [] : [`${name} ${typeof field === "string" ? field : JSON.stringify(field)}`]
  ).join(", ")

const seconds = (millis: number): string => (millis / 1000).toFixed(3).padStart(9)

export const violations = ({ name, violations }: Result): ReadonlyArray<string> =>
  violations.map(({ at, detail, promise }) =>
    promise === noPromise ? `${name}: ${detail}` : `${name} breaks ${promise} after ${seconds(at).trim()} s: ${detail}`
  )

export const journal = ({ journal, name }: Result): ReadonlyArray<string> => [`${name}:`, ...journal]

/**
 * A failure, with the smallest scenario that breaks the same promise if one was looked for, and the options that show it
 * again.
 */
export const failure = (result: Result, shrunk: Result | undefined, replay: string): ReadonlyArray<string> => [
  "",
  ...violations(result),
  ...(shrunk === undefined || shrunk.violations.length === 0 ? [] : [
    "",
    "The smallest scenario that breaks it:",
    ...describe(shrunk.scenario),
    ...violations({ ...shrunk, name: "it" }),
    "",
    "What happened last:",
    ...shrunk.journal.slice(-journalLines),
    "",
    "For simulation/regressions, with its name and what it broke:",
    JSON.stringify(shrunk.scenario)
  ]),
  "",
  `To see it again: npm run sim -- ${replay} --journal`
]
