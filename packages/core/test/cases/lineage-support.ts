/** What the cases about parents, children and ends share. */
import { type KinesumerConfig, type KinesumerEvent, type KinesumerRecord, Position, type Shard } from "@kinesumer/core"
import { Faults } from "@kinesumer/test-kit"
import { Effect, Fiber, Option, Ref, Stream, TestClock } from "effect"
import { member, row, settings, shardId, type TestMember, type World, world } from "../group/support.js"

export interface FaultyWorld extends World {
  readonly faults: Faults.Faults["Type"]
}

export const faultyWorld = (options?: Parameters<typeof world>[0]): Effect.Effect<FaultyWorld> =>
  Effect.zipWith(world(options), Faults.make, (w, faults) => ({ ...w, faults }))

/** A member behind the faults, under its own id. */
export const faulty = (w: FaultyWorld, options: Partial<KinesumerConfig.KinesumerOptions> = {}) => {
  const { memberId = "a" } = options
  return member(w, { ...options, memberId }, {
    client: w.faults.wrapKinesis(w.kinesis.client, memberId),
    store: w.faults.wrapStateStore(w.store, memberId)
  })
}

/** Few wake-ups in a long time. */
export const slow = {
  ...settings,
  syncInterval: "10 seconds",
  livenessTimeout: "60 seconds",
  commit: { interval: "10 seconds" },
  polling: { idleInterval: "10 seconds" }
} satisfies KinesumerConfig.KinesumerOptions

/** Lets virtual time pass in a few steps. Everything that is due comes in its turn all the same. */
export const leap = (seconds: number): Effect.Effect<void> =>
  Effect.repeatN(TestClock.adjust(`${seconds / 4} seconds`), 3)

export const manual = { commit: { mode: "manual", interval: "1 second" } } satisfies Partial<
  KinesumerConfig.KinesumerOptions
>

/** Everything in parallel, from `shards`. */
export const consumeShards = (
  m: TestMember,
  handler: (record: KinesumerRecord.KinesumerRecord) => Effect.Effect<void> = () => Effect.void
) =>
  Effect.map(Ref.make<ReadonlyArray<KinesumerRecord.KinesumerRecord>>([]), (delivered) => ({
    delivered: Ref.get(delivered),
    run: Stream.runForEach(
      Stream.flatMap(m.service.shards, (shard) => shard.records, { concurrency: "unbounded" }),
      (record) => Effect.zipRight(Ref.update(delivered, (all) => [...all, record]), handler(record))
    )
  })).pipe(
    Effect.flatMap(({ delivered, run }) => Effect.map(Effect.fork(run), (fiber) => ({ delivered, fiber })))
  )

export type View = "records" | "shards"

/** Runs one of the two streams and notes what comes. */
export const consume = (
  m: TestMember,
  view: View,
  handler: (record: KinesumerRecord.KinesumerRecord) => Effect.Effect<void> = () => Effect.void
) =>
  view === "shards"
    ? consumeShards(m, handler)
    : Effect.map(m.consume(handler), (fiber) => ({ delivered: m.delivered, fiber }))

export const positionOf = (w: World, id: string, stream = "orders") =>
  Effect.map(row(w, id, stream), Option.flatMap(({ position }) => position))

export const isEnded = (w: World, id: string, stream = "orders"): Effect.Effect<boolean> =>
  Effect.map(Effect.orDie(positionOf(w, id, stream)), Option.exists(Position.is("ShardEnd")))

/** The position after the nth record that was put into a shard, counted from 1. */
export const after = (w: World, id: string, n: number) =>
  Effect.map(w.kinesis.records("orders", id), (records) =>
    Option.map(
      Option.fromNullable(records[n - 1]),
      ({ sequenceNumber }) => Position.afterSequence(sequenceNumber)
    ))

/** What was tried to be written for a shard, oldest first, with what came of it. */
export const commitsOf = (w: FaultyWorld, id: string, member?: string) =>
  Effect.map(
    w.faults.callsOf("commitCheckpoints", { member }),
    (calls) =>
      calls.flatMap(({ args, outcome }) =>
        args[2].filter((commit) => commit.shardId === id).map(({ position }) => ({ position, outcome }))
      )
  )

export const endsOf = (w: FaultyWorld, id: string, member?: string) =>
  Effect.map(commitsOf(w, id, member), (commits) => commits.filter(({ position }) => position._tag === "ShardEnd"))

export const eventsOf = <Tag extends KinesumerEvent.KinesumerEvent["_tag"]>(m: TestMember, tag: Tag) =>
  Effect.map(
    m.events,
    (events) =>
      events.filter((event): event is Extract<KinesumerEvent.KinesumerEvent, { readonly _tag: Tag }> =>
        event._tag === tag
      )
  )

/** Where reading of a shard was begun, each time that it was. */
export const startsOf = (w: World, id: string) =>
  Effect.map(
    w.kinesis.callsOf("getShardIterator", { shardId: id }),
    (calls) => calls.map(({ position }) => position)
  )

export const shardsOf = (m: TestMember) =>
  Effect.map(m.service.assignment, (shards) => shards.map((shard) => shard.shardId).sort())

export const ids = (...indices: ReadonlyArray<number>): ReadonlyArray<string> => indices.map(shardId)

/** A list as Kinesis might show it, of true shards. */
export const showing =
  (change: (shards: ReadonlyArray<Shard.Shard>) => ReadonlyArray<Shard.Shard>) =>
  <A extends { readonly shards: ReadonlyArray<Shard.Shard> }>(page: A): A => ({ ...page, shards: change(page.shards) })

/** A member that dies: nothing of it reaches Kinesis or the store from now on. */
export const crash = (w: FaultyWorld, m: TestMember) =>
  w.faults.addStore({ member: m.service.memberId }, Faults.fail("Unavailable")).pipe(
    Effect.zipRight(w.faults.addKinesis({ member: m.service.memberId }, Faults.fail("Unavailable"))),
    Effect.zipRight(m.close)
  )

export { Fiber }
