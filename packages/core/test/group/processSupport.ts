/** What tests of `process` share. */
import { Kinesumer, type KinesumerRecord, Position, type Processing, StateStoreError } from "@kinesumer/core"
import { Cause, Effect, Exit, Option, Ref } from "effect"
import { member, names, putTo, row, shardId, type TestMember, type World, world } from "./support.js"

export const dataOf = (record: KinesumerRecord.KinesumerRecord): string => new TextDecoder().decode(record.data)

/** Puts records `<key>:<n>`, in this order. */
export const putKeyed = ({ kinesis }: World, all: ReadonlyArray<string>, shard = 0) =>
  Effect.forEach(
    all,
    (data) => kinesis.putTo({ stream: "orders", shardId: shardId(shard), data, partitionKey: data.split(":")[0] ?? "" })
  )

export const oneShard = Effect.gen(function*() {
  const w = yield* world()
  yield* w.kinesis.createStream({ name: "orders" })
  return w
})

/** What is committed: the data of the last record that is covered. */
export const committed = (w: World, shard = 0, app = "app") =>
  Effect.gen(function*() {
    const position = Option.flatMap(yield* row(w, shardId(shard), "orders", app), (one) => one.position)
    const records = yield* w.kinesis.records("orders", shardId(shard))
    const found = records.find((record) =>
      Option.exists(position, (at) => Position.compare(at, Position.afterSequence(record.sequenceNumber)) === 0)
    )
    return found === undefined ? undefined : new TextDecoder().decode(found.data)
  })

export const log = Effect.map(Ref.make<ReadonlyArray<string>>([]), (ref) => ({
  add: (line: string) => Ref.update(ref, (all) => [...all, line]),
  all: Ref.get(ref),
  size: Effect.map(Ref.get(ref), (all) => all.length)
}))

export const start = <E, R, RR = never, DE = never, DR = never>(
  { service }: TestMember,
  handler: Processing.Handler<E, R>,
  options?: Processing.ProcessOptions<E, RR, DE, DR>
) => Effect.fork(Effect.provideService(Kinesumer.process(handler, options), Kinesumer.Kinesumer, service))

export const failureOf = <A, E>(exit: Exit.Exit<A, E>): E | undefined =>
  Option.getOrUndefined(Option.flatMap(Exit.causeOption(exit), Cause.failureOption))

/** A member that took this one for dead has come first, and has its first shard. */
export const steal = (w: World) =>
  Effect.gen(function*() {
    const thief = { memberId: "thief", incarnation: "x" }
    yield* w.store.registerMember("app", {
      ...thief,
      heartbeat: 1,
      refreshes: 0,
      streams: ["orders"],
      assignVersion: 1
    })
    const found = yield* row(w, shardId(0))
    yield* w.store.acquireLeases("app", thief, [{
      stream: "orders",
      shardId: shardId(0),
      takeFrom: Option.flatMap(found, ({ epoch, owner }) => Option.map(owner, (one) => ({ ...one, epoch }))),
      epochAbove: 0
    }])
  })

/** A member that reads one shard with so many records, and whose store can break. */
export const shaky = (count: number) =>
  Effect.gen(function*() {
    const w = yield* oneShard
    yield* putTo(w, "orders", shardId(0), names("a", 1, count))
    const broken = yield* Ref.make(false)
    return { m: yield* member(w, {}, { store: breakable(w, broken) }), broken }
  })

/** A store that does not answer while it is broken. */
const breakable = ({ store }: World, broken: Ref.Ref<boolean>): World["store"] => {
  const error = new StateStoreError.StateStoreError({ reason: "Unavailable", operation: "any", detail: "down" })
  const guard = <A, E>(effect: Effect.Effect<A, E>) =>
    Effect.zipRight(Effect.whenEffect(Effect.fail(error), Ref.get(broken)), effect)
  return {
    ...store,
    heartbeat: (app, one) => guard(store.heartbeat(app, one)),
    listMembers: (app) => guard(store.listMembers(app)),
    commitCheckpoints: (app, owner, all) => guard(store.commitCheckpoints(app, owner, all))
  }
}
