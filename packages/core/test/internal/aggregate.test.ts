/** What is an aggregate, what is not, and what becomes of one that is damaged. */
import { assert, describe, it } from "@effect/vitest"
import type { KinesisClient } from "@kinesumer/core"
import { FastCheck } from "effect"
import { createHash } from "node:crypto"
import * as Aggregate from "../../src/internal/aggregate.js"
import * as Aggregates from "../utils/aggregates.js"

const recordOf = (data: Uint8Array): KinesisClient.RawRecord => ({
  sequenceNumber: "49",
  partitionKey: "the key of all",
  data,
  arrivalTime: new Date(7)
})

const expand = (data: Uint8Array) => Aggregate.expand(recordOf(data))

const text = (data: Uint8Array): string => Buffer.from(data).toString()

/** What the parts show: place, keys, data. */
const shown = (parts: ReadonlyArray<Aggregate.UserRecord> | undefined) =>
  parts?.map(({ data, part, partitionKey }) => [
    part?.subSequenceNumber,
    partitionKey,
    part?.explicitHashKey,
    text(data)
  ])

const three = Aggregates.of([
  { data: "a", partitionKey: "k1" },
  { data: "b", partitionKey: "k2", explicitHashKey: "123" },
  { data: "c", partitionKey: "k1", explicitHashKey: "340282366920938463463374607431768211455" }
])

describe("an aggregate of another implementation", () => {
  it("is taken apart, each part with its place, its keys and the envelope of the whole", () => {
    const parts = expand(three)
    assert.deepStrictEqual(shown(parts), [
      [0, "k1", undefined, "a"],
      [1, "k2", "123", "b"],
      [2, "k1", "340282366920938463463374607431768211455", "c"]
    ])
    assert.deepStrictEqual(parts?.map(({ part }) => part?.isLast), [false, false, true])
    for (const part of parts ?? []) {
      assert.strictEqual(part.sequenceNumber, "49")
      assert.deepStrictEqual(part.arrivalTime, new Date(7))
      // Views of what came, not copies of it.
      assert.strictEqual(part.data.buffer, three.buffer)
    }
  })

  const partArbitrary = FastCheck.record({
    data: FastCheck.string({ unit: "binary", minLength: 1 }),
    partitionKey: FastCheck.string({ unit: "binary", minLength: 1, maxLength: 40 }).filter((key) =>
      // Tables of that implementation are objects, which put keys that are numbers first, and know some names already.
      !/^\d+$/.test(key) && !(key in {})
    )
  })

  it("gives back what was put in, whatever it is", () =>
    FastCheck.assert(
      FastCheck.property(FastCheck.array(partArbitrary, { minLength: 1, maxLength: 40 }), (parts) => {
        assert.deepStrictEqual(
          shown(expand(Aggregates.of(parts))),
          parts.map(({ data, partitionKey }, index) => [index, partitionKey, undefined, text(Buffer.from(data))])
        )
      })
    ))

  it("may have tags, and fields that nobody knows", () => {
    const aggregate = Aggregates.encode({
      partition_key_table: ["k"],
      explicit_hash_key_table: [],
      records: [{ partition_key_index: 0, data: Buffer.from("a"), tags: [{ key: "tag", value: "value" }] }]
    })
    const unknown = Buffer.from([9 << 3, 5, (10 << 3) | 2, 2, 1, 2, (3 << 3) | 0, 1])
    const body = Buffer.concat([aggregate.subarray(4, -16), unknown])
    assert.deepStrictEqual(shown(expand(Aggregates.seal(body))), [[0, "k", undefined, "a"]])
  })

  it("within another one is not taken apart", () => {
    const outer = Aggregates.encode({
      partition_key_table: ["k"],
      explicit_hash_key_table: [],
      records: [{ partition_key_index: 0, data: three }, { partition_key_index: 0, data: Buffer.from("z") }]
    })
    const parts = expand(outer)
    assert.strictEqual(parts?.length, 2)
    assert.deepStrictEqual(new Uint8Array(parts?.[0]?.data ?? []), new Uint8Array(three))
  })
})

describe("an entry that is damaged", () => {
  it("goes by the key of the aggregate where its own is not in the table, and hides no neighbour", () => {
    const aggregate = Aggregates.encode({
      partition_key_table: ["k"],
      explicit_hash_key_table: ["5"],
      records: [
        { partition_key_index: 0, data: Buffer.from("a") },
        { partition_key_index: 1, data: Buffer.from("b") },
        { partition_key_index: 2 ** 32, data: Buffer.from("c") },
        { partition_key_index: 0, explicit_hash_key_index: 9, data: Buffer.from("d") },
        { partition_key_index: 0, explicit_hash_key_index: 0, data: Buffer.from("e") }
      ]
    })
    assert.deepStrictEqual(shown(expand(aggregate)), [
      [0, "k", undefined, "a"],
      [1, "the key of all", undefined, "b"],
      [2, "the key of all", undefined, "c"],
      [3, "k", undefined, "d"],
      [4, "k", "5", "e"]
    ])
  })

  for (const key of ["undefined", "", "-1", "007", "340282366920938463463374607431768211456", "9".repeat(1_000)]) {
    it(`has no explicit hash key where that is "${key.slice(0, 45)}"`, () => {
      const aggregate = Aggregates.encode({
        partition_key_table: ["k"],
        explicit_hash_key_table: [key],
        records: [{ partition_key_index: 0, explicit_hash_key_index: 0, data: Buffer.from("a") }]
      })
      assert.deepStrictEqual(shown(expand(aggregate)), [[0, "k", undefined, "a"]])
    })
  }
})

