/** Records a second through a group, beside a loop of the SDK and lifion-kinesis, on the same server. */
import type { CommandExecutor } from "@effect/platform"
import { Effect, type Scope } from "effect"
import type { Bench, BenchFailed, Series } from "../bench.js"
import * as ChildServer from "../childServer.js"
import { median, ratios } from "../statistics.js"
import * as Contender from "./contender.js"
import * as Peers from "./peers.js"
import * as Streams from "./streams.js"

interface Entry {
  readonly name: string
  readonly kind: Streams.Kind
  readonly program: Effect.Effect<number, BenchFailed, CommandExecutor.CommandExecutor | Scope.Scope>
}

/** A round takes so many seconds at most. */
const seconds = 10

const perSecond = ({ records, seconds }: Contender.Round) => records / seconds
const cpuMicros = ({ cpuSeconds, records }: Contender.Round) => cpuSeconds / records * 1e6

export const throughput: Bench = {
  name: "throughput",
  description: `records through Kinesumer.layer and Stream.runForEach, from ${Streams.shards} shards of LocalKinesis`,
  run: ({ rounds }) =>
    Effect.gen(function*() {
      yield* Peers.install
      const kinesis = yield* ChildServer.start("throughput/kinesisServer.js")
      const dynamo = yield* ChildServer.start("dynamoServer.js")
      const start = (program: string, environment: Readonly<Record<string, string>> = {}) =>
        ChildServer.start(`throughput/${program}.js`, {
          KINESIS_PORT: `${kinesis}`,
          DYNAMO_PORT: `${dynamo}`,
          ...environment
        })
      const running = (program: string, environment?: Readonly<Record<string, string>>) =>
        Effect.map(start(program, environment), (port): Entry["program"] => Effect.succeed(port))
      const sdk = yield* running("sdk")
      const group = yield* running("kinesumer", { PROTOCOL: "cbor" })
      const jsonGroup = yield* running("kinesumer", { PROTOCOL: "json" })
      const client = yield* running("client", { PROTOCOL: "cbor" })
      const jsonClient = yield* running("client", { PROTOCOL: "json" })
      // Polls that are under way when it is stopped go on, so each round has a process of its own.
      const lifion = start("lifion")
      const { large, small } = Streams
      const entries = {
        sdk200: { name: "a loop of the SDK, 200 bytes", kind: small, program: sdk },
        group200: { name: "Kinesumer, 200 bytes", kind: small, program: group },
        client200: { name: "a loop of its client, 200 bytes", kind: small, program: client },
        jsonClient200: { name: "a loop of its client in JSON, 200 bytes", kind: small, program: jsonClient },
        jsonGroup200: { name: "Kinesumer in JSON, 200 bytes", kind: small, program: jsonGroup },
        lifion200: { name: "lifion-kinesis, 200 bytes", kind: small, program: lifion },
        sdk2k: { name: "a loop of the SDK, 2 KiB", kind: large, program: sdk },
        group2k: { name: "Kinesumer, 2 KiB", kind: large, program: group }
      } satisfies Record<string, Entry>
      const names = Object.keys(entries) as ReadonlyArray<keyof typeof entries>
      const measured = new Map<string, Array<Contender.Round>>(names.map((name) => [name, []]))
      const round = ({ kind, program }: Entry, seconds: number) =>
        Effect.scoped(Effect.flatMap(program, (port) => Contender.ask(port, kind, seconds)))
      // Reads all of both streams, in each form: from then on the server has the bytes. And who reads has warmed up.
      for (const name of ["sdk200", "group200", "sdk2k", "group2k"] as const) yield* round(entries[name], 120)
      for (const name of ["client200", "jsonClient200", "jsonGroup200"] as const) yield* round(entries[name], seconds)
      for (let index = 0; index < rounds; index++) {
        for (const name of names) measured.get(name)?.push(yield* round(entries[name], seconds))
      }
      const of = (name: keyof typeof entries) => measured.get(name) ?? []
      const series: ReadonlyArray<Series> = names.flatMap((name) => [
        { name: entries[name].name, unit: "records/s", values: of(name).map(perSecond) },
        { name: `${entries[name].name}: processor`, unit: "µs/record", values: of(name).map(cpuMicros) }
      ])
      const ratio = (self: keyof typeof entries, that: keyof typeof entries) =>
        Number(median(ratios(of(self).map(perSecond), of(that).map(perSecond))).toFixed(2))
      const overhead = (self: keyof typeof entries, that: keyof typeof entries) =>
        Number(((median(ratios(of(self).map(cpuMicros), of(that).map(cpuMicros))) - 1) * 100).toFixed(1))
      return {
        series,
        summary: {
          vsSdk200: ratio("group200", "sdk200"),
          vsSdk2k: ratio("group2k", "sdk2k"),
          vsLifion: ratio("group200", "lifion200"),
          pipelineOverheadPercent: overhead("jsonGroup200", "jsonClient200"),
          pipelineOverheadCborPercent: overhead("group200", "client200")
        }
      }
    })
}
