/** Interleavings that cost a shard, room or a lease: each came out of reading the code for what could go wrong. */
import { assert, describe, it } from "@effect/vitest"
import { StateStoreError } from "@kinesumer/core"
import type { KinesisClient, StateStore } from "@kinesumer/core"
import { Deferred, Effect, Exit, Fiber, Option, Ref, Stream, TestClock } from "effect"
import { datas, member, names, pass, putTo, row, shardId, until, type World, world } from "./support.js"

type Store = StateStore.StateStore["Type"]
type Client = KinesisClient.KinesisClient["Type"]

const failure = new StateStoreError.StateStoreError({
  reason: "Unavailable",
  operation: "any",
  detail: "switched off"
})

/** A client whose answers to GetRecords wait for a gate, after the server has given them. */
const gated = (client: Client) =>
  Effect.map(Effect.makeLatch(true), (gate) => ({
    gate,
    client: {
      ...client,
      getRecords: (...args: Parameters<Client["getRecords"]>) => Effect.zipLeft(client.getRecords(...args), gate.await)
    }
  }))

const mine = { memberId: "thief", incarnation: "1" }

const steal = ({ store }: World, id: string) =>
  Effect.gen(function*() {
    const [before] = (yield* store.listCheckpoints("app", "orders")).filter((one) => one.shardId === id)
    yield* store.acquireLeases("app", mine, [{
      stream: "orders",
      shardId: id,
      takeFrom: Option.map(before?.owner ?? Option.none(), (dead) => ({ ...dead, epoch: before?.epoch ?? 0 })),
      epochAbove: 0
    }])
  })

describe("room in the buffer", () => {
  it.scoped("comes back from a page that arrives in the moment in which its lease is lost", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders" })
      const { client, gate } = yield* gated(w.kinesis.client)
      const committing = yield* Effect.makeLatch(true)
      const store: Store = {
        ...w.store,
        commitCheckpoints: (...args) => Effect.zipLeft(w.store.commitCheckpoints(...args), committing.await)
      }
      const m = yield* member(w, {
        syncInterval: "10 seconds",
        livenessTimeout: "60 seconds",
        commit: { interval: "1 second", timeout: "20 seconds" }
      }, { client, store })
      yield* m.consume()
      yield* putTo(w, "orders", shardId(0), names("a", 1, 3))
      yield* until(Effect.map(m.delivered, (all) => all.length === 3))
      yield* steal(w, shardId(0))
      yield* gate.close
      yield* committing.close
      yield* putTo(w, "orders", shardId(0), names("a", 4, 6))
      yield* pass(3)
      // Both answers are there at once, and the store's is the first.
      yield* committing.open
      yield* gate.open
      yield* pass(1)
      assert.strictEqual((yield* m.events).filter(({ _tag }) => _tag === "LeaseLost").length, 1)
      // Which of the two is acted on first is the scheduler's choice; after the loss nothing is delivered.
      const delivered = datas(yield* m.delivered)
      assert.deepStrictEqual(delivered, names("a", 1, delivered.length === 3 ? 3 : 6))
      assert.strictEqual((yield* m.service.health).bufferedRecords, 0)
      assert.strictEqual((yield* m.service.health).bufferedBytes, 0)
    }))

  it.scoped("is not held by a page that arrives after its stream was paused, and the page comes after that", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders" })
      const { client, gate } = yield* gated(w.kinesis.client)
      const m = yield* member(w, {}, { client })
      yield* m.consume()
      yield* pass(1)
      yield* gate.close
      yield* putTo(w, "orders", shardId(0), names("a", 1, 3))
      yield* pass(2)
      yield* m.service.pause("orders")
      yield* gate.open
      yield* pass(2)
      assert.strictEqual((yield* m.service.health).bufferedRecords, 0)
      yield* m.service.resume("orders")
      yield* pass(5)
      assert.deepStrictEqual(datas(yield* m.delivered), names("a", 1, 3))
    }))

  it.scoped("of single shards: those that get on are not starved by those that don't", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders", shards: 10 })
      for (let index = 0; index < 10; index++) yield* putTo(w, "orders", shardId(index), names("a", 1, 30))
      const counts = yield* Ref.make<ReadonlyMap<string, number>>(new Map())
      const m = yield* member(w, { bufferSize: 20 })
      const going = new Set([shardId(7), shardId(8), shardId(9)])
      const begun = yield* Effect.makeLatch(false)
      yield* Effect.fork(Stream.runDrain(Stream.flatMap(m.service.shards, (shard) =>
        Stream.fromEffect(going.has(shard.shardId) ? begun.await : Effect.void).pipe(
          Stream.flatMap(() =>
            shard.records
          ),
          Stream.mapEffect(() =>
            Ref.update(counts, (all) =>
              new Map(all).set(shard.shardId, (all.get(shard.shardId) ?? 0) + 1)).pipe(
                Effect.zipRight(going.has(shard.shardId) ? Effect.void : Effect.never)
              )
          )
        ), { concurrency: "unbounded" })))
      yield* pass(10)
      yield* begun.open
      yield* until(Effect.map(Ref.get(counts), (done) =>
        [...going].every((id) => done.get(id) === 30)))
    }))
})

