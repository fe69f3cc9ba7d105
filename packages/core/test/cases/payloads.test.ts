/** Aggregated records: what is delivered of them, where, and from which part on after a restart. */
import { assert, describe, it } from "@effect/vitest"
import { type KinesumerConfig, KinesumerMetrics, type KinesumerRecord, Position } from "@kinesumer/core"
import { Faults } from "@kinesumer/test-kit"
import { Effect, FastCheck, Metric, MetricLabel, Option, TestClock } from "effect"
import { createHash } from "node:crypto"
import { datas, pass, shardId, until } from "../group/support.js"
import * as Aggregates from "../utils/aggregates.js"
import * as FanOut from "./fan-out-support.js"
import {
  crash,
  eventsOf,
  faulty,
  type FaultyWorld,
  faultyWorld,
  type Handler,
  manual,
  positionOf,
  startsOf
} from "./reading-support.js"

type Options = Partial<KinesumerConfig.KinesumerOptions>

const modes = ["polling", "fanOut"] as const

const delivering = (w: FaultyWorld, options: Options, handler?: Handler) =>
  Effect.gen(function*() {
    // One that has crashed is through with closing, in vain, when it counts as dead.
    const m = yield* faulty(w, { closeTimeout: "2 seconds", ...options })
    yield* m.consume(handler)
    return m
  })

const named = (...names: ReadonlyArray<string>) => (all: ReadonlyArray<KinesumerRecord.KinesumerRecord>) =>
  all.filter((record) => names.includes(FanOut.nameOf(record)))

/** Where reading of the shard was begun, each time, in either mode. */
const begun = (w: FaultyWorld, mode: typeof modes[number]) => mode === "polling" ? startsOf(w) : FanOut.startsOf(w)

/** The other members take over from one that is dead. */
const livenessTimeout = "6 seconds"

