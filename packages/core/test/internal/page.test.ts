/** What becomes of the records of one answer: order, repeats, and slices that keep to the room. */
import { assert, describe, it } from "@effect/vitest"
import { type KinesisClient, type KinesumerConfig, type KinesumerRecord, Position } from "@kinesumer/core"
import { Effect, FastCheck, Option } from "effect"
import * as Answers from "../../src/internal/answers.js"
import * as Content from "../../src/internal/content.js"
import { HandedSymbol } from "../../src/internal/deliveredRecord.js"
import type * as Lane from "../../src/internal/lane.js"
import * as Page from "../../src/internal/page.js"
import * as RecordsCbor from "../../src/internal/recordsCbor.js"
import * as Run from "../../src/internal/run.js"
import * as Cbor from "../utils/cbor.js"

const makeRun = Run.make({
  stream: {
    key: "orders",
    label: "orders",
    id: { name: "orders", arn: Option.none() },
    arn: "arn:aws:kinesis:us-east-1:000000000000:stream/orders",
    startFrom: "TrimHorizon"
  },
  checkpointKey: "orders",
  shard: { shardId: "shardId-000000000000", parents: [], hashKeyRange: { start: "0", end: "1" }, closed: false },
  epoch: 1,
  position: Position.trimHorizon
})

/** Records numbered from 1, of these sizes. */
const recordsOf = (sizes: ReadonlyArray<number>): ReadonlyArray<KinesisClient.RawRecord> =>
  sizes.map((size, index) => ({
    sequenceNumber: `${index + 1}`,
    partitionKey: "",
    data: new Uint8Array(size),
    arrivalTime: undefined
  }))

const after = (n: number): Position.Position => n === 0 ? Position.trimHorizon : Position.afterSequence(`${n}`)

const aggregation: KinesumerConfig.KinesumerConfig["aggregation"] = { expand: true, outOfRange: "deliver" }

/** The slices of an answer, each as the numbers of its records. */
const slicesOf = (
  records: ReadonlyArray<KinesisClient.RawRecord>,
  most: { readonly records: number; readonly bytes: number },
  read: Position.Position = Position.trimHorizon
) =>
  Effect.map(makeRun, (run) => {
    const answer = { records, millisBehindLatest: Option.none() }
    const content = Content.make(run, read, answer, aggregation)
    const page = Page.make(run, read, content.records, { records: Infinity, bytes: Infinity }, answer, most)
    return {
      page,
      content,
      slices: page.slices.map((slice) => slice.open().records.map(({ sequenceNumber }) => Number(sequenceNumber)))
    }
  })

