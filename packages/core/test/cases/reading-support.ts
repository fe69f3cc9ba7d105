/** What the cases about reading, commits and stopping share. */
import {
  type KinesumerConfig,
  type KinesumerError,
  type KinesumerEvent,
  type KinesumerRecord,
  Position
} from "@kinesumer/core"
import { Faults } from "@kinesumer/test-kit"
import { Effect, Option, Ref, Stream, TestClock } from "effect"
import { datas, member, row, settings, shardId, type TestMember, type World, world } from "../group/support.js"

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

export const manual = { commit: { mode: "manual", interval: "1 second" } } satisfies Partial<
  KinesumerConfig.KinesumerOptions
>

/** Few wake-ups in a long time. */
export const slow = {
  ...settings,
  syncInterval: "10 seconds",
  livenessTimeout: "60 seconds",
  commit: { interval: "10 seconds" },
  polling: { idleInterval: "10 seconds" }
} satisfies KinesumerConfig.KinesumerOptions

export type Handler<E = never> = (record: KinesumerRecord.KinesumerRecord) => Effect.Effect<void, E>

export type View = "records" | "shards"

export const bothViews: ReadonlyArray<View> = ["records", "shards"]

type Records = Stream.Stream<KinesumerRecord.KinesumerRecord, KinesumerError.ConsumeError>

/**
 * One of the two streams of a member, with what is done with its records. With `shards` that has to be done within the
 * stream of the shard: a `flatMap` with concurrency reads ahead of what follows it.
 */
export const runOf = <A, E>(
  m: TestMember,
  view: View,
  through: (records: Records) => Stream.Stream<A, E>
): Stream.Stream<A, E | KinesumerError.ConsumeError> =>
  view === "records"
    ? through(m.service.records)
    : Stream.flatMap(m.service.shards, (shard) => through(shard.records), { concurrency: "unbounded" })

/** A run of one of the two streams that can be started, and what it was handed so far. */
export const reader = <E = never>(m: TestMember, view: View, handler: Handler<E> = () => Effect.void) =>
  Effect.map(Ref.make<ReadonlyArray<KinesumerRecord.KinesumerRecord>>([]), (seen) => ({
    seen: Ref.get(seen),
    datas: Effect.map(Ref.get(seen), datas),
    count: Effect.map(Ref.get(seen), (all) => all.length),
    run: Stream.runDrain(
      runOf(
        m,
        view,
        (records) =>
          Stream.mapEffect(
            records,
            (record) => Effect.zipRight(Ref.update(seen, (all) => [...all, record]), handler(record))
          )
      )
    )
  }))

/** A member that dies: nothing of it reaches Kinesis or the store from now on. */
export const crash = (w: FaultyWorld, m: TestMember) =>
  Effect.gen(function*() {
    yield* w.faults.addStore({ member: m.service.memberId }, Faults.hang)
    yield* w.faults.addKinesis({ member: m.service.memberId }, Faults.hang)
    yield* Effect.fork(m.close)
    yield* Effect.yieldNow()
  })

export const positionOf = (w: World, id: string = shardId(0), stream = "orders") =>
  Effect.map(row(w, id, stream), Option.flatMap(({ position }) => position))

/** The position after the nth record that a shard holds, counted from 1. */
export const after = (w: World, n: number, id: string = shardId(0), stream = "orders") =>
  Effect.map(w.kinesis.records(stream, id), (records) =>
    Option.map(
      Option.fromNullable(records[n - 1]),
      ({ sequenceNumber }) => Position.afterSequence(sequenceNumber)
    ))

/** Every position that was asked to be written for a shard, oldest first. */
export const commitsOf = (w: FaultyWorld, id: string = shardId(0)) =>
  Effect.map(
    w.faults.callsOf("commitCheckpoints"),
    (calls) => calls.flatMap(({ args }) => args[2].filter((one) => one.shardId === id).map(({ position }) => position))
  )

/** The names of the records that these positions stand after; `end` for `ShardEnd`. */
export const namesOf = (
  w: World,
  positions: Iterable<Position.Position>,
  id: string = shardId(0),
  stream = "orders"
) =>
  Effect.map(w.kinesis.records(stream, id), (records) => {
    const names = new Map(
      records.map(({ data, sequenceNumber }) => [sequenceNumber, new TextDecoder().decode(data)] as const)
    )
    return [...positions].map((position) =>
      Position.match(position, {
        TrimHorizon: () => "horizon",
        AtTimestamp: ({ timestamp }) => `at ${timestamp.epochMillis}`,
        AfterSequence: ({ sequenceNumber }) => names.get(sequenceNumber) ?? sequenceNumber,
        ShardEnd: () => "end"
      })
    )
  })

export const eventsOf = <Tag extends KinesumerEvent.KinesumerEvent["_tag"]>(m: TestMember, tag: Tag) =>
  Effect.map(
    m.events,
    (events) =>
      events.filter((event): event is Extract<KinesumerEvent.KinesumerEvent, { readonly _tag: Tag }> =>
        event._tag === tag
      )
  )

/** Lets virtual time pass in a few steps. Everything that is due comes in its turn all the same. */
export const leap = (seconds: number, steps = 4): Effect.Effect<void> =>
  Effect.repeatN(TestClock.adjust(`${seconds / steps} seconds`), steps - 1)

/** Where reading of a shard was begun, each time that it was. */
export const startsOf = (w: World, id: string = shardId(0)) =>
  Effect.map(
    w.kinesis.callsOf("getShardIterator", { shardId: id }),
    (calls) => calls.map(({ position }) => position)
  )