describe("aggregate-crash-between-subrecords", () => {
  /** One shard with a record, an aggregate of five, and another record. */
  const put = (w: FaultyWorld) =>
    Effect.gen(function*() {
      yield* w.kinesis.createStream({ name: "orders" })
      const putTo = (data: Uint8Array | string) => w.kinesis.putTo({ stream: "orders", shardId: shardId(0), data })
      yield* putTo("1")
      const aggregate = yield* putTo(Aggregates.of(["a", "b", "c", "d", "e"].map((data) => ({ data }))))
      yield* putTo("3")
      return aggregate.sequenceNumber
    })

  const everything = ["1", "a", "b", "c", "d", "e", "3"]

  for (const mode of modes) {
    describe(mode, () => {
      /** A second member begins when the first one, of which nothing is heard any more, is dead. */
      const after = (
        w: FaultyWorld,
        mark: (m: Effect.Effect.Success<ReturnType<typeof faulty>>) => Effect.Effect<void>
      ) =>
        Effect.gen(function*() {
          const first = yield* delivering(w, { ...manual, mode, memberId: "a" })
          yield* until(Effect.map(first.delivered, ({ length }) => length === everything.length))
          assert.deepStrictEqual(datas(yield* first.delivered), everything)
          yield* mark(first)
          yield* crash(w, first)
          yield* TestClock.adjust(livenessTimeout)
          const second = yield* delivering(w, { ...manual, mode, memberId: "b" })
          yield* until(Effect.map(second.delivered, (all) => datas(all).includes("3")))
          yield* pass(2)
          return datas(yield* second.delivered)
        })

      const marking = (...names: ReadonlyArray<string>) => (m: Effect.Effect.Success<ReturnType<typeof faulty>>) =>
        Effect.gen(function*() {
          const all = yield* m.delivered
          for (const name of names) yield* m.service.mark(named(name)(all))
          yield* m.service.commit
        }).pipe(Effect.orDie)

      it.scoped("committed up to b: it goes on with c, read at the aggregate", () =>
        Effect.gen(function*() {
          const w = yield* faultyWorld()
          const aggregate = yield* put(w)
          assert.deepStrictEqual(yield* after(w, marking("1", "a", "b")), ["c", "d", "e", "3"])
          assert.deepStrictEqual(
            (yield* begun(w, mode)).at(-1),
            Position.afterSequence(aggregate, 1)
          )
          assert.deepStrictEqual(yield* positionOf(w), Option.some(Position.afterSequence(aggregate, 1)))
        }))

      it.scoped("marked up to b, and not committed: nothing is missing", () =>
        Effect.gen(function*() {
          const w = yield* faultyWorld()
          yield* put(w)
          const delivered = yield* after(w, (m) =>
            Effect.gen(function*() {
              const all = yield* m.delivered
              yield* m.service.mark(named("1", "a")(all))
              yield* m.service.commit
              yield* m.service.mark(named("b")(all))
            }).pipe(Effect.orDie))
          assert.deepStrictEqual(delivered, ["b", "c", "d", "e", "3"])
        }))

      it.scoped("c marked before b: it goes on with b", () =>
        Effect.gen(function*() {
          const w = yield* faultyWorld()
          const aggregate = yield* put(w)
          const delivered = yield* after(w, (m) =>
            Effect.gen(function*() {
              yield* marking("1", "a", "c")(m)
              assert.deepStrictEqual(yield* positionOf(w), Option.some(Position.afterSequence(aggregate, 0)))
            }).pipe(Effect.orDie))
          assert.deepStrictEqual(delivered, ["b", "c", "d", "e", "3"])
        }))

      it.scoped("committed up to the last part: it goes on after the aggregate", () =>
        Effect.gen(function*() {
          const w = yield* faultyWorld()
          const aggregate = yield* put(w)
          const delivered = yield* after(w, (m) =>
            Effect.gen(function*() {
              yield* marking("e", "d", "c", "b", "a", "1")(m)
              assert.deepStrictEqual(yield* positionOf(w), Option.some(Position.afterSequence(aggregate)))
            }).pipe(Effect.orDie))
          assert.deepStrictEqual(delivered, ["3"])
        }))

      it.scoped("auto commit, slices that end within the aggregate: it goes on after the last one that is done", () =>
        Effect.gen(function*() {
          const w = yield* faultyWorld()
          const aggregate = yield* put(w)
          const options = { mode, bufferSize: 3 }
          const first = yield* delivering(
            w,
            { ...options, memberId: "a" },
            (record) => FanOut.nameOf(record) === "d" ? Effect.never : Effect.void
          )
          yield* until(Effect.map(first.delivered, (all) => datas(all).includes("d")))
          yield* pass(2)
          const stored = Option.getOrThrow(yield* positionOf(w))
          assert.strictEqual(stored._tag === "AfterSequence" ? stored.sequenceNumber : undefined, aggregate)
          const done = stored._tag === "AfterSequence" ? stored.subSequenceNumber ?? Infinity : Infinity
          assert.isBelow(done, 3)
          yield* crash(w, first)
          yield* TestClock.adjust(livenessTimeout)
          const second = yield* delivering(w, { ...options, memberId: "b" })
          yield* until(Effect.map(second.delivered, (all) => datas(all).includes("3")))
          assert.deepStrictEqual(datas(yield* second.delivered), everything.slice(done + 2))
        }))

      it.scoped("a run that fails within the aggregate goes on with the part that failed", () =>
        Effect.gen(function*() {
          const w = yield* faultyWorld()
          yield* put(w)
          const m = yield* faulty(w, { ...manual, mode })
          const fiber = yield* m.consume((record) =>
            FanOut.nameOf(record) === "c" ? Effect.die("no") : Effect.orDie(m.service.mark(record))
          )
          yield* until(Effect.map(fiber.status, ({ _tag }) => _tag === "Done"))
          yield* m.consume()
          yield* until(Effect.map(m.delivered, (all) => datas(all).includes("3")))
          assert.deepStrictEqual(datas(yield* m.delivered), ["1", "a", "b", "c", "c", "d", "e", "3"])
        }))

      it.scoped("taken as they are, aggregates are records like others", () =>
        Effect.gen(function*() {
          const w = yield* faultyWorld()
          const aggregate = yield* put(w)
          const m = yield* delivering(w, { mode, aggregation: { expand: false } })
          yield* until(Effect.map(m.delivered, ({ length }) => length === 3))
          const [, whole] = yield* m.delivered
          assert.strictEqual(whole?.sequenceNumber, aggregate)
          assert.isUndefined(whole?.subSequenceNumber)
          assert.deepStrictEqual([...whole?.data.subarray(0, 4) ?? []], [0xf3, 0x89, 0x9a, 0xc2])
        }))
    })
  }
})

