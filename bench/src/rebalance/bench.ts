import { Effect } from "effect"
import { type Bench, type Series } from "../bench.js"
import { livenessSeconds, syncSeconds } from "./group.js"
import * as Real from "./real.js"
import * as Scenario from "./scenario.js"
import * as Virtual from "./virtual.js"

const sizes = [
  { members: 2, streams: 1, shardsPerStream: 12 },
  { members: 3, streams: 1, shardsPerStream: 50 },
  { members: 5, streams: 4, shardsPerStream: 30 },
  { members: 9, streams: 1, shardsPerStream: 12 },
  { members: 9, streams: 1, shardsPerStream: 200 }
]

const nameOf = ({ members, shardsPerStream, streams }: (typeof sizes)[number]) =>
  `${members} members, ${streams === 1 ? "" : `${streams} x `}${shardsPerStream} shards`

/** In real time, once: it takes minutes. */
const realSize = { members: 3, streams: 1, shardsPerStream: 12 }

interface Measured {
  readonly name: string
  readonly outcomes: ReadonlyArray<Scenario.Outcomes>
}

/** What each kind of change costs, over all sizes and rounds. */
const costsOf = (kind: Scenario.Kind, all: ReadonlyArray<Scenario.Outcomes>): ReadonlyArray<Series> => {
  const of = (value: (outcome: Scenario.Outcomes[Scenario.Kind]) => number) => all.map((each) => value(each[kind]))
  return [
    { name: `${kind}: moved shards beside the least`, unit: "x", values: of(({ least, moved }) => moved / least) },
    { name: `${kind}: records delayed`, unit: "/moved shard", values: of(({ delayed, moved }) => delayed / moved) },
    { name: `${kind}: the longest delay`, unit: "s", values: of(({ delaySeconds }) => delaySeconds) },
    { name: `${kind}: delivered again`, unit: "/moved shard", values: of(({ moved, repeated }) => repeated / moved) }
  ]
}

export const rebalance: Bench = {
  name: "rebalance",
  description:
    "from a join, a leave and a crash until all shards are balanced and read again; the line of JSON has the worst of all",
  run: ({ rounds }) =>
    Effect.gen(function*() {
      const measured = yield* Effect.forEach(sizes, (size) =>
        Effect.map(
          Effect.forEach(Array.from({ length: rounds }, (_, round) => round), (round) =>
            Effect.scoped(
              Effect.flatMap(
                Virtual.make(size),
                (group) => Scenario.run(group, size.members, `${nameOf(size)}/${round}`)
              )
            )),
          (outcomes): Measured => ({ name: nameOf(size), outcomes })
        ))
      const real = yield* Effect.scoped(
        Effect.flatMap(Real.make(realSize.shardsPerStream), (group) => Scenario.run(group, realSize.members, "real"))
      )
      measured.push({ name: `${nameOf(realSize)}, real processes`, outcomes: [real] })
      const all = measured.flatMap(({ outcomes }) => outcomes)
      const worst = (kind: Scenario.Kind) => Math.max(...all.map((of) => of[kind].seconds))
      const syncs = (seconds: number) => Number((seconds / syncSeconds).toFixed(3))
      return {
        series: Scenario.kinds.flatMap((kind) => [
          ...measured.map(({ name, outcomes }) => ({
            name: `${kind}: ${name}`,
            unit: "s",
            values: outcomes.map((of) => of[kind].seconds)
          })),
          ...costsOf(kind, all)
        ]),
        summary: {
          joinSyncs: syncs(worst("join")),
          leaveSyncs: syncs(worst("leave")),
          crashSyncsAfterLiveness: syncs(worst("crash") - livenessSeconds),
          movedRatio: Math.max(
            ...all.flatMap((of) => Scenario.kinds.map((kind) => Number((of[kind].moved / of[kind].least).toFixed(3))))
          )
        }
      }
    })
}
