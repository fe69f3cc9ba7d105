/** Whether a shard has ended: two signs have to agree, and what comes between them costs nothing. */
import { assert, describe, it } from "@effect/vitest"
import { type KinesisClient, Position } from "@kinesumer/core"
import { Faults } from "@kinesumer/test-kit"
import { Effect, Option } from "effect"
import { datas, names, pass, putTo, row, shardId, until } from "../group/support.js"
import {
  after,
  commitsOf,
  consume,
  endsOf,
  eventsOf,
  faulty,
  faultyWorld,
  ids,
  isEnded,
  shardsOf,
  showing,
  startsOf,
  type View
} from "./lineage-support.js"

const a = shardId(0)

const withoutIterator = (answer: KinesisClient.GetRecordsResult): KinesisClient.GetRecordsResult => ({
  ...answer,
  nextIterator: Option.none(),
  childShards: []
})

const withoutChildren = Faults.rewrite<"getRecords">((answer) => ({ ...answer, childShards: [] }))

const looksOpen = Faults.rewrite<"listShards">(
  showing((shards) =>
    shards.filter(({ parents }) => parents.length === 0).map((shard) => ({ ...shard, closed: false }))
  )
)

describe("false-shard-end", () => {
  for (const view of ["records", "shards"] satisfies ReadonlyArray<View>) {
    it.scoped(`${view}: once and alone, once with records, three times in a row`, () =>
      Effect.gen(function*() {
        const w = yield* faultyWorld()
        yield* w.kinesis.createStream({ name: "orders" })
        yield* putTo(w, "orders", a, names("a", 1, 5))
        const m = yield* faulty(w)
        const { delivered } = yield* consume(m, view)
        yield* until(Effect.map(delivered, (all) => all.length === 5))
        const { epoch } = Option.getOrThrow(yield* row(w, a))

        yield* w.faults.add({ on: "getRecords", shardId: a, times: 1 }, Faults.rewrite(withoutIterator))
        yield* pass(3)
        yield* putTo(w, "orders", a, names("a", 6, 10))
        yield* w.faults.add({ on: "getRecords", shardId: a, times: 1 }, Faults.rewrite(withoutIterator))
        yield* until(Effect.map(delivered, (all) => all.length === 10), 5)
        const inARow = yield* w.faults.add(
          { on: "getRecords", shardId: a, times: 3 },
          Faults.rewrite(withoutIterator)
        )
        yield* until(Effect.map(inARow.fired, (fired) => fired === 3), 15)
        yield* putTo(w, "orders", a, names("a", 11, 15))
        yield* until(Effect.map(delivered, (all) => all.length === 15), 10)
        yield* pass(1.2)

        assert.deepStrictEqual(datas(yield* delivered), names("a", 1, 15))
        assert.deepStrictEqual(yield* endsOf(w, a), [])
        assert.deepStrictEqual(Option.getOrThrow(yield* row(w, a)).epoch, epoch)
        // It was opened again behind what had been read, each time.
        const starts = yield* startsOf(w, a)
        assert.strictEqual(starts.length, 1 + 5)
        assert.deepStrictEqual(starts.slice(0, 2), [
          Position.trimHorizon,
          Option.getOrThrow(yield* after(w, a, 5))
        ])
      }))
  }

  it.scoped("a shard is opened again less and less often while the list does not agree", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* w.kinesis.createStream({ name: "orders" })
      yield* w.faults.add({ on: "getRecords", shardId: a }, Faults.rewrite(withoutIterator))
      const m = yield* faulty(w)
      yield* m.consume()
      yield* pass(30)
      // After 1, 2, 4 seconds, and then 6, which is how often the list is refreshed; half of each is random.
      assert.isAtMost((yield* startsOf(w, a)).length, 13)
      assert.isAtMost((yield* w.kinesis.callsOf("listShards")).length, 13 + 6)
      assert.deepStrictEqual(yield* commitsOf(w, a), [])
    }))

  it.scoped("a true end is written one refresh after the list has caught up", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* w.kinesis.createStream({ name: "orders" })
      yield* putTo(w, "orders", a, names("a", 1, 5))
      const m = yield* faulty(w)
      yield* m.consume()
      yield* until(Effect.map(m.delivered, (all) => all.length === 5))
      const lag = yield* w.faults.add({ on: "listShards" }, looksOpen)
      yield* w.faults.add({ on: "getRecords", shardId: a }, withoutChildren)
      yield* w.kinesis.split("orders", a)
      yield* pass(15)
      assert.deepStrictEqual(yield* endsOf(w, a), [])
      yield* lag.heal
      // A refresh comes every six syncs.
      yield* until(isEnded(w, a), 12)
      yield* until(Effect.map(shardsOf(m), (shards) => shards.length === 2), 8)
      assert.deepStrictEqual(yield* shardsOf(m), ids(1, 2))
      assert.deepStrictEqual(datas(yield* m.delivered), names("a", 1, 5))
    }))

  it.scoped("a source whose answers never name children", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* w.kinesis.createStream({ name: "orders" })
      yield* putTo(w, "orders", a, names("a", 1, 5))
      yield* w.faults.add({ on: "getRecords" }, withoutChildren)
      const m = yield* faulty(w)
      yield* m.consume()
      yield* until(Effect.map(m.delivered, (all) => all.length === 5))
      const [b] = yield* w.kinesis.split("orders", a)
      yield* putTo(w, "orders", b.shardId, names("b", 1, 5))
      yield* until(Effect.map(m.delivered, (all) => all.length === 10), 10)
      assert.strictEqual((yield* endsOf(w, a)).length, 1)
    }))

  it.scoped("no page of the list shows the shard any more", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* w.kinesis.createStream({ name: "orders", shards: 2 })
      const m = yield* faulty(w)
      yield* m.consume()
      yield* pass(1)
      yield* w.faults.add(
        { on: "listShards" },
        Faults.rewrite(showing((shards) => shards.filter(({ shardId }) => shardId === ids(1)[0])))
      )
      yield* w.faults.add({ on: "getRecords", shardId: a }, Faults.rewrite(withoutIterator))
      yield* until(isEnded(w, a), 12)
    }))
})