describe("what only looks like an aggregate is none", () => {
  const flip = (data: Uint8Array, at: number): Uint8Array => {
    const copy = Uint8Array.from(data)
    copy[at] = (copy[at] ?? 0) ^ 1
    return copy
  }
  const lying = (length: ReadonlyArray<number>) => Aggregates.seal(Buffer.from([(3 << 3) | 2, ...length, 1, 2, 3]))
  const whole = Aggregates.encode({
    partition_key_table: [],
    explicit_hash_key_table: [],
    records: [{ partition_key_index: 0, data: Buffer.from("a") }, { partition_key_index: 3, data: Buffer.from("b") }]
  })

  const cases: ReadonlyArray<readonly [what: string, data: Uint8Array]> = [
    ["nothing", new Uint8Array()],
    ["text", Buffer.from("{\"a\":1}")],
    ["the magic number alone", three.subarray(0, 4)],
    ["the magic number and a digest of nothing", Aggregates.seal(new Uint8Array())],
    ["a wrong digest", flip(three, three.length - 1)],
    ["a changed body", flip(three, 10)],
    ["a truncated one", three.subarray(0, -1)],
    ["another magic number", flip(three, 0)],
    [
      "one without records",
      Aggregates.encode({ partition_key_table: ["k"], explicit_hash_key_table: [], records: [] })
    ],
    ["one in which no entry has a key", whole],
    ["a length beyond the end", lying([100])],
    ["a length of 4 GiB", lying([0xff, 0xff, 0xff, 0xff, 0x0f])],
    ["a length that never ends", lying(Array.from({ length: 12 }, () => 0xff))],
    [
      "a field that reaches into the next record",
      Aggregates.seal(Buffer.from("0a016b1a0408001a041a020800", "hex"))
    ],
    ["one whose only record has no data", Aggregates.seal(Buffer.from("0a016b1a020800", "hex"))],
    ["one whose only record names no key", Aggregates.seal(Buffer.from("0a016b1a031a0161", "hex"))],
    [
      "one with as many records as there are bytes for",
      Aggregates.seal(
        Buffer.concat([Buffer.from("0a016b1a0508001a0161", "hex"), Buffer.alloc(1_000_000, "1a00", "hex")])
      )
    ],
    ["groups within groups within groups", Aggregates.seal(new Uint8Array(500_000).fill((9 << 3) | 3))]
  ]
  for (const [what, data] of cases) {
    it(what, () => {
      assert.isUndefined(expand(data))
    })
  }

  it("whatever the bytes are, it never throws", () =>
    FastCheck.assert(
      FastCheck.property(FastCheck.uint8Array({ maxLength: 200 }), FastCheck.boolean(), (bytes, isSealed) => {
        const data = isSealed ? Aggregates.seal(bytes) : Buffer.concat([Buffer.from("f3899ac2", "hex"), bytes])
        const parts = expand(data)
        if (!isSealed) assert.isUndefined(parts)
        for (const { data } of parts ?? []) assert.isAtMost(data.length, bytes.length)
      }),
      { numRuns: 2_000 }
    ))

  it("a valid one that is changed anywhere, with a digest that fits, never throws", () => {
    const body = three.subarray(4, -16)
    FastCheck.assert(
      FastCheck.property(
        FastCheck.array(
          FastCheck.tuple(FastCheck.nat(body.length - 1), FastCheck.integer({ min: 0, max: 255 })),
          { minLength: 1, maxLength: 4 }
        ),
        FastCheck.nat(body.length),
        (changes, length) => {
          const changed = Uint8Array.from(body.subarray(0, length))
          for (const [at, byte] of changes) if (at < length) changed[at] = byte
          const parts = expand(Aggregates.seal(changed))
          assert.deepStrictEqual(
            parts?.map(({ part }) => part?.subSequenceNumber),
            parts?.map((_, index) => index)
          )
        }
      ),
      { numRuns: 2_000 }
    )
  })
})

describe("the range of a shard", () => {
  const shard = (start: bigint, end: bigint) => ({
    shardId: "shardId-000000000000",
    parents: [],
    hashKeyRange: { start: `${start}`, end: `${end}` },
    closed: false
  })
  const md5 = (key: string) => BigInt(`0x${createHash("md5").update(key).digest("hex")}`)
  const parts = expand(three) ?? []
  const placesIn = (start: bigint, end: bigint) =>
    Aggregate.within(parts, shard(start, end)).map(({ part }) => part?.subSequenceNumber)

  it("holds a part by its explicit hash key, else by the MD5 of its partition key, both ends included", () => {
    const max = 2n ** 128n - 1n
    assert.deepStrictEqual(placesIn(0n, max), [0, 1, 2])
    assert.deepStrictEqual(placesIn(0n, 122n), [])
    assert.deepStrictEqual(placesIn(0n, 123n), [1])
    assert.deepStrictEqual(placesIn(123n, 200n), [1])
    assert.deepStrictEqual(placesIn(max, max), [2])
    assert.deepStrictEqual(placesIn(md5("k1"), md5("k1")), [0])
    assert.deepStrictEqual(placesIn(md5("k1") + 1n, max), [2])
  })

  it("leaves a last part, which ends the aggregate", () => {
    const left = Aggregate.within(parts, shard(0n, 123n))
    assert.deepStrictEqual(left.map(({ part }) => part), [{
      subSequenceNumber: 1,
      explicitHashKey: "123",
      isLast: true
    }])
    assert.isFalse(parts[1]?.part?.isLast)
  })
})
