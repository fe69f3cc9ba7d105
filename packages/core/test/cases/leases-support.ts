/** What the cases about members and leases share. */
import { type KinesumerConfig, type KinesumerEvent, Position } from "@kinesumer/core"
import { Faults } from "@kinesumer/test-kit"
import { Clock, Effect, Option, TestClock } from "effect"
import { member, settings, shardId, type TestMember, type World, world } from "../group/support.js"

export interface FaultyWorld extends World {
  readonly faults: Faults.Faults["Type"]
}

/** A stream `orders`, and faults between the members and their services. */
export const faultyWorld = (shards = 1): Effect.Effect<FaultyWorld> =>
  Effect.gen(function*() {
    const w = yield* world()
    yield* Effect.orDie(w.kinesis.createStream({ name: "orders", shards }))
    return { ...w, faults: yield* Faults.make }
  })

/** A member behind the faults, under its own id. */
export const faulty = (w: FaultyWorld, memberId: string, options: Partial<KinesumerConfig.KinesumerOptions> = {}) =>
  member(w, { ...options, memberId }, {
    client: w.faults.wrapKinesis(w.kinesis.client, memberId),
    store: w.faults.wrapStateStore(w.store, memberId)
  })

/** The defaults of the library, which the cases name. */
export const defaults = {
  syncInterval: "5 seconds",
  livenessTimeout: "15 seconds",
  commit: { interval: "5 seconds" }
} satisfies Partial<KinesumerConfig.KinesumerOptions>

export const manual = { commit: { ...settings.commit, mode: "manual" } } satisfies Partial<
  KinesumerConfig.KinesumerOptions
>

/** Lets time pass in steps of a second. */
export const seconds = (count: number): Effect.Effect<void> =>
  Effect.repeatN(TestClock.adjust("1 second"), Math.max(0, count - 1))

/** A member that dies: nothing of it reaches Kinesis or the store from now on, and it pulls no more. */
export const crash = (w: FaultyWorld, memberId: string) =>
  Effect.zipRight(
    w.faults.addStore({ member: memberId }, Faults.hang),
    w.faults.addKinesis({ member: memberId }, Faults.hang)
  )

/** The place of a process that can be frozen: while it is, no sleep in it ends, and then all that are over at once. */
export interface Process {
  readonly run: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  readonly freeze: Effect.Effect<void>
  /** What was due goes on in the order in which it became due, or in the opposite one. */
  readonly thaw: (order: "first" | "last") => Effect.Effect<void>
}

/**
 * Everything in a member waits by its clock, since the services in memory answer at once. So a clock whose sleeps do not
 * end is a process that does not run. The time itself goes on, as it does for a real one.
 */
export const makeProcess: Effect.Effect<Process> = Effect.gen(function*() {
  const clock = yield* Effect.clock
  let isFrozen = false
  let due: Array<Effect.Latch> = []
  const wait: Effect.Effect<void> = Effect.suspend(() => {
    if (!isFrozen) return Effect.void
    const latch = Effect.unsafeMakeLatch(false)
    due.push(latch)
    return latch.await
  })
  const freezable: Clock.Clock = {
    [Clock.ClockTypeId]: Clock.ClockTypeId,
    unsafeCurrentTimeMillis: () => clock.unsafeCurrentTimeMillis(),
    unsafeCurrentTimeNanos: () => clock.unsafeCurrentTimeNanos(),
    currentTimeMillis: clock.currentTimeMillis,
    currentTimeNanos: clock.currentTimeNanos,
    sleep: (duration) => Effect.zipRight(clock.sleep(duration), wait)
  }
  return {
    run: Effect.withClock(freezable),
    freeze: Effect.sync(() => {
      isFrozen = true
    }),
    thaw: (order) =>
      Effect.suspend(() => {
        isFrozen = false
        const latches = order === "first" ? due : due.reverse()
        due = []
        return Effect.forEach(latches, (latch) => latch.open, { discard: true })
      })
  }
})

export const eventsOf = <Tag extends KinesumerEvent.KinesumerEvent["_tag"]>(m: TestMember, tag: Tag) =>
  Effect.map(
    m.events,
    (events) =>
      events.filter((event): event is Extract<KinesumerEvent.KinesumerEvent, { readonly _tag: Tag }> =>
        event._tag === tag
      )
  )

export const rowsOf = (w: World, stream = "orders", app = "app") => w.store.listCheckpoints(app, stream)

/** Owner and epoch of each shard, in order. */
export const leases = (w: World, stream = "orders", app = "app") =>
  Effect.map(
    rowsOf(w, stream, app),
    (rows) =>
      rows.map(({ epoch, owner, shardId }) =>
        [shardId, Option.getOrElse(Option.map(owner, ({ memberId }) => memberId), () => "-"), epoch] as const
      ).sort(([a], [b]) => a < b ? -1 : 1)
  )

export const shardsOf = (m: TestMember) =>
  Effect.map(m.service.assignment, (shards) => shards.map((shard) => shard.shardId).sort())

export const ids = (...indices: ReadonlyArray<number>): ReadonlyArray<string> => indices.map(shardId)

/** The position after the nth record of a shard, counted from 1. */
export const after = (w: World, id: string, n: number, stream = "orders") =>
  Effect.map(Effect.orDie(w.kinesis.records(stream, id)), (records) =>
    Option.map(
      Option.fromNullable(records[n - 1]),
      ({ sequenceNumber }) => Position.afterSequence(sequenceNumber)
    ))

/** Counts how often something is changed, as time passes. */
export const watch = <A, E, R>(look: Effect.Effect<A, E, R>, times: number, step: Effect.Effect<void>) =>
  Effect.gen(function*() {
    const seen = [yield* look]
    for (let time = 0; time < times; time++) {
      yield* step
      seen.push(yield* look)
    }
    return seen
  })