describe("page", () => {
  it.effect("a slice holds what there is room for, in records and in bytes, and a larger record is one by itself", () =>
    Effect.gen(function*() {
      const records = recordsOf([10, 10, 10, 50, 10, 20, 20, 30, 31])
      const { slices } = yield* slicesOf(records, { records: 500, bytes: 30 })
      assert.deepStrictEqual(slices, [[1, 2, 3], [4], [5, 6], [7], [8], [9]])
      assert.deepStrictEqual((yield* slicesOf(records, { records: 2, bytes: 30 })).slices, [
        [1, 2],
        [3],
        [4],
        [5, 6],
        [7],
        [8],
        [9]
      ])
    }))

  it.effect.prop("slices follow each other without a gap, each within the room unless it is one record", [
    FastCheck.array(FastCheck.integer({ min: 0, max: 40 }), { maxLength: 60 }),
    FastCheck.record({
      records: FastCheck.integer({ min: 1, max: 20 }),
      bytes: FastCheck.integer({ min: 1, max: 60 })
    }),
    FastCheck.nat(70)
  ], ([sizes, most, read]) =>
    Effect.gen(function*() {
      const { content, page, slices } = yield* slicesOf(recordsOf(sizes), most, after(read))
      assert.deepStrictEqual(slices.flat(), sizes.map((_, index) => index + 1).slice(read))
      assert.strictEqual(page.records, Math.max(0, sizes.length - read))
      assert.strictEqual(content.repeats, sizes.length - page.records)
      assert.strictEqual(page.bytes, page.slices.reduce((sum, { bytes }) => sum + bytes, 0))
      let from = after(read)
      for (const slice of page.slices) {
        assert.deepStrictEqual(slice.from, from)
        assert.isAtMost(slice.size, most.records)
        assert.isTrue(slice.bytes <= most.bytes || slice.size === 1)
        from = slice.to
      }
      assert.deepStrictEqual(page.to, from)
    }))

  it.effect("the rest of a record that was read in part is delivered, and nothing before it", () =>
    Effect.gen(function*() {
      const { page, slices } = yield* slicesOf(
        recordsOf([1, 1, 1, 1]),
        { records: 500, bytes: 100 },
        Position.afterSequence("3", 7)
      )
      assert.deepStrictEqual(slices, [[3, 4]])
      assert.deepStrictEqual(page.slices[0]?.from, Position.afterSequence("3", 7))
    }))

  it.effect("records out of order are put in order, and those that come twice are dropped", () =>
    Effect.gen(function*() {
      const records = recordsOf([1, 1, 1])
      const answer = [...[...records].reverse(), ...records]
      const { content, slices } = yield* slicesOf(answer, { records: 500, bytes: 100 })
      assert.deepStrictEqual(slices, [[1, 2, 3]])
      assert.strictEqual(content.repeats, 3)
    }))

  it.effect.prop("records that are made when they are handed over are the same, in the same slices", [
    FastCheck.array(FastCheck.tuple(FastCheck.integer({ min: -1, max: 3 }), FastCheck.nat(40)), { maxLength: 40 }),
    FastCheck.record({
      records: FastCheck.integer({ min: 1, max: 20 }),
      bytes: FastCheck.integer({ min: 1, max: 60 })
    }),
    FastCheck.nat(30),
    FastCheck.nat(40),
    FastCheck.nat(400),
    FastCheck.boolean()
  ], ([steps, most, read, count, roomBytes, isAscending]) =>
    Effect.gen(function*() {
      const run = yield* makeRun
      // In order, or with repeats and steps back; numbers of different lengths.
      let number = 1
      const Records = steps.map(([step, size]) => {
        number = Math.max(1, number + (step === 3 ? 95 : isAscending ? Math.max(1, step) : step))
        return {
          SequenceNumber: `${number}`,
          PartitionKey: "k".repeat(size % 3),
          Data: new Uint8Array(size).fill(size),
          ApproximateArrivalTimestamp: new Cbor.Time(size)
        }
      })
      const packed = answerOf(Records)
      const listed = { ...packed }
      const seen = (answer: typeof packed) => {
        const content = Content.make(run, after(read), answer, aggregation)
        const page = Page.make(run, after(read), content.records, { records: count, bytes: roomBytes }, answer, most)
        return {
          ...page,
          repeats: content.repeats,
          brought: content.brought,
          slices: page.slices.map((slice) => {
            const { from, records, to } = slice.open()
            assert.deepStrictEqual([from, to, records.length], [slice.from, slice.to, slice.size])
            return { from, to, bytes: slice.bytes, records: records.map(plain) }
          })
        }
      }
      assert.deepStrictEqual(seen(packed), seen(listed))
    }))

  it.effect.prop("both parts of a slice are the slice, and each record knows its part", [
    FastCheck.array(FastCheck.nat(40), { minLength: 2, maxLength: 40 }),
    FastCheck.nat(40)
  ], ([sizes, place]) =>
    Effect.gen(function*() {
      const { page } = yield* slicesOf(recordsOf(sizes), { records: 500, bytes: 10_000 })
      const slice: Lane.Slice | undefined = page.slices[0]
      assert.isDefined(slice)
      const size = 1 + (place % (sizes.length - 1))
      const [first, rest] = slice.split(size)
      assert.strictEqual(first.size, size)
      assert.strictEqual(first.bytes, sizes.slice(0, size).reduce((sum, one) => sum + one, 0))
      assert.deepStrictEqual([first.from, first.to, rest.to], [slice.from, rest.from, slice.to])
      assert.deepStrictEqual([first.size + rest.size, first.bytes + rest.bytes], [slice.size, slice.bytes])
      const parts = [first.open(), rest.open()]
      assert.deepStrictEqual(parts.flatMap(({ records }) => records.map(plain)), slice.open().records.map(plain))
      for (const part of parts) {
        part.records.forEach((record, index) => {
          assert.strictEqual(record[HandedSymbol], part)
          assert.deepStrictEqual(Page.intervalOf(part, index).to, Position.afterSequence(record.sequenceNumber))
        })
        assert.deepStrictEqual(Page.intervalOf(part, 0).from, part.from)
      }
    }))

  it.effect("what begins like an aggregate is looked at before it waits, unless aggregates stay whole", () =>
    Effect.gen(function*() {
      const run = yield* makeRun
      const isPacked = (data: ReadonlyArray<number>, expand = true) => {
        const answer = answerOf([{ SequenceNumber: "1", Data: Uint8Array.from(data) }])
        const { records } = Content.make(run, Position.trimHorizon, answer, { ...aggregation, expand })
        return records === Answers.packed(answer)
      }
      assert.isTrue(isPacked([0xf3, 0x89, 0x9a]))
      assert.isFalse(isPacked([0xf3, 0x89, 0x9a, 0xc2, 1]))
      assert.isTrue(isPacked([0xf3, 0x89, 0x9a, 0xc2, 1], false))
    }))
})

describe("the data of a record", () => {
  it("can't be taken away from the others of its answer", () => {
    const { get } = Answers.packed(answerOf([
      { SequenceNumber: "1", Data: Uint8Array.of(1) },
      { SequenceNumber: "2", Data: Uint8Array.of(2) }
    ])) ?? {}
    assert.isDefined(get)
    const { data: { buffer } } = get(0)
    assert.instanceOf(buffer, ArrayBuffer)
    try {
      // Node.js 20 copies what can't be transferred, later ones refuse it.
      structuredClone(buffer, { transfer: [buffer] })
    } catch (error) {
      assert.instanceOf(error, DOMException)
    }
    assert.deepStrictEqual([...get(1).data], [2])
  })
})

/** An answer in CBOR with these records. */
const answerOf = (Records: ReadonlyArray<unknown>) =>
  Answers.make(RecordsCbor.decode(Cbor.encode({ Records })).records, {
    millisBehindLatest: Option.some(7),
    childShards: [],
    nextIterator: Option.none<string>()
  })

const plain = (record: { readonly toJSON: () => KinesumerRecord.KinesumerRecord }) => {
  const { data, ...rest } = record.toJSON()
  return { ...rest, data: [...data] }
}