describe("leases", () => {
  it.scoped("of a stream that is read no more go free, even if giving them back failed at first", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders" })
      yield* w.kinesis.createStream({ name: "payments" })
      const broken = yield* Ref.make(false)
      const store: Store = {
        ...w.store,
        releaseLeases: (...args) =>
          Effect.flatMap(Ref.get(broken), (on) => on ? Effect.fail(failure) : w.store.releaseLeases(...args))
      }
      const m = yield* member(w, { streams: ["orders", "payments"] }, { store })
      yield* m.consume()
      yield* pass(1)
      yield* Ref.set(broken, true)
      yield* Effect.ignore(m.service.refresh(["orders"]))
      yield* pass(3)
      yield* Ref.set(broken, false)
      yield* pass(5)
      assert.isTrue(Option.isNone(Option.flatMap(yield* row(w, shardId(0), "payments"), ({ owner }) => owner)))
    }))

  it.scoped("of a shard whose slice is in hand go free as soon as nobody can mark it any more", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders" })
      yield* w.kinesis.createStream({ name: "payments" })
      const ownerOf = Effect.map(row(w, shardId(0)), Option.flatMap(({ owner }) => owner))
      for (const view of ["records", "shards"] as const) {
        const m = yield* member(w, { streams: ["orders", "payments"], syncInterval: "3 seconds" })
        yield* putTo(w, "orders", shardId(0), [view])
        const handed = yield* Effect.makeLatch(false)
        const handle = () => Effect.zipRight(handed.open, Effect.never)
        const fiber = yield* Effect.fork(
          view === "records"
            ? Stream.runForEach(m.service.records, handle)
            : Stream.runDrain(Stream.flatMap(m.service.shards, (shard) => Stream.mapEffect(shard.records, handle), {
              concurrency: "unbounded"
            }))
        )
        yield* pass(2)
        yield* handed.await
        yield* m.service.refresh(["payments"])
        yield* pass(1)
        assert.isTrue(Option.isSome(yield* ownerOf))
        yield* Fiber.interrupt(fiber)
        yield* pass(0.2)
        assert.isTrue(Option.isNone(yield* ownerOf))
        yield* m.close
      }
    }))

  it.scoped("that are being given back are not taken for held ones, when the stream comes back meanwhile", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders" })
      yield* w.kinesis.createStream({ name: "payments" })
      const releasing = yield* Effect.makeLatch(true)
      const store: Store = {
        ...w.store,
        releaseLeases: (...args) => Effect.zipRight(releasing.await, w.store.releaseLeases(...args))
      }
      const m = yield* member(w, { streams: ["orders", "payments"] }, { store })
      yield* m.consume()
      yield* pass(1)
      yield* releasing.close
      yield* m.service.refresh(["orders"])
      yield* pass(0.2)
      yield* m.service.refresh(["orders", "payments"])
      yield* releasing.open
      yield* TestClock.adjust("1 millis")
      const running = (yield* m.service.assignment).filter(({ stream }) => stream === "payments")
      const owner = Option.flatMap(yield* row(w, shardId(0), "payments"), (one) => one.owner)
      assert.isFalse(running.length === 1 && Option.isNone(owner), "runs a shard of which it has no lease")
      yield* pass(5)
      assert.strictEqual((yield* m.service.assignment).length, 2)
      assert.deepStrictEqual((yield* m.events).filter(({ _tag }) => _tag === "LeaseLost"), [])
    }))

  it.scoped("whose row vanished go on from the cursor, even if the answer to the first try was lost", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders" })
      const loses = yield* Ref.make(false)
      const store: Store = {
        ...w.store,
        acquireLeases: (...args) =>
          Effect.zipLeft(
            w.store.acquireLeases(...args),
            Effect.flatMap(Ref.getAndSet(loses, false), (on) => on ? Effect.fail(failure) : Effect.void)
          )
      }
      const m = yield* member(w, {}, { store })
      yield* m.consume()
      yield* putTo(w, "orders", shardId(0), names("a", 1, 3))
      yield* until(Effect.map(m.delivered, (all) => all.length === 3))
      yield* pass(3)
      const held = Option.getOrThrow(yield* row(w, shardId(0)))
      yield* w.store.releaseLeases("app", Option.getOrThrow(held.owner), [{ stream: "orders", ...held }])
      yield* w.store.removeCheckpoints("app", "orders", [shardId(0)])
      yield* Ref.set(loses, true)
      yield* putTo(w, "orders", shardId(0), names("a", 4, 6))
      yield* pass(10)
      assert.deepStrictEqual(datas(yield* m.delivered), names("a", 1, 6))
    }))
})

