/** What a group asks of its store, beside what the formulas of its peers say. */
import { StateStore } from "@kinesumer/core"
import { DynamoStateStore } from "@kinesumer/dynamo-store"
import { Array, Effect, Ref } from "effect"
import { type Bench, BenchFailed, type Series } from "../bench.js"
import * as Group from "./group.js"
import * as MeteredDynamo from "./meteredDynamo.js"

const shards = [10, 100, 1_000]
const members = [2, 10, 50]
const minutes = 2

/** Those that are measured on DynamoDB too, for the capacity units that they take. */
const metered: ReadonlyArray<Omit<Group.Cell, "isBusy">> = [
  { shards: 10, members: 2 },
  { shards: 100, members: 10 },
  { shards: 100, members: 50 }
]
const meteredMinutes = 1

const nameOf = ({ isBusy, members, shards }: Group.Cell): string =>
  `${shards} shards, ${members} members, ${isBusy ? "busy" : "idle"}`

const series = (name: string, unit: string, value: number): Series => ({ name, unit, values: [value] })

const requestSeries = (cell: Group.Cell, { minutes, requests }: Group.Minutes): ReadonlyArray<Series> => [
  series(`${nameOf(cell)}: writes`, "/min", requests.writes / minutes),
  series(`${nameOf(cell)}: reads`, "/min", requests.reads / minutes)
]

/** What their sources make of these numbers, whether records come or not. */
const peerSeries = ({ members, shards }: Group.Cell): ReadonlyArray<Series> => {
  const name = `${shards} shards, ${members} members`
  return [
    series(`${name}: KCL 3 by its formula, writes`, "/min", 0.302 * shards * 60),
    series(`${name}: KCL 3 by its formula, reads`, "/min", members / 30 * 60),
    series(`${name}: Go kinesumer by its formula, requests`, "/min", (0.2 * shards + members / 5) * 60)
  ]
}

interface Measured {
  readonly cell: Group.Cell
  readonly result: Group.Minutes
}

const inMemory = (cell: Group.Cell): Effect.Effect<Measured, BenchFailed> =>
  Effect.gen(function*() {
    const store = yield* StateStore.makeMemory
    return { cell, result: yield* Group.run(cell, store, { minutes }) }
  })

const onDynamo = (cell: Group.Cell) =>
  Effect.gen(function*() {
    const dynamo = yield* MeteredDynamo.make
    const store = yield* DynamoStateStore.make({
      tableName: "bench",
      endpoint: dynamo.endpoint,
      region: "us-east-1",
      credentials: { accessKeyId: "bench", secretAccessKey: "bench" },
      createTable: true
    }).pipe(Effect.mapError((cause) => new BenchFailed({ message: cause.message })))
    const before = yield* Ref.make(MeteredDynamo.none)
    const result = yield* Group.run(cell, store, {
      minutes: meteredMinutes,
      stepMillis: 100,
      atRest: Effect.suspend(() => Ref.set(before, dynamo.consumed()))
    })
    const [begun, consumed] = [yield* Ref.get(before), dynamo.consumed()]
    const of = (what: keyof MeteredDynamo.Consumed, unit: string) =>
      series(`${nameOf(cell)}: DynamoDB, ${unit}`, "/min", (consumed[what] - begun[what]) / meteredMinutes)
    return {
      cell,
      result,
      series: [
        of("writes", "writes"),
        of("writeUnits", "write units"),
        of("reads", "reads"),
        of("readUnits", "read units")
      ]
    }
  }).pipe(Effect.scoped)

const both = <A extends object>(cell: A) => [{ ...cell, isBusy: false }, { ...cell, isBusy: true }]

export const storeCost: Bench = {
  name: "store-cost",
  description: "what a group asks of its store in virtual time, and the capacity units that it takes of DynamoDB",
  // Time is virtual, so another round would count the same.
  run: () =>
    Effect.gen(function*() {
      const grid = shards.flatMap((shards) => members.map((members) => ({ shards, members })))
      const counted = yield* Effect.forEach(grid.flatMap(both), inMemory)
      const onTable = yield* Effect.forEach(metered.flatMap(both), onDynamo)
      const all: ReadonlyArray<Measured> = [...counted, ...onTable]
      const [busy, idle] = Array.partition(all, ({ cell }) => !cell.isBusy)
      /** The most that a cell has. */
      const most = (of: ReadonlyArray<Measured>, part: (measured: Measured) => number) =>
        Number(Math.max(...of.map(part)).toFixed(3))
      return {
        series: [
          ...counted.flatMap(({ cell, result }) => requestSeries(cell, result)),
          ...onTable.flatMap(({ series }) => series),
          ...grid.flatMap((cell) => peerSeries({ ...cell, isBusy: false }))
        ],
        summary: {
          idleWritesPerMemberHeartbeat: most(
            idle,
            ({ cell, result }) => result.requests.writes / (cell.members * result.minutes * Group.perMinute.heartbeats)
          ),
          idleReadsPerMemberSync: most(
            idle,
            ({ cell, result: { minutes, requests } }) =>
              (requests.reads - requests.listReads) / (cell.members * minutes * Group.perMinute.syncs)
          ),
          idleListReadsPerGroupMinute: most(idle, ({ result: { minutes, requests } }) => requests.listReads / minutes),
          busyWritesPerShardInterval: most(
            busy,
            ({ cell, result: { minutes, requests } }) =>
              (requests.writes - requests.heartbeats) / (cell.shards * minutes * Group.perMinute.commits)
          )
        }
      }
    })
}
