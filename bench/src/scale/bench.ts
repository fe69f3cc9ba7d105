/** What a member with many shards costs, and the parts of it that could grow with their number. */
import { Effect, Schema } from "effect"
import { type Bench, BenchFailed, type Series } from "../bench.js"
import * as ChildProcess from "../childProcess.js"
import * as ChildServer from "../childServer.js"
import { endpointOf } from "../fanOutLatency/streams.js"
import { median } from "../statistics.js"
import * as Assignment from "./assignment.js"

const Measured = Schema.Struct({
  owned: Schema.Number,
  cores: Schema.Number,
  callsPerSecond: Schema.Number,
  recordsPerSecond: Schema.Number,
  delayMillis: Schema.Number,
  rss: Schema.Number,
  heapUsed: Schema.Number,
  syncs: Schema.Number,
  reads: Schema.Number
})
type Measured = typeof Measured.Type

interface Variant {
  readonly name: string
  readonly shards: number
  readonly recordsPerSecond: number
  /** How many calls for each shard are measured, and how long it waits for the next one. */
  readonly calls: number
  readonly idleInterval: string
  readonly measured: Array<Measured>
}

const variant = (name: string, shards: number, recordsPerSecond: number): Variant => ({
  name,
  shards,
  recordsPerSecond,
  calls: 10,
  idleInterval: "1 second",
  measured: []
})

/** With so much time between two calls that even 10,000 shards are at rest: what is in use by a call is no part of a shard. */
const atRest = (shards: number): Variant => ({
  ...variant(`${shards} shards, at rest`, shards, 0),
  calls: 1,
  idleInterval: "10 seconds"
})

const measure = ({ calls, idleInterval, recordsPerSecond, shards }: Variant) =>
  ChildProcess.measure("scale/member.js", Measured, {
    SHARDS: `${shards}`,
    RECORDS_PER_SECOND: `${recordsPerSecond}`,
    CALLS: `${calls}`,
    IDLE_INTERVAL: idleInterval
  }).pipe(
    Effect.filterOrFail(
      ({ owned }) => owned === shards,
      ({ owned }) => new BenchFailed({ message: `the member owns ${owned} shards at the end, not ${shards}` })
    )
  )

const few = 10

/** A process is warm after some rounds of `assign`. */
const assignRoundsToWarmUp = 5

/** A call a second for each shard. One that has more to do than there is time for makes fewer. */
const coresFor = ({ callsPerSecond, cores }: Measured, shards: number): number => cores / callsPerSecond * shards

const seriesOf = ({ measured, name, shards }: Variant): ReadonlyArray<Series> => {
  const series = (what: string, unit: string, of: (measured: Measured) => number): Series => ({
    name: `${name}: ${what}`,
    unit,
    values: measured.map(of)
  })
  return [
    series("CPU for a call a second and shard", "cores", (each) => coresFor(each, shards)),
    series("calls that were made", "/s", ({ callsPerSecond }) => callsPerSecond),
    series("records", "/s", ({ recordsPerSecond }) => recordsPerSecond),
    series("event loop's delay, 99th percentile", "ms", ({ delayMillis }) => delayMillis),
    series("reads of the store a sync", "", ({ reads, syncs }) => reads / syncs)
  ]
}

/** Memory that each shard adds, in the same round. */
const perShard = (many: Variant, base: Variant, of: (measured: Measured) => number): ReadonlyArray<number> =>
  many.measured.map((each, index) => {
    const other = base.measured[index]
    return other === undefined ? NaN : (of(each) - of(other)) / 1024 / (many.shards - base.shards)
  })

const rounded = (value: number, digits: number): number => Number(value.toFixed(digits))

export const scale: Bench = {
  name: "scale",
  description:
    "one member with 1,000 and 10,000 shards on a Kinesis that answers at once, and what the SDK's calls cost",
  run: ({ rounds }) =>
    Effect.gen(function*() {
      const endpoint = endpointOf(yield* ChildServer.start("scale/kinesisServer.js", { STREAM: "bench" }))
      const assignments = (yield* Assignment.cases).map((each) => ({ ...each, values: new Array<number>() }))
      const fewAtRest = atRest(few)
      const manyAtRest = atRest(10_000)
      const idle1k = variant("1,000 shards, idle", 1_000, 0)
      const idle10k = variant("10,000 shards, idle", 10_000, 0)
      const busy1k = variant("1,000 shards, a record a second", 1_000, 1)
      const busy10k = variant("10,000 shards, a record a second", 10_000, 1)
      const variants = [idle1k, idle10k, busy1k, busy10k]
      const sdk = new Array<number>()
      for (let index = 0; index < rounds; index++) {
        for (const each of [...variants, fewAtRest, manyAtRest]) each.measured.push(yield* measure(each))
        const { micros } = yield* ChildProcess.measure(
          "scale/sdkCalls.js",
          Schema.Struct({ micros: Schema.Number }),
          { ENDPOINT: endpoint, STREAM: "bench" }
        )
        sdk.push(micros)
      }
      for (let index = -assignRoundsToWarmUp; index < rounds; index++) {
        for (const { round, values } of assignments) {
          const millis = yield* round
          if (index >= 0) values.push(millis)
        }
      }
      const rssPerShard = perShard(manyAtRest, fewAtRest, ({ rss }) => rss)
      const cores = (of: Variant) => median(of.measured.map((each) => coresFor(each, of.shards)))
      const delay = (of: Variant) => median(of.measured.map(({ delayMillis }) => delayMillis))
      const readsPerSync = (of: Variant) => median(of.measured.map(({ reads, syncs }) => reads / syncs))
      return {
        series: [
          ...variants.flatMap(seriesOf),
          { name: "resident memory", unit: "KB/shard", values: rssPerShard },
          { name: "heap", unit: "KB/shard", values: perShard(manyAtRest, fewAtRest, ({ heapUsed }) => heapUsed) },
          { name: "a GetRecords of the SDK, nothing to get", unit: "µs of CPU", values: sdk },
          ...assignments.map(({ name, values }) => ({ name: `assign: ${name}`, unit: "ms", values }))
        ],
        summary: {
          assignMs: rounded(Math.max(...assignments.map(({ values }) => median(values))), 1),
          kbPerShard: rounded(median(rssPerShard), 1),
          idleCores10k: rounded(cores(idle10k), 2),
          busyCores10k: rounded(cores(busy10k), 2),
          idleCores1k: rounded(cores(idle1k), 3),
          delayMsIdle1k: rounded(delay(idle1k), 1),
          delayMsIdle10k: rounded(delay(idle10k), 1),
          readsPerSync1k: rounded(readsPerSync(idle1k), 2),
          readsPerSync10k: rounded(readsPerSync(idle10k), 2),
          sdkMicrosPerCall: Math.round(median(sdk)),
          sdkCores10k: rounded(median(sdk) * 10_000 / 1e6, 2)
        }
      }
    })
}