describe("empty-child-list-is-not-the-end", () => {
  it.scoped("an open shard whose answers carry an empty list, or children, goes on", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* w.kinesis.createStream({ name: "orders", shards: 4 })
      const shards = yield* w.kinesis.shards("orders")
      // None, one and two children beside an iterator: none of it is an end.
      for (const count of [0, 1, 2]) {
        yield* w.faults.add(
          { on: "getRecords", shardId: shardId(count) },
          Faults.rewrite((answer) => ({ ...answer, childShards: shards.slice(0, count) }))
        )
      }
      const m = yield* faulty(w)
      yield* m.consume()
      yield* pass(2)
      for (const index of [0, 1, 2, 3]) yield* putTo(w, "orders", shardId(index), names(`${index}-`, 1, 3))
      yield* until(Effect.map(m.delivered, (all) => all.length === 12), 5)
      assert.deepStrictEqual(
        yield* w.faults.callsOf("commitCheckpoints").pipe(
          Effect.map((calls) =>
            calls.flatMap(({ args }) => args[2]).filter(({ position }) => position._tag === "ShardEnd")
          )
        ),
        []
      )
      for (const index of [0, 1, 2, 3]) assert.strictEqual((yield* startsOf(w, shardId(index))).length, 1)
    }))

  it.scoped("no iterator and no children: the end of a merged shard, whose child the list shows later", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* w.kinesis.createStream({ name: "orders", shards: 2 })
      yield* w.faults.add({ on: "getRecords" }, withoutChildren)
      const late = yield* w.faults.add(
        { on: "listShards" },
        Faults.rewrite(showing((shards) => shards.filter(({ parents }) => parents.length === 0)))
      )
      const m = yield* faulty(w)
      yield* m.consume()
      yield* pass(1)
      const child = yield* w.kinesis.merge("orders", a, shardId(1))
      yield* putTo(w, "orders", child.shardId, names("c", 1, 3))
      yield* until(Effect.zipWith(isEnded(w, a), isEnded(w, shardId(1)), (x, y) => x && y), 10)
      assert.deepStrictEqual(yield* shardsOf(m), [])
      yield* late.heal
      yield* until(Effect.map(m.delivered, (all) => all.length === 3), 10)
      assert.deepStrictEqual(yield* startsOf(w, child.shardId), [Position.trimHorizon])
    }))

  it.scoped("one child and two, named with the last answer", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* w.kinesis.createStream({ name: "orders", shards: 3 })
      // The list never shows the children, so what is known of them comes with the answers.
      yield* w.faults.add(
        { on: "listShards" },
        Faults.rewrite(showing((shards) => shards.filter(({ parents }) => parents.length === 0)))
      )
      const m = yield* faulty(w)
      yield* m.consume()
      yield* pass(1)
      yield* w.kinesis.split("orders", a)
      yield* w.kinesis.merge("orders", shardId(1), shardId(2))
      yield* until(Effect.map(shardsOf(m), (shards) => shards.join() === ids(3, 4, 5).join()), 10)
    }))

  it.scoped("an answer that comes after its time-out neither moves the position nor delivers twice", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* w.kinesis.createStream({ name: "orders" })
      yield* putTo(w, "orders", a, names("a", 1, 5))
      yield* w.faults.add({ on: "getRecords", shardId: a, nth: 1 }, Faults.delay("5 seconds", "after"))
      const m = yield* faulty(w, { polling: { timeout: "2 seconds" } })
      yield* m.consume()
      yield* until(Effect.map(m.delivered, (all) => all.length === 5), 10)
      yield* putTo(w, "orders", a, names("a", 6, 8))
      yield* pass(6)
      assert.deepStrictEqual(datas(yield* m.delivered), names("a", 1, 8))
      assert.deepStrictEqual(
        (yield* eventsOf(m, "Retrying")).map((
          { error, operation }
        ) => [operation, error._tag === "KinesisError" && error.reason]),
        [["getRecords", "Timeout"]]
      )
    }))
})

