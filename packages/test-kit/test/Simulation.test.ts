import { assert, describe, it } from "@effect/vitest"
import { Simulation } from "@kinesumer/test-kit"
import { Array, Effect } from "effect"

const consumer: Simulation.Consumer = {
  view: "records",
  commit: "auto",
  handleMillis: 0,
  failures: 0,
  leaves: "closed"
}

/** Nobody takes the shards of a dead member over while anybody looks. */
const hopeless: Simulation.Scenario = {
  seed: 1,
  mode: "polling",
  latency: 20,
  streams: [{ name: "orders", shards: 1 }],
  startFrom: "TrimHorizon",
  syncInterval: 60_000,
  livenessTimeout: 3_600_000,
  closeTimeout: 5000,
  commitInterval: 60_000,
  idleInterval: 60_000,
  bufferSize: 1000,
  limit: 1000,
  trimmedPosition: "horizon",
  pageSize: 1000,
  events: [
    { at: 0, _tag: "Join", member: "a", streams: ["orders"], consumer, wallClockSkew: 1000 },
    { at: 2000, _tag: "ExpireIterators" },
    { at: 3000, _tag: "ClockJump", member: "a", by: 5000 },
    { at: 4000, _tag: "Crash", member: "a" },
    { at: 5000, _tag: "Put", stream: "orders", count: 5, bytes: 10 }
  ]
}

describe("Simulation", () => {
  it.effect("a handful of seeds breaks no promise", () =>
    Effect.gen(function*() {
      for (const seed of Array.range(1, 5)) {
        const { elapsed, journal, tally, violations } = yield* Simulation.run(Simulation.generate(seed))
        assert.deepStrictEqual(violations, [], `seed ${seed}`)
        assert.deepStrictEqual(journal, [])
        assert.isAbove(tally.records, 0)
        assert.isAbove(elapsed, 30_000)
      }
    }))

  it.effect("the same seed does the same again", () =>
    Effect.gen(function*() {
      for (const seed of [2, 6]) {
        const once = yield* Simulation.run(Simulation.generate(seed), { journal: true })
        const again = yield* Simulation.run(Simulation.generate(seed), { journal: true })
        assert.isAbove(once.journal.length, 20)
        assert.deepStrictEqual(again, once)
      }
    }))

  it("seeds differ from each other", () => {
    assert.deepStrictEqual(Simulation.generate(7), Simulation.generate(7))
    assert.notDeepEqual({ ...Simulation.generate(8), seed: 7 }, Simulation.generate(7))
  })

  it("every kind of event and of trouble occurs", () => {
    const all: Record<Simulation.Action["_tag"], true> = {
      Join: true,
      Leave: true,
      Crash: true,
      Double: true,
      Stall: true,
      Partition: true,
      Trouble: true,
      FalseEnds: true,
      StaleLists: true,
      ClockJump: true,
      ForgetMember: true,
      Put: true,
      Reshard: true,
      Split: true,
      Merge: true,
      ExpireIterators: true,
      EndSubscriptions: true,
      DeregisterConsumer: true,
      EmptyPages: true,
      Trim: true,
      Refresh: true,
      Pause: true,
      SlowConsumer: true,
      StuckConsumer: true
    }
    const allTrouble: Record<Simulation.Trouble["kind"], true> = {
      unavailable: true,
      throttled: true,
      answerLost: true,
      twice: true,
      hangs: true,
      slow: true
    }
    const events = Array.range(1, 300).flatMap((seed) => Simulation.generate(seed).events)
    assert.sameMembers([...new Set(events.map(({ _tag }) => _tag))], Object.keys(all))
    const trouble = events.flatMap((event) => event._tag === "Trouble" ? [event.trouble.kind] : [])
    assert.sameMembers([...new Set(trouble)], Object.keys(allTrouble))
  })

  it.effect("a failing scenario ends with what it broke, and shrinks to what it takes", () =>
    Effect.gen(function*() {
      const { violations: [violation] } = yield* Simulation.run(hopeless)
      assert(violation !== undefined)
      const { promise } = violation
      const shrunk = yield* Simulation.shrink(hopeless, violation)
      assert.deepStrictEqual(shrunk.events.map(({ _tag }) => _tag), ["Join", "Crash", "Put"])
      const { violations } = yield* Simulation.run(shrunk)
      assert.include(violations.map((one) => one.promise), promise)
    }))
})
