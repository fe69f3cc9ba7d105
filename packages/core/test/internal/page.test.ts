/** What becomes of the records of one answer: order, repeats, and slices that keep to the room. */
import { assert, describe, it } from "@effect/vitest"
import { type KinesisClient, Position } from "@kinesumer/core"
import { Effect, FastCheck, Option } from "effect"
import * as Page from "../../src/internal/page.js"
import * as Run from "../../src/internal/run.js"

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

const aggregation = { expand: true, outOfRange: "deliver" } as const

/** The slices of an answer, each as the numbers of its records. */
const slicesOf = (
  records: ReadonlyArray<KinesisClient.RawRecord>,
  most: { readonly records: number; readonly bytes: number },
  read: Position.Position = Position.trimHorizon
) =>
  Effect.map(makeRun, (run) => {
    const answer = { records, millisBehindLatest: Option.none() }
    const content = Page.contentOf(run, read, answer, aggregation)
    const page = Page.make(run, read, content.records, answer, most)
    return {
      page,
      content,
      slices: page.slices.map((slice) => slice.records.map(({ sequenceNumber }) => Number(sequenceNumber)))
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
        assert.isAtMost(slice.records.length, most.records)
        assert.isTrue(slice.bytes <= most.bytes || slice.records.length === 1)
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
})
