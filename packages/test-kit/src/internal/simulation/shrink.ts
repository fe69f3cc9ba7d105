/**
 * Makes a scenario that breaks a promise as small as it will go: fewer events first, larger parts before smaller ones.
 *
 * @internal
 */
import * as Effect from "effect/Effect"
import type { Event, Scenario, Violation } from "./model.js"
import { simulate } from "./simulate.js"

/** So many smaller scenarios are tried. */
const mostTries = 400

/** @internal */
export const shrink = (scenario: Scenario, violation: Violation): Effect.Effect<Scenario> =>
  Effect.gen(function*() {
    let tries = mostTries
    const breaks = (candidate: Scenario) =>
      Effect.suspend(() => {
        if (tries-- <= 0) return Effect.succeed(false)
        return Effect.map(
          simulate(candidate, { keepsJournal: false }),
          ({ violations }) => violations.some(({ promise }) => promise === violation.promise)
        )
      })
    // What comes after the violation has no part in it.
    let best: Scenario = { ...scenario, events: scenario.events.filter(({ at }) => at <= violation.at) }
    if (!(yield* breaks(best))) best = scenario
    for (let size = Math.ceil(best.events.length / 2); size >= 1 && tries > 0; size = Math.floor(size / 2)) {
      for (let from = 0; from < best.events.length && tries > 0;) {
        const candidate = { ...best, events: without(best.events, from, size) }
        if (yield* breaks(candidate)) best = candidate
        else from += size
      }
    }
    for (const simpler of simplifications) {
      const candidate = simpler(best)
      if (candidate !== best && (yield* breaks(candidate))) best = candidate
    }
    return best
  })

const without = (events: ReadonlyArray<Event>, from: number, size: number): ReadonlyArray<Event> => [
  ...events.slice(0, from),
  ...events.slice(from + size)
]

const simplifications: ReadonlyArray<(scenario: Scenario) => Scenario> = [
  (scenario) => ({ ...scenario, startFrom: "TrimHorizon" }),
  (scenario) => ({ ...scenario, pageSize: 1000 }),
  (scenario) => ({ ...scenario, limit: 1000 }),
  (scenario) => ({ ...scenario, bufferSize: 1000 }),
  (scenario) => ({ ...scenario, trimmedPosition: "horizon" }),
  (scenario) => ({ ...scenario, aggregation: undefined }),
  (scenario) => ({
    ...scenario,
    streams: scenario.streams.filter(({ name }) => scenario.events.some((event) => isAbout(event, name)))
  }),
  (scenario) => ({ ...scenario, streams: scenario.streams.map(({ name }) => ({ name, shards: 1 })) }),
  (scenario) => mapMembers(scenario, (consumer) => ({ ...consumer, failures: 0 })),
  (scenario) => mapMembers(scenario, (consumer) => ({ ...consumer, handleMillis: 0 })),
  (scenario) => mapMembers(scenario, (consumer) => ({ ...consumer, view: "records" })),
  (scenario) => mapMembers(scenario, (consumer) => ({ ...consumer, commit: "auto" })),
  (scenario) => ({
    ...scenario,
    events: scenario.events.map((event) => event._tag === "Join" ? { ...event, wallClockSkew: 0 } : event)
  })
]

const isAbout = (event: Event, stream: string): boolean =>
  ("stream" in event && event.stream === stream) || ("streams" in event && event.streams.includes(stream))

type Consumer = Extract<Event, { readonly _tag: "Join" }>["consumer"]

const mapMembers = (scenario: Scenario, change: (consumer: Consumer) => Consumer): Scenario => ({
  ...scenario,
  events: scenario.events.map((event) => event._tag === "Join" ? { ...event, consumer: change(event.consumer) } : event)
})