describe("end-probe-eaten-by-throttles", () => {
  for (const records of [5, 0]) {
    it.scoped(`empty and throttled answers before the end, and three restarts: ${records} records`, () =>
      Effect.gen(function*() {
        const w = yield* faultyWorld()
        yield* w.kinesis.createStream({ name: "orders", shards: 2 })
        const b = shardId(1)
        yield* putTo(w, "orders", a, names("a", 1, records))
        const child = yield* w.kinesis.merge("orders", a, b)
        yield* putTo(w, "orders", child.shardId, names("c", 1, 3))
        yield* w.faults.add({ on: "getRecords", shardId: a, every: 2 }, Faults.fail("Throttled"))
        const unwritten = yield* w.faults.add(
          { on: "commitCheckpoints" },
          Faults.failItems("Unavailable", { shardIds: [a] })
        )
        for (const attempt of [1, 2, 3]) {
          yield* w.kinesis.emptyPages({ stream: "orders", shardId: a, count: 3, atEnd: true })
          const m = yield* faulty(w, { memberId: "a" })
          yield* m.consume()
          yield* until(
            Effect.map(m.service.health, ({ shards }) => shards.some(({ ending, shardId }) => ending && shardId === a)),
            30
          )
          yield* until(Effect.map(eventsOf(m, "CommitFailed"), (events) => events.length > 0), 3)
          assert.deepStrictEqual(datas(yield* m.delivered), names("a", 1, records), `attempt ${attempt}`)
          assert.deepStrictEqual(yield* startsOf(w, child.shardId), [])
          yield* m.close
        }
        yield* unwritten.heal
        yield* w.faults.clearCalls
        yield* w.kinesis.emptyPages({ stream: "orders", shardId: a, count: 15, atEnd: true })
        const m = yield* faulty(w, { memberId: "a" })
        yield* m.consume()
        yield* until(Effect.map(m.delivered, (all) => all.length === records + 3), 90)
        assert.deepStrictEqual(datas(yield* m.delivered), [...names("a", 1, records), ...names("c", 1, 3)])
        assert.strictEqual((yield* endsOf(w, a)).length, 1)
        assert.isAtMost((yield* commitsOf(w, a)).length, 2)
        assert.deepStrictEqual(yield* startsOf(w, child.shardId), [Position.trimHorizon])
        const leases = (yield* w.faults.callsOf("acquireLeases")).flatMap(({ args }) => args[2])
        assert.strictEqual(leases.filter((request) => request.shardId === a).length, 1)
        assert.strictEqual((yield* startsOf(w, a)).length, 4)
      }))
  }
})
