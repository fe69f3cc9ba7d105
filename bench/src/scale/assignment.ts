/** How long `assign` takes. It is no part of the library's surface, so it is loaded from where it is. */
import { Clock, Effect, Predicate } from "effect"
import { BenchFailed } from "../bench.js"

interface Input {
  readonly members: ReadonlyArray<{ readonly memberId: string; readonly streams: ReadonlySet<string> }>
  readonly shards: ReadonlyArray<{ readonly key: string; readonly stream: string }>
  readonly owners: ReadonlyMap<string, string>
}

type Assign = (input: Input) => ReadonlyMap<string, string>

const isAssign = (value: unknown): value is Assign => typeof value === "function"

const load = Effect.tryPromise((): Promise<unknown> =>
  import(new URL("internal/assign.js", import.meta.resolve("@kinesumer/core")).href)
).pipe(
  Effect.map((module) => Predicate.hasProperty(module, "assign") ? module.assign : undefined),
  Effect.filterOrFail(isAssign),
  Effect.mapError(() => new BenchFailed({ message: "there is no assign in @kinesumer/core" }))
)

const shards = 10_000
const members = 200
const streamCount = 10

const input = (memberCount: number, owners: Input["owners"]): Input => {
  const streams = Array.from({ length: streamCount }, (_, index) => `stream-${index}`)
  return {
    members: Array.from({ length: memberCount }, (_, index) => ({
      memberId: `member-${`${index}`.padStart(3, "0")}`,
      streams: new Set(streams)
    })),
    shards: Array.from({ length: shards }, (_, index) => {
      const stream = `stream-${index % streamCount}`
      return { key: `${stream}/shardId-${`${index}`.padStart(12, "0")}`, stream }
    }),
    owners
  }
}

const millis = Effect.map(Clock.currentTimeNanos, (nanos) => Number(nanos) / 1e6)

export interface Case {
  readonly name: string
  /** One time, in milliseconds. */
  readonly round: Effect.Effect<number>
}

/** For 10,000 shards of ten streams and 200 members. */
export const cases: Effect.Effect<ReadonlyArray<Case>, BenchFailed> = Effect.map(load, (assign) => {
  const before = assign(input(members - 1, new Map()))
  const timed = (name: string, of: Input): Case => ({
    name,
    round: Effect.gen(function*() {
      const begun = yield* millis
      yield* Effect.sync(() => assign(of))
      return (yield* millis) - begun
    })
  })
  return [
    timed("nobody owns a shard", input(members, new Map())),
    timed("one member is new", input(members, before)),
    timed("one member is gone", input(members - 2, before))
  ]
})