const half = 2n ** 127n

const hashOf = (key: string): bigint => BigInt(`0x${createHash("md5").update(key).digest("hex")}`)

/** Keys of the first and of the second half of all hash keys. */
const keysOf = (isIn: (hash: bigint) => boolean): ReadonlyArray<string> =>
  Array.from({ length: 40 }, (_, index) => `key${index}`).filter((key) => isIn(hashOf(key)))
const ofA = keysOf((hash) => hash < half)
const ofB = keysOf((hash) => hash >= half)

describe("aggregate-crosses-shards", () => {
  const explicit = `${half + 1n}`

  /** Two keys of A, two of B, one with an explicit key of B, and one with an index that is not in the table. */
  const six = Aggregates.encode({
    partition_key_table: [ofA[0] ?? "", ofA[1] ?? "", ofB[0] ?? "", ofB[1] ?? ""],
    explicit_hash_key_table: [explicit],
    records: [
      { partition_key_index: 0, data: Buffer.from("a1") },
      { partition_key_index: 2, data: Buffer.from("b1") },
      { partition_key_index: 1, data: Buffer.from("a2") },
      { partition_key_index: 0, explicit_hash_key_index: 0, data: Buffer.from("b2") },
      { partition_key_index: 99, data: Buffer.from("?") },
      { partition_key_index: 3, data: Buffer.from("b3") }
    ]
  })

  const drop = { aggregation: { outOfRange: "drop" } } satisfies Options
  const outer = ofA[2] ?? ""

  const open = (...puts: ReadonlyArray<Uint8Array | string>) =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* w.kinesis.createStream({ name: "orders", shards: 2 })
      for (const data of puts) yield* putTo(w, 0, data)
      return w
    })

  const putTo = (w: FaultyWorld, index: number, data: Uint8Array | string) =>
    w.kinesis.putTo({ stream: "orders", shardId: shardId(index), partitionKey: outer, data })

  /** What is delivered until the last record of this name. */
  /** A member that reads when its events are listened to. */
  const listened = (w: FaultyWorld, options: Options) =>
    Effect.gen(function*() {
      const held = yield* w.faults.add({ on: "getRecords" }, Faults.hold)
      const m = yield* delivering(w, options)
      yield* held.heal
      return m
    })

  const throughTo = (w: FaultyWorld, last: string, options: Options) =>
    Effect.gen(function*() {
      const m = yield* listened(w, options)
      yield* until(Effect.map(m.delivered, (all) => datas(all).includes(last)))
      yield* pass(2)
      return { m, all: yield* m.delivered }
    })

  const placed = (all: ReadonlyArray<KinesumerRecord.KinesumerRecord>) =>
    all.map((record) => [record.subSequenceNumber, FanOut.nameOf(record)])

  for (const mode of modes) {
    describe(mode, () => {
      it.scoped("each part is delivered where it was read, with its own keys; so is what is sent again", () =>
        Effect.gen(function*() {
          const w = yield* open("before", six, "after")
          const m = yield* delivering(w, { mode })
          yield* until(Effect.map(m.delivered, ({ length }) => length === 8))
          const parts = (yield* m.delivered).slice(1, 7)
          assert.deepStrictEqual(
            parts.map((record) => [
              record.subSequenceNumber,
              FanOut.nameOf(record),
              record.partitionKey,
              record.explicitHashKey
            ]),
            [
              [0, "a1", ofA[0], undefined],
              [1, "b1", ofB[0], undefined],
              [2, "a2", ofA[1], undefined],
              [3, "b2", ofA[0], explicit],
              [4, "?", outer, undefined],
              [5, "b3", ofB[1], undefined]
            ]
          )
          assert.isTrue(parts.every((record) => record.shardId === shardId(0)))
          const [left] = yield* w.kinesis.split("orders", shardId(0))
          yield* w.kinesis.putTo({ stream: "orders", shardId: left.shardId, data: six })
          yield* until(Effect.map(m.delivered, ({ length }) => length === 14))
          const again = (yield* m.delivered).slice(8)
          assert.deepStrictEqual(placed(again), placed(parts))
          assert.isTrue(again.every((record) => record.shardId === left.shardId))
          assert.deepStrictEqual(yield* eventsOf(m, "OutOfRangeDropped"), [])
        }))

      it.scoped("dropped where that is asked for: counted and told, the places of the others as they were", () =>
        Effect.gen(function*() {
          const w = yield* open("before", six, "between", six, "after")
          const app = `drops-${mode}`
          const { all, m } = yield* throughTo(w, "after", { ...drop, mode, app })
          const kept = [[0, "a1"], [2, "a2"], [4, "?"]]
          assert.deepStrictEqual(placed(all), [
            [undefined, "before"],
            ...kept,
            [undefined, "between"],
            ...kept,
            [undefined, "after"]
          ])
          const told = yield* eventsOf(m, "OutOfRangeDropped")
          assert.strictEqual(told.reduce((sum, { records }) => sum + records, 0), 6)
          assert.isTrue(told.every((event) => event.stream === "orders" && event.shardId === shardId(0)))
          // One for an answer, however many aggregates that has.
          if (mode === "polling") assert.strictEqual(told.length, 1)
          const counted = Metric.taggedWithLabels(KinesumerMetrics.outOfRange, [
            MetricLabel.make("app", app),
            MetricLabel.make("stream", "orders")
          ])
          assert.strictEqual((yield* Metric.value(counted)).count, 6)
        }))

      it.scoped("a child shard drops what belongs to its sibling", () =>
        Effect.gen(function*() {
          const w = yield* open()
          const [left, right] = yield* w.kinesis.split("orders", shardId(0))
          const { end } = left.hashKeyRange
          const of = (isLeft: boolean) => keysOf((hash) => hash < half && (hash <= BigInt(end)) === isLeft)[0] ?? ""
          const data = Aggregates.of([
            { data: "left", partitionKey: of(true) },
            { data: "right", partitionKey: of(false) },
            { data: "the last left", explicitHashKey: end },
            { data: "the first right", explicitHashKey: right.hashKeyRange.start }
          ])
          for (const { shardId } of [left, right]) yield* w.kinesis.putTo({ stream: "orders", shardId, data })
          const m = yield* delivering(w, { ...drop, mode })
          yield* until(Effect.map(m.delivered, ({ length }) => length === 4))
          yield* pass(2)
          const all = yield* m.delivered
          const ofShard = (id: string) => placed(all.filter(({ shardId }) => shardId === id))
          assert.deepStrictEqual(ofShard(left.shardId), [[0, "left"], [2, "the last left"]])
          assert.deepStrictEqual(ofShard(right.shardId), [[1, "right"], [3, "the first right"]])
        }))

      it.scoped("pages of which nothing is left hold nothing up, and what follows is committed", () =>
        Effect.gen(function*() {
          const strangers = Aggregates.of(["b1", "b2", "b3"].map((data) => ({ data, explicitHashKey: explicit })))
          const w = yield* open(strangers, strangers, strangers)
          const m = yield* listened(w, { ...drop, mode, ...manual })
          yield* pass(4)
          assert.deepStrictEqual(yield* m.delivered, [])
          // It stands still, and nothing is read twice for that.
          assert.strictEqual((yield* begun(w, mode)).length, 1)
          const told = yield* eventsOf(m, "OutOfRangeDropped")
          assert.strictEqual(told.reduce((sum, { records }) => sum + records, 0), 9)
          yield* putTo(w, 0, six)
          yield* putTo(w, 0, strangers)
          const { sequenceNumber } = yield* putTo(w, 0, "last")
          yield* until(Effect.map(m.delivered, (all) => datas(all).includes("last")))
          assert.deepStrictEqual(datas(yield* m.delivered), ["a1", "a2", "?", "last"])
          yield* Effect.flatMap(m.delivered, m.service.mark)
          yield* m.service.commit
          assert.deepStrictEqual(yield* positionOf(w), Option.some(Position.afterSequence(sequenceNumber)))
        }))

      it.scoped("what is dropped is committed, where nothing before it is left to do: a restart does not read it again", () =>
        Effect.gen(function*() {
          const strangers = Aggregates.of(["b1", "b2", "b3"].map((data) => ({ data, explicitHashKey: explicit })))
          const w = yield* open()
          const committedPast = ({ sequenceNumber }: { readonly sequenceNumber: string }) =>
            until(
              Effect.map(
                positionOf(w),
                Option.exists((position) => Position.compare(position, Position.afterSequence(sequenceNumber)) === 0)
              ),
              20
            )
          const first = yield* delivering(w, { ...drop, mode, ...manual, memberId: "a" })
          yield* committedPast(yield* putTo(w, 0, strangers))
          const record = yield* putTo(w, 0, "record")
          const last = yield* putTo(w, 0, strangers)
          yield* until(Effect.map(first.delivered, ({ length }) => length === 1))
          yield* pass(4)
          const position = Option.getOrThrow(yield* positionOf(w))
          assert.isBelow(Position.compare(position, Position.afterSequence(record.sequenceNumber)), 0)
          yield* Effect.flatMap(first.delivered, first.service.mark)
          yield* committedPast(last)
          yield* first.close
          const second = yield* delivering(w, { ...drop, mode, ...manual, memberId: "b" })
          const { sequenceNumber } = yield* putTo(w, 0, "next")
          yield* until(Effect.map(second.delivered, (all) => datas(all).includes("next")))
          assert.deepStrictEqual(datas(yield* second.delivered), ["next"])
          assert.deepStrictEqual(yield* eventsOf(second, "OutOfRangeDropped"), [])
          yield* Effect.flatMap(second.delivered, second.service.mark)
          yield* committedPast({ sequenceNumber })
        }))

      it.scoped("a closed shard of which nothing is left ends", () =>
        Effect.gen(function*() {
          const w = yield* open(Aggregates.of([{ data: "b", explicitHashKey: explicit }]))
          const [left] = yield* w.kinesis.split("orders", shardId(0))
          yield* w.kinesis.putTo({ stream: "orders", shardId: left.shardId, data: "child" })
          const { all } = yield* throughTo(w, "child", { ...drop, mode })
          assert.deepStrictEqual(datas(all), ["child"])
        }))

      for (const outOfRange of ["deliver", "drop"] as const) {
        it.scoped(`a crash after each part, ${outOfRange}: it goes on with the next one`, () =>
          Effect.gen(function*() {
            const w = yield* open(six, "after")
            const all = outOfRange === "deliver" ? ["a1", "b1", "a2", "b2", "?", "b3"] : ["a1", "a2", "?"]
            const expected = [...all, "after"]
            for (const [index, name] of expected.entries()) {
              const m = yield* delivering(w, { ...manual, mode, memberId: `m${index}`, aggregation: { outOfRange } })
              yield* until(Effect.map(m.delivered, (all) => datas(all).includes("after")))
              assert.deepStrictEqual(datas(yield* m.delivered), expected.slice(index))
              yield* m.service.mark(named(name)(yield* m.delivered))
              yield* m.service.commit
              yield* crash(w, m)
              yield* TestClock.adjust(livenessTimeout)
            }
          }))
      }

      it.scoped("what is no valid aggregate, or holds one, is delivered as it is, beside plain records", () =>
        Effect.gen(function*() {
          const inner = Aggregates.of([{ data: "inner" }])
          const nested = Aggregates.encode({
            partition_key_table: ["k"],
            explicit_hash_key_table: [],
            records: [{ partition_key_index: 0, data: inner }, { partition_key_index: 0, data: Buffer.from("x") }]
          })
          const wrong = Uint8Array.from(six)
          wrong[wrong.length - 1] = (wrong.at(-1) ?? 0) ^ 1
          const empty = Aggregates.seal(new Uint8Array())
          const noRecords = Aggregates.encode({ partition_key_table: ["k"], explicit_hash_key_table: [], records: [] })
          const lying = Aggregates.seal(Buffer.from([0x1a, 0xff, 0xff, 0xff, 0xff, 0x0f]))
          const unsaid = Aggregates.encode({
            partition_key_table: ["k"],
            explicit_hash_key_table: ["undefined"],
            records: [{ partition_key_index: 0, explicit_hash_key_index: 0, data: Buffer.from("unsaid") }]
          })
          const w = yield* open("1", nested, "2", wrong, "3", empty, noRecords, lying, "4", unsaid, "5")
          const { all } = yield* throughTo(w, "5", { mode })
          assert.deepStrictEqual(
            all.map(({ data, subSequenceNumber }) => [subSequenceNumber, Buffer.from(data).toString("hex")]),
            [
              [undefined, "1"],
              [0, inner],
              [1, "x"],
              [undefined, "2"],
              [undefined, wrong],
              [undefined, "3"],
              [undefined, empty],
              [undefined, noRecords],
              [undefined, lying],
              [undefined, "4"],
              [0, "unsaid"],
              [undefined, "5"]
            ].map(([place, data]) => [place, Buffer.from(data as string).toString("hex")])
          )
          assert.isUndefined(all.at(-2)?.explicitHashKey)
        }))
    })
  }
})

