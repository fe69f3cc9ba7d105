/** What a record costs after it was decoded, stage by stage. */
import { Kinesumer, type KinesumerConfig, type KinesumerRecord, StateStore } from "@kinesumer/core"
import { KinesisClient } from "@kinesumer/core"
import { Array, Context, Deferred, Effect, Layer, Logger, LogLevel, Stream } from "effect"
import { type Bench, BenchFailed, type Series } from "../bench.js"
import { median, ratios } from "../statistics.js"
import * as Profile from "./profile.js"
import * as Records from "./records.js"
import { type Stage, stageOf, stages } from "./stages.js"

type Handle = (group: typeof Kinesumer.Kinesumer.Service) => (record: KinesumerRecord.KinesumerRecord) => Effect.Effect<
  void,
  unknown
>

/** Takes all records of a stream through a group, and commits them. */
const consume = (
  shards: number,
  recordsAShard: number,
  mode: NonNullable<KinesumerConfig.KinesumerOptions["commit"]>["mode"],
  handle: Handle
) =>
  Effect.gen(function*() {
    const group = yield* Effect.map(
      Layer.build(
        Kinesumer.layer({ app: "bench", streams: [Records.stream], commit: { mode } }).pipe(
          Layer.provide(Layer.succeed(KinesisClient.KinesisClient, Records.make(shards, recordsAShard))),
          Layer.provide(StateStore.layerMemory),
          Layer.provide(Logger.minimumLogLevel(LogLevel.Warning))
        )
      ),
      Context.get(Kinesumer.Kinesumer)
    )
    const all = yield* Deferred.make<void>()
    let left = shards * recordsAShard
    const one = handle(group)
    const reading = Stream.runForEach(group.records, (record) => {
      if (--left === 0) Deferred.unsafeDone(all, Effect.void)
      return one(record)
    })
    yield* Effect.raceFirst(Effect.zipRight(reading, Effect.never), Deferred.await(all))
    yield* group.commit
  }).pipe(Effect.scoped, Effect.mapError((cause) => new BenchFailed({ message: String(cause) })))

const counted: Handle = () => () => Effect.void

/** Each record by itself, in order. */
const marked: Handle = (group) => (record) => group.mark(record)

/** 500 at a time, the last one first: each is a gap until the first one closes them. */
const markedBackwards: Handle = (group) => {
  const batch: Array<KinesumerRecord.KinesumerRecord> = []
  return (record) => {
    batch.push(record)
    return batch.length < 500 ? Effect.void : Effect.suspend(() => group.mark(batch.splice(0).reverse()))
  }
}

const shards = 64

type Amounts = Readonly<Record<Stage, number>>

const amountsOf = (profile: Profile.Profile, records: number): Amounts => {
  const sums = new Map<Stage, number>()
  for (const { amount, stack } of profile) {
    const stage = stageOf(stack)
    if (stage !== undefined) sums.set(stage, (sums.get(stage) ?? 0) + amount)
  }
  const of = (stage: Stage) => (sums.get(stage) ?? 0) / records
  return {
    expand: of("expand"),
    cursor: of("cursor"),
    queue: of("queue"),
    stream: of("stream"),
    mark: of("mark"),
    commit: of("commit"),
    control: of("control"),
    effect: of("effect"),
    gc: of("gc")
  }
}

const total = (amounts: Amounts) => stages.reduce((sum, stage) => sum + amounts[stage], 0)

/** One of the ways to take records through, in its rounds. */
const variant = (name: string, shardCount: number, recordsAShard: number, mode: "auto" | "manual", handle: Handle) => ({
  name,
  measured: Array.empty<{ readonly micros: Amounts; readonly bytes: Amounts }>(),
  round: Effect.map(
    Profile.run(consume(shardCount, recordsAShard, mode, handle)),
    ({ bytes, micros }) => ({
      micros: amountsOf(micros, shardCount * recordsAShard),
      bytes: amountsOf(bytes, shardCount * recordsAShard)
    })
  )
})

export const pipeline: Bench = {
  name: "pipeline",
  description: "what a record costs after decoding, by stage, through Kinesumer.layer and Stream.runForEach",
  run: ({ rounds }) =>
    Effect.gen(function*() {
      const auto = variant("auto", shards, Records.pageSize, "auto", counted)
      const many = variant("auto, 16 times the shards", shards * 16, Records.pageSize / 16, "auto", counted)
      const inOrder = variant("manual, each record", shards, Records.pageSize, "manual", marked)
      const backwards = variant("manual, 500 backwards", shards, Records.pageSize, "manual", markedBackwards)
      const all = [auto, many, inOrder, backwards]
      // The first one is to warm up.
      for (let index = 0; index <= rounds; index++) {
        for (const { measured, round } of all) {
          const result = yield* round
          if (index > 0) measured.push(result)
        }
      }
      const series: ReadonlyArray<Series> = all.flatMap(({ measured, name }) => [
        { name: `${name}: all`, unit: "µs/record", values: measured.map(({ micros }) => total(micros)) },
        { name: `${name}: all`, unit: "bytes/record", values: measured.map(({ bytes }) => total(bytes)) },
        ...stages.flatMap((stage) => [
          { name: `${name}: ${stage}`, unit: "µs/record", values: measured.map(({ micros }) => micros[stage]) },
          { name: `${name}: ${stage}`, unit: "bytes/record", values: measured.map(({ bytes }) => bytes[stage]) }
        ])
      ]).filter(({ name, unit, values }) =>
        (name.startsWith("auto: ") || / (all|mark)$/.test(name)) && median(values) > (unit === "µs/record" ? 0.001 : 1)
      )
      const rounded = (value: number, digits: number) => Number(value.toFixed(digits))
      const ofStages = Object.fromEntries(stages.flatMap((stage) => [
        [`${stage}Micros`, rounded(median(auto.measured.map(({ micros }) => micros[stage])), 3)],
        [`${stage}Bytes`, rounded(median(auto.measured.map(({ bytes }) => bytes[stage])), 1)]
      ]))
      const micros = (of: typeof auto) => of.measured.map(({ micros }) => total(micros))
      const marks = (of: typeof auto) => of.measured.map(({ micros }) => micros.mark)
      return {
        series,
        summary: {
          micros: rounded(median(micros(auto)), 3),
          bytes: rounded(median(auto.measured.map(({ bytes }) => total(bytes))), 1),
          ...ofStages,
          markEachMicros: rounded(median(marks(inOrder)), 3),
          markBackwardsMicros: rounded(median(marks(backwards)), 3),
          vsSixteenthOfShards: rounded(median(ratios(micros(many), micros(auto))), 2)
        }
      }
    })
}
