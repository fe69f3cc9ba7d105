/** Carries out scenarios, many at a time, and tells what became of them. */
import { Simulation } from "@kinesumer/test-kit"
import { Array, Clock, Console, Effect, Option, Ref, Stream } from "effect"
import * as Children from "./children.js"
import * as Report from "./report.js"
import * as Sum from "./sum.js"
import type { Job, Result } from "./task.js"

export const seedJob = (seed: number): Job => ({ name: String(seed), scenario: Simulation.generate(seed) })

/** The others are named after their files. */
const isSeed = (name: string): boolean => /^\d+$/.test(name)

/** What a child process carries out before it ends, and with it the fibers that killed processes have left. */
const sliceSize = 100

export const slices = (from: number, count: number, size = sliceSize): ReadonlyArray<ReadonlyArray<number>> =>
  count <= 0 ? [] : Array.chunksOf(Array.range(from, from + count - 1), size)

/** More failures than these say little more. */
const mostShrunk = 3

const tellEvery = 5_000

export const run = Effect.fnUntraced(function*(options: {
  /** Carried out first, and not counted as seeds. */
  readonly regressions: ReadonlyArray<Job>
  /** Carried out in place of seeds. */
  readonly scenario: Option.Option<Job>
  readonly from: number
  readonly seeds: number
  readonly workers: number
  readonly isQuiet: boolean
  readonly journal: boolean
}) {
  const { from, isQuiet, regressions, scenario, seeds, workers } = options
  const startedAt = yield* Clock.currentTimeMillis
  const told = yield* Ref.make(startedAt)
  const seconds = Effect.map(Clock.currentTimeMillis, (now) => (now - startedAt) / 1000)
  const say = (line: string) => isQuiet ? Effect.void : Console.error(line)
  const print = (lines: ReadonlyArray<string>) =>
    isQuiet ? Effect.void : Effect.forEach(lines, (line) => Console.log(line), { discard: true })

  const sum = yield* Ref.make(Sum.empty)
  const jobs = regressions.length + (Option.isSome(scenario) ? 1 : seeds)
  const done = Effect.fnUntraced(function*(result: Result) {
    const { carriedOut, failed } = yield* Ref.updateAndGet(sum, Sum.add(result))
    if (options.journal) yield* print(Report.journal(result))
    yield* Effect.forEach(Report.violations(result).slice(0, 1), say)
    const now = yield* Clock.currentTimeMillis
    if (now - (yield* Ref.get(told)) < tellEvery) return
    yield* Ref.set(told, now)
    yield* say(`${carriedOut} of ${jobs} scenarios, ${failed.length} failed, ${Math.round(yield* seconds)} s`)
  })

  const carryOut = (slice: ReadonlyArray<Job>) =>
    Stream.runForEach(
      Children.run(slice, { journal: options.journal, untilBroken: false, shrinks: false }),
      done
    )
  yield* Effect.forEach(Array.chunksOf(regressions, sliceSize), carryOut, { discard: true })
  yield* Option.match(scenario, {
    onSome: (job) => carryOut([job]),
    onNone: () =>
      Effect.forEach(
        // The last slices are carried out side by side too.
        slices(from, seeds, Math.max(1, Math.min(sliceSize, Math.ceil(seeds / workers)))),
        (slice) => Effect.suspend(() => carryOut(slice.map(seedJob))),
        { concurrency: workers, discard: true }
      )
  })

  const { carriedOut, elapsed, tally, ...all } = yield* Ref.get(sum)
  const replay = (name: string) =>
    isSeed(name)
      ? `--seeds 1 --from ${name}`
      : `--scenario ${regressions.some((job) => job.name === name) ? `simulation/regressions/${name}` : name}`
  const order = ({ name, scenario: { seed } }: Result) => isSeed(name) ? seed : -1
  const failed = [...all.failed].sort((one, other) => order(one) - order(other))
  if (!isQuiet) {
    for (const [index, result] of failed.entries()) {
      // A journal that was asked for tells the scenario as it is.
      const isShrunk = index < mostShrunk && !options.journal && result.violations[0]?.promise !== Children.noPromise
      if (isShrunk) yield* say(`shrinking ${result.name}`)
      const shrunk = isShrunk ? yield* shrink(result) : Option.none()
      yield* print(Report.failure(result, Option.getOrUndefined(shrunk), replay(result.name)))
    }
  }
  yield* Console.log(JSON.stringify({
    seeds: Option.isSome(scenario) ? 1 : seeds,
    failed: failed.map(({ name, scenario }) => isSeed(name) ? scenario.seed : name),
    ...tally,
    virtualHours: Math.round(elapsed / 36_000) / 100,
    seconds: Math.round((yield* seconds) * 10) / 10
  }))
  return failed.length === 0 && carriedOut === jobs
})

const shrink = ({ name, scenario }: Result) =>
  Stream.runHead(Children.run([{ name, scenario }], { journal: true, untilBroken: false, shrinks: true }))
