/** Which records are given out, for any order of arrivals, batches, completions and ends of shards. */
import { assert, describe, it } from "@effect/vitest"
import type { KinesumerRecord, Processing } from "@kinesumer/core"
import { Effect, FastCheck } from "effect"
import { DeliveredRecord } from "../../src/internal/deliveredRecord.js"
import * as Run from "../../src/internal/run.js"
import * as Scheduler from "../../src/internal/scheduler.js"

const position = { _tag: "TrimHorizon" } as const

const makeRun = (index: number) =>
  Run.make({
    stream: { label: "orders", key: "orders" } as never,
    checkpointKey: "orders",
    shard: { shardId: `shard-${index}` } as never,
    epoch: 1,
    position
  })

const recordOf = (shardId: string, number: number, partitionKey: string): KinesumerRecord.KinesumerRecord =>
  new DeliveredRecord({
    stream: "orders",
    shardId,
    partitionKey,
    data: new Uint8Array(),
    sequenceNumber: `${number}`,
    subSequenceNumber: undefined,
    arrivalTime: undefined,
    millisBehindLatest: undefined,
    epoch: 1
  }, 0)

type Action =
  | { readonly _tag: "Admit"; readonly line: number; readonly keys: ReadonlyArray<number> }
  | { readonly _tag: "Take" }
  | { readonly _tag: "Time" }
  | { readonly _tag: "Finish"; readonly pick: number; readonly count: number }
  | { readonly _tag: "Close"; readonly line: number }

const { array, constant, constantFrom, integer, nat, oneof, record } = FastCheck

const action: FastCheck.Arbitrary<Action> = oneof(
  record({
    _tag: constant("Admit" as const),
    line: integer({ min: 0, max: 2 }),
    keys: array(integer({ min: 0, max: 3 }), { minLength: 1, maxLength: 8 })
  }),
  constant<Action>({ _tag: "Take" }),
  constant<Action>({ _tag: "Take" }),
  constant<Action>({ _tag: "Time" }),
  record({ _tag: constant("Finish" as const), pick: nat(), count: integer({ min: 1, max: 4 }) }),
  record({ _tag: constant("Finish" as const), pick: nat(), count: integer({ min: 1, max: 4 }) }),
  record({ _tag: constant("Close" as const), line: integer({ min: 0, max: 2 }) })
)

interface Out {
  readonly line: Scheduler.Line
  entries: ReadonlyArray<Scheduler.Entry>
}

describe("scheduler", () => {
  it.effect.prop("keeps order and bounds, loses nothing and keeps nothing waiting", {
    actions: array(action, { maxLength: 120 }),
    ordering: constantFrom<Processing.Ordering>("shard", "partitionKey", "none"),
    size: integer({ min: 1, max: 4 }),
    maxInFlight: integer({ min: 4, max: 20 })
  }, ({ actions, maxInFlight, ordering, size }) =>
    Effect.gen(function*() {
      const runs = yield* Effect.forEach([0, 1, 2], makeRun)
      const scheduler = Scheduler.make({ ordering, size, maxInFlight })
      const keyOf = ({ partitionKey }: KinesumerRecord.KinesumerRecord) =>
        ordering === "partitionKey" ? partitionKey : ""
      const taken = new Map<string, number>()
      const closed = new Set<number>()
      let out: ReadonlyArray<Out> = []
      let arrived = 0
      let waiting = 0

      const take = () => {
        const batch = scheduler.take()
        if (batch === undefined) return false
        const { entries, line } = batch
        assert.isAtLeast(entries.length, 1)
        assert.isAtMost(entries.length, size)
        waiting -= entries.length
        for (const { chain, record } of entries) {
          const key = `${record.shardId}/${keyOf(record)}`
          // In order, without a gap in what waited, and never beside another batch of the same chain.
          assert.isAbove(Number(record.sequenceNumber), taken.get(key) ?? 0)
          taken.set(key, Number(record.sequenceNumber))
          if (ordering !== "none") {
            assert.isFalse(out.some((other) => other.entries.some((entry) => entry.chain === chain)))
          }
        }
        out = [...out, { line, entries }]
        return true
      }
      const finish = (one: Out, count: number) => {
        const entries = one.entries.slice(0, count)
        scheduler.finish(one.line, entries)
        one.entries = one.entries.slice(count)
        out = out.filter(({ entries }) => entries.length > 0)
      }
      const time = () => {
        for (let line = scheduler.toTime(); line !== undefined; line = scheduler.toTime()) scheduler.timeIsUp(line)
      }

      for (const one of actions) {
        switch (one._tag) {
          case "Admit": {
            const run = runs[one.line]
            if (run === undefined || closed.has(one.line)) break
            const room = scheduler.roomOf(run, 3 - closed.size)
            const keys = one.keys.slice(0, Math.max(0, room))
            if (keys.length === 0) break
            scheduler.admit(run, keys.map((key) => recordOf(run.shard.shardId, ++arrived, `${key}`)))
            waiting += keys.length
            break
          }
          case "Take":
            take()
            break
          case "Time":
            time()
            break
          case "Finish": {
            const some = out[one.pick % Math.max(1, out.length)]
            if (some !== undefined) finish(some, one.count)
            break
          }
          case "Close": {
            const run = runs[one.line]
            const line = run === undefined ? undefined : scheduler.lineOf(run)
            if (line === undefined) break
            closed.add(one.line)
            waiting -= line.inFlight - line.taken
            scheduler.close(line)
            break
          }
        }
        assert.strictEqual(
          scheduler.inFlight(),
          waiting + out.reduce((sum, { entries }) => sum + entries.length, 0)
        )
        assert.isAtMost(scheduler.inFlight(), maxInFlight)
        assert.strictEqual(scheduler.free(), maxInFlight - scheduler.inFlight())
        // A place is left for each shard that has none, while there is one at all.
        if (scheduler.inFlight() < maxInFlight) {
          for (const run of runs) {
            if ((scheduler.lineOf(run)?.inFlight ?? 0) === 0) assert.isAbove(scheduler.roomOf(run, 3), 0)
          }
        }
      }
      // Whatever happened, everything comes out if it is let.
      while (waiting > 0 || out.length > 0) {
        const before = waiting + out.length
        time()
        while (take());
        for (const one of out) finish(one, one.entries.length)
        assert.isBelow(waiting + out.length, before)
      }
      assert.strictEqual(scheduler.inFlight(), 0)
      assert.isTrue(runs.every((run) => ordering === "none" || (scheduler.lineOf(run)?.chains.size ?? 0) === 0))
    }), { fastCheck: { numRuns: 500 } })

  it("takes turns: a chain with many records does not keep one with a few waiting", () => {
    const [run] = Effect.runSync(Effect.all([makeRun(0)]))
    const scheduler = Scheduler.make({ ordering: "partitionKey", size: 1, maxInFlight: 100 })
    scheduler.admit(run, [
      ...Array.from({ length: 50 }, (_, index) => recordOf("shard-0", index + 1, "hot")),
      recordOf("shard-0", 51, "cold")
    ])
    const keys: Array<string> = []
    for (let batch = scheduler.take(); batch !== undefined && keys.length < 3; batch = scheduler.take()) {
      keys.push(...batch.entries.map((entry) => entry.record.partitionKey))
      scheduler.finish(batch.line, batch.entries)
    }
    assert.deepStrictEqual(keys, ["hot", "cold", "hot"])
  })
})