describe("rounds", () => {
  it.scoped("a refresh whose assignment is published succeeds, even if the dead can't be removed", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders" })
      yield* w.kinesis.createStream({ name: "payments" })
      const store: Store = { ...w.store, pruneMembers: () => Effect.fail(failure) }
      yield* w.store.registerMember("app", {
        memberId: "zombie",
        incarnation: "1",
        heartbeat: 1,
        refreshes: 0,
        streams: ["orders"],
        assignVersion: 1
      })
      const m = yield* member(w, { memberId: "a" }, { store })
      yield* pass(10)
      const exit = yield* Effect.exit(m.service.refresh(["orders", "payments"]))
      const streams = (yield* m.service.assignment).map(({ stream }) => stream)
      assert.deepStrictEqual([Exit.isSuccess(exit), streams], [true, ["orders", "payments"]])
    }))

  it.scoped("only the leader asks for the shard list, as long as it gets on", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders", shards: 2 })
      const asked = yield* Ref.make<ReadonlyArray<string>>([])
      const client = (name: string): Client => ({
        ...w.kinesis.client,
        listShards: (...args) =>
          Effect.zipRight(Ref.update(asked, (all) => [...all, name]), w.kinesis.client.listShards(...args))
      })
      yield* member(w, { memberId: "a" }, { client: client("a") })
      yield* member(w, { memberId: "b" }, { client: client("b") })
      yield* pass(10)
      yield* Ref.set(asked, [])
      yield* pass(60)
      assert.isAtLeast((yield* Ref.get(asked)).length, 8)
      assert.notInclude(yield* Ref.get(asked), "b")
    }))
})

describe("shards", () => {
  it.scoped("hands out each run once, and none that is over already", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders" })
      const m = yield* member(w, { memberId: "a" })
      const epochs = yield* Ref.make<ReadonlyArray<number>>([])
      const gate = yield* Deferred.make<void>()
      yield* Effect.fork(Stream.runForEach(m.service.shards, ({ epoch }) =>
        Effect.zipRight(Ref.update(epochs, (all) => [...all, epoch]), Deferred.await(gate))))
      yield* pass(1)
      for (let times = 0; times < 3; times++) {
        yield* steal(w, shardId(0))
        const stolen = Option.getOrThrow(yield* row(w, shardId(0)))
        yield* m.service.refresh(["orders"])
        yield* w.store.releaseLeases("app", mine, [{ stream: "orders", ...stolen }])
        yield* m.service.refresh(["orders"])
        yield* pass(2)
      }
      const [now] = yield* m.service.assignment
      yield* Deferred.succeed(gate, undefined)
      yield* pass(2)
      assert.deepStrictEqual(yield* Ref.get(epochs), [1, now?.epoch ?? 0])
    }))
})