describe("the buffer", () => {
  for (const mode of modes) {
    it.scoped(`${mode}: counts the parts of aggregates, and is not outgrown by them`, () =>
      Effect.gen(function*() {
        const w = yield* faultyWorld()
        yield* w.kinesis.createStream({ name: "orders" })
        const names = Array.from({ length: 200 }, (_, index) => `r${index}`)
        for (let at = 0; at < names.length; at += 50) {
          const data = Aggregates.of(names.slice(at, at + 50).map((data) => ({ data })))
          yield* w.kinesis.putTo({ stream: "orders", shardId: shardId(0), data })
        }
        let most = 0
        const m = yield* delivering(w, { mode, bufferSize: 20 }, () => Effect.sleep("300 millis"))
        yield* until(
          Effect.gen(function*() {
            most = Math.max(most, (yield* m.service.health).bufferedRecords)
            return (yield* m.delivered).length === names.length
          }),
          120
        )
        assert.deepStrictEqual(datas(yield* m.delivered), names)
        assert.isAbove(most, 0)
        assert.isAtMost(most, 20)
      }))
  }
})

describe("any split of records into aggregates", () => {
  /** How many records go together; 0 is a record by itself, which is no aggregate. */
  const splits = FastCheck.array(FastCheck.integer({ min: 0, max: 7 }), { minLength: 1, maxLength: 8 })

  for (const mode of modes) {
    it.effect.prop(
      `${mode}: the same is delivered, and after a crash anywhere it goes on with the next one`,
      [splits, FastCheck.nat(60), FastCheck.integer({ min: 1, max: 12 })],
      ([sizes, marked, bufferSize]) =>
        Effect.scoped(Effect.gen(function*() {
          const w = yield* faultyWorld()
          yield* w.kinesis.createStream({ name: "orders" })
          const names: Array<string> = []
          for (const size of sizes) {
            const group = Array.from({ length: Math.max(1, size) }, (_, index) => `r${names.length + index}`)
            names.push(...group)
            yield* w.kinesis.putTo({
              stream: "orders",
              shardId: shardId(0),
              data: size === 0 ? group.join() : Aggregates.of(group.map((data) => ({ data })))
            })
          }
          const options = { ...manual, mode, bufferSize }
          const first = yield* delivering(w, { ...options, memberId: "a" })
          yield* until(Effect.map(first.delivered, ({ length }) => length === names.length))
          const all = yield* first.delivered
          assert.deepStrictEqual(datas(all), names)
          const done = marked % names.length
          yield* first.service.mark(all.slice(0, done))
          yield* first.service.commit
          yield* crash(w, first)
          yield* TestClock.adjust(livenessTimeout)
          const second = yield* delivering(w, { ...options, memberId: "b" })
          yield* until(Effect.map(second.delivered, ({ length }) => length === names.length - done))
          assert.deepStrictEqual(datas(yield* second.delivered), names.slice(done))
        })),
      { fastCheck: { numRuns: 15 } }
    )
  }
})
