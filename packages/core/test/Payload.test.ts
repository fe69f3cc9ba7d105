/** From bytes to typed values, and what becomes of records that do not decode. */
import { assert, describe, it } from "@effect/vitest"
import { Kinesumer, KinesumerError, KinesumerMetrics, type KinesumerRecord, Payload, Position } from "@kinesumer/core"
import {
  Array,
  Chunk,
  Context,
  Effect,
  Exit,
  FastCheck,
  Metric,
  MetricLabel,
  Option,
  Ref,
  Schema,
  Stream
} from "effect"
import { randomBytes } from "node:crypto"
import * as Zlib from "node:zlib"
import { eventsOf, faulty, type FaultyWorld, faultyWorld, manual, positionOf } from "./cases/reading-support.js"
import { pass, shardId, type TestMember, until } from "./group/support.js"
import * as Aggregates from "./utils/aggregates.js"

const recordOf = (data: Uint8Array, sequenceNumber = "7"): KinesumerRecord.KinesumerRecord => ({
  stream: "orders",
  shardId: "shardId-000000000000",
  partitionKey: "key",
  data,
  sequenceNumber,
  subSequenceNumber: undefined,
  arrivalTime: undefined,
  millisBehindLatest: undefined,
  epoch: 1
})

const bytes = (text: string): Uint8Array => new Uint8Array(Buffer.from(text))

const decodeRecord =
  <A, R>(schema: Schema.Schema<A, Uint8Array, R>, options?: Payload.DecodeOptions) =>
  (record: KinesumerRecord.KinesumerRecord) =>
    Effect.flatMap(Payload.decoder(schema, options), (decode) => decode(record))

const Order = Schema.Struct({ id: Schema.NumberFromString })
const order = Payload.json(Order)

const good = (id: number): string => JSON.stringify({ id: `${id}` })

describe("schemas", () => {
  it.effect("JSON of a shape", () =>
    Effect.gen(function*() {
      const decode = decodeRecord(order)
      const record = recordOf(bytes(good(5)))
      const decoded = yield* decode(record)
      assert.deepStrictEqual(decoded.value, { id: 5 })
      assert.strictEqual(JSON.stringify(decoded), JSON.stringify({ ...record, value: { id: 5 } }))
      for (const text of ["", "{", "null", "{\"id\":5}", "{\"id\":\"five\"}"]) {
        const error = yield* Effect.flip(decode(recordOf(bytes(text))))
        assert.instanceOf(error, KinesumerError.DecodeError)
        assert.strictEqual(error.reason, "Invalid")
        assert.include(error.message, "Record 7 of orders/shardId-000000000000 does not decode (Invalid): ")
      }
      assert.deepStrictEqual(yield* Schema.encode(order)({ id: 5 }), bytes(good(5)))
    }))

  it.effect.prop("text is what it was", [FastCheck.string({ unit: "binary" })], ([text]) =>
    Effect.gen(function*() {
      const data = yield* Schema.encode(Payload.text)(text)
      // A byte-order mark at the beginning is none of the text.
      assert.strictEqual((yield* decodeRecord(Payload.text)(recordOf(data))).value, text.replace(/^\uFEFF/, ""))
    }))

  it.effect("bytes that are no UTF-8 are no text", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(decodeRecord(Payload.text)(recordOf(new Uint8Array([0xc3, 0x28]))))
      assert.include(error.message, "UTF-8")
    }))

  it.effect("a schema that throws at data says that they are none of its kind", () =>
    Effect.gen(function*() {
      const Big = Schema.transform(Payload.text, Schema.BigIntFromSelf, {
        strict: true,
        decode: (text) => BigInt(text),
        encode: String
      })
      const decode = decodeRecord(Big)
      assert.strictEqual((yield* decode(recordOf(bytes("12")))).value, 12n)
      const error = yield* Effect.flip(decode(recordOf(bytes("twelve"))))
      assert.instanceOf(error, KinesumerError.DecodeError)
      assert.strictEqual(error.reason, "Invalid")
      assert.include(error.message, "twelve")
    }))

  it.effect("any schema over bytes, with what it needs", () =>
    Effect.gen(function*() {
      class Offset extends Context.Tag("Offset")<Offset, number>() {}
      const Sized = Schema.transformOrFail(Schema.Uint8ArrayFromSelf, Schema.Number, {
        strict: true,
        decode: (data) => Effect.map(Offset, (offset) => data.length + offset),
        encode: () => Effect.succeed(new Uint8Array())
      })
      const values = yield* Stream.make(recordOf(bytes("four"))).pipe(
        Payload.decode(Sized),
        Stream.runCollect,
        Effect.provideService(Offset, 100)
      )
      assert.deepStrictEqual(Chunk.toReadonlyArray(values).map(({ value }) => value), [104])
    }))
})

describe("compressed data", () => {
  const gzip = { compression: "gzip" } as const

  it.effect("gzip", () =>
    Effect.gen(function*() {
      const decode = decodeRecord(order, gzip)
      const record = recordOf(new Uint8Array(Zlib.gzipSync(good(5))))
      const decoded = yield* decode(record)
      assert.deepStrictEqual(decoded.value, { id: 5 })
      assert.strictEqual(decoded.data, record.data)
      const cut = record.data.subarray(0, -5)
      for (const data of [bytes(good(5)), new Uint8Array(), cut]) {
        const error = yield* Effect.flip(decode(recordOf(data)))
        assert.strictEqual(error._tag === "DecodeError" && error.reason, "Compression")
      }
    }))

  it.effect("no more than maxBytes come of it", () =>
    Effect.gen(function*() {
      const bomb = recordOf(new Uint8Array(Zlib.gzipSync(Buffer.alloc(64 * 1024 * 1024))))
      const exact = recordOf(new Uint8Array(Zlib.gzipSync("x".repeat(1_000))))
      const tooLarge = (options: Payload.DecodeOptions, record: KinesumerRecord.KinesumerRecord) =>
        Effect.map(
          Effect.either(decodeRecord(Payload.text, options)(record)),
          (result) => {
            if (result._tag === "Right" || result.left._tag !== "DecodeError") return result._tag
            assert.match(result.left.message, new RegExp(`more than ${options.maxBytes ?? 16_777_216} bytes`))
            return result.left.reason
          }
        )
      assert.strictEqual(yield* tooLarge(gzip, bomb), "TooLarge")
      assert.strictEqual(yield* tooLarge({ ...gzip, maxBytes: 1_000 }, exact), "Right")
      assert.strictEqual(yield* tooLarge({ ...gzip, maxBytes: 999 }, exact), "TooLarge")
    }))

  const zstd = { compression: "zstd" } as const
  const compress = "zstdCompressSync" in Zlib
    ? (Zlib.zstdCompressSync as (data: Uint8Array, options?: object) => Uint8Array)
    : undefined

  for (const maxBytes of [0, -1, 1.5, NaN, Infinity]) {
    it.effect(`a bound of ${maxBytes} bytes is refused`, () =>
      Effect.gen(function*() {
        for (const compression of ["gzip", undefined] as const) {
          const error = yield* Effect.flip(Payload.decoder(Payload.text, { compression, maxBytes }))
          assert.instanceOf(error, KinesumerError.InvalidConfig)
          assert.strictEqual(error.field, "maxBytes")
        }
      }))
  }

  it.effect.skipIf(compress === undefined)("zstd, where Node.js has it", () =>
    Effect.gen(function*() {
      const data = compress?.(bytes(good(5))) ?? new Uint8Array()
      assert.deepStrictEqual((yield* decodeRecord(order, zstd)(recordOf(data))).value, { id: 5 })
      const error = yield* Effect.flip(decodeRecord(order, { ...zstd, maxBytes: 5 })(recordOf(data)))
      assert.strictEqual(error._tag === "DecodeError" && error.reason, "TooLarge")
    }))

  // The types of Node.js 20 know no constants of zstd.
  const contentSizeFlag = 200
  const checksumFlag = 201
  const whole = "kinesis ".repeat(8)
  // Headers of each length, and blocks that are packed, of one byte over and over, and as they were.
  const packed = compress === undefined ? [] : [
    compress(bytes(whole)),
    compress(bytes(whole), { params: { [checksumFlag]: 1 } }),
    compress(bytes(whole), { params: { [contentSizeFlag]: 0 } }),
    compress(bytes("x".repeat(300_000))),
    compress(new Uint8Array(randomBytes(300_000)))
  ]

  it.effect.skipIf(compress === undefined)(
    "zstd that was cut off at any byte does not decode",
    () =>
      Effect.gen(function*() {
        const decode = decodeRecord(Schema.Uint8ArrayFromSelf, zstd)
        for (const data of packed) {
          yield* decode(recordOf(data))
          const ends = data.length < 1_000 ? Array.range(0, data.length - 1) : [4, 5, 12, 1_000, data.length - 1]
          for (const end of ends.filter((end) => end < data.length)) {
            const error = yield* Effect.flip(decode(recordOf(data.subarray(0, end))))
            assert.strictEqual(error._tag === "DecodeError" && error.reason, "Compression", `${end} bytes`)
          }
        }
      })
  )

  it.effect.skipIf(compress === undefined)(
    "zstd of several frames decodes to all of them",
    () =>
      Effect.gen(function*() {
        const decode = (data: Uint8Array, maxBytes = 1_000) =>
          decodeRecord(Payload.text, { ...zstd, maxBytes })(recordOf(data))
        const [frame = bytes(""), other = bytes("")] = packed
        const skipped = new Uint8Array([0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3])
        const empty = compress?.(bytes("")) ?? bytes("")
        const data = Buffer.concat([skipped, frame, empty, skipped, other, empty])
        assert.strictEqual((yield* decode(data)).value, whole + whole)
        assert.strictEqual((yield* decode(data, 128)).value, whole + whole)
        assert.strictEqual((yield* decode(skipped)).value, "")
        for (const maxBytes of [127, 64]) {
          const error = yield* Effect.flip(decode(data, maxBytes))
          assert.strictEqual(error._tag === "DecodeError" && error.reason, "TooLarge")
        }
        for (const rest of [bytes("more"), bytes("and even more of it"), skipped.subarray(0, -1)]) {
          const error = yield* Effect.flip(decode(Buffer.concat([frame, rest])))
          assert.strictEqual(error._tag === "DecodeError" && error.reason, "Compression")
        }
      })
  )

  it.effect.skipIf(compress !== undefined)(
    "zstd, where Node.js lacks it: refused before the first record",
    () =>
      Effect.gen(function*() {
        const pulled = yield* Ref.make(0)
        const records = Stream.fromEffect(Effect.as(Ref.update(pulled, (n) => n + 1), recordOf(bytes("x"))))
        const refused = yield* Effect.flip(Stream.runDrain(Payload.decode(order, zstd)(records)))
        assert.strictEqual(refused._tag, "UnsupportedCompression")
        assert.include(refused.message, process.versions.node)
        assert.include(refused.message, "22.15")
        assert.strictEqual(yield* Ref.get(pulled), 0)
        const one = yield* Effect.flip(decodeRecord(order, zstd)(recordOf(bytes("x"))))
        assert.strictEqual(one._tag, "UnsupportedCompression")
      })
  )
})

describe("a stream of records", () => {
  it.effect.prop("keeps its slices, and fails after what came before the record that does not decode", [
    FastCheck.array(FastCheck.array(FastCheck.nat(9), { minLength: 1, maxLength: 6 }), { maxLength: 6 })
  ], ([slices]) =>
    Effect.gen(function*() {
      // 9 does not decode.
      const seen: Array<ReadonlyArray<number>> = []
      const exit = yield* Stream.fromIterable(slices).pipe(
        Stream.flatMap((slice) =>
          Stream.fromChunk(Chunk.fromIterable(slice.map((n) => recordOf(bytes(n === 9 ? "no" : good(n))))))
        ),
        Payload.decode(order),
        Stream.chunks,
        Stream.runForEach((chunk) =>
          Effect.sync(() => seen.push(Chunk.toReadonlyArray(chunk).map(({ value }) => value.id)))
        ),
        Effect.exit
      )
      const expected: Array<ReadonlyArray<number>> = []
      for (const slice of slices) {
        const end = slice.indexOf(9)
        if (end !== 0) expected.push(end < 0 ? slice : slice.slice(0, end))
        if (end >= 0) break
      }
      assert.deepStrictEqual(seen, expected)
      assert.strictEqual(Exit.isFailure(exit), slices.flat().includes(9))
    }))
})

describe("in a group", () => {
  /** good 0, bad, an aggregate of good 1, bad, good 2, and good 3 */
  const put = (w: FaultyWorld) =>
    Effect.gen(function*() {
      yield* w.kinesis.createStream({ name: "orders" })
      const aggregate = Aggregates.of([{ data: good(1) }, { data: "bad" }, { data: good(2) }])
      return yield* Effect.forEach(
        [good(0), "bad", aggregate, good(3)],
        (data) => w.kinesis.putTo({ stream: "orders", shardId: shardId(0), data })
      )
    })

  const ids = (all: ReadonlyArray<Payload.DecodedRecord<typeof Order.Type>>) => all.map(({ value }) => value.id)

  /** Reads, and marks what was decoded. */
  const reading = <E>(
    m: TestMember,
    through: (
      records: Kinesumer.Kinesumer["Type"]["records"]
    ) => Stream.Stream<Payload.DecodedRecord<typeof Order.Type>, E, Kinesumer.Kinesumer>
  ) =>
    Effect.gen(function*() {
      const seen = yield* Ref.make<ReadonlyArray<Payload.DecodedRecord<typeof Order.Type>>>([])
      const fiber = yield* through(m.service.records).pipe(
        Stream.runForEach((one) => Effect.zipRight(Ref.update(seen, (all) => [...all, one]), m.service.mark(one))),
        Effect.provideService(Kinesumer.Kinesumer, m.service),
        Effect.fork
      )
      return { seen: Ref.get(seen), fiber }
    })

  const isDone = (seen: Effect.Effect<ReadonlyArray<Payload.DecodedRecord<typeof Order.Type>>>) =>
    Effect.map(seen, (all) => ids(all).includes(3))

  it.scoped("fail: what came before is delivered, and the place is told; it comes again", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      const [, bad] = yield* put(w)
      const m = yield* faulty(w, manual)
      for (const expected of [[0], []]) {
        const { fiber, seen } = yield* reading(m, Payload.decode(order))
        yield* until(Effect.map(fiber.status, ({ _tag }) => _tag === "Done"))
        assert.deepStrictEqual(ids(yield* seen), expected)
        const error = yield* Effect.flip(fiber)
        assert.instanceOf(error, KinesumerError.DecodeError)
        assert.strictEqual(error.record.sequenceNumber, bad?.sequenceNumber)
        assert.include(error.message, bad?.sequenceNumber ?? "?")
      }
    }))

  it("what becomes of it can be chosen later", () => {
    const treat = (onInvalid: Payload.OnInvalid) => Payload.decode(order, { onInvalid })
    assert.isFunction(treat("skip"))
  })

  it.scoped("skip: it is told and counted, and nothing waits for it", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      const [, bad, aggregate, last] = yield* put(w)
      const m = yield* faulty(w, { ...manual, app: "skips" })
      const { seen } = yield* reading(m, Payload.decode(order, { onInvalid: "skip" }))
      yield* until(isDone(seen))
      assert.deepStrictEqual(ids(yield* seen), [0, 1, 2, 3])
      yield* m.service.commit
      yield* pass(1)
      assert.deepStrictEqual(
        Option.flatMap(yield* positionOfApp(w, "skips"), ({ position }) => position),
        Option.some(Position.afterSequence(last?.sequenceNumber ?? ""))
      )
      const told = yield* eventsOf(m, "RecordSkipped")
      assert.deepStrictEqual(
        told.map(({ sequenceNumber, subSequenceNumber }) => [sequenceNumber, subSequenceNumber]),
        [[bad?.sequenceNumber, undefined], [aggregate?.sequenceNumber, 1]]
      )
      assert.isTrue(told.every(({ cause }) => cause instanceof KinesumerError.DecodeError))
      const counted = Metric.taggedWithLabels(KinesumerMetrics.skipped, [
        MetricLabel.make("app", "skips"),
        MetricLabel.make("stream", "orders")
      ])
      assert.strictEqual((yield* Metric.value(counted)).count, 2)
    }))

  const positionOfApp = (w: FaultyWorld, app: string) =>
    Effect.map(w.store.listCheckpoints(app, "orders"), (rows) => Option.fromNullable(rows[0]))

  it.scoped("a dead-letter effect: it is given the record, which counts as processed after that", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      const [, bad, aggregate, last] = yield* put(w)
      const m = yield* faulty(w, manual)
      const letters: Array<readonly [string, number | undefined, string]> = []
      const { seen } = yield* reading(
        m,
        Payload.decode(order, {
          onInvalid: ({ record }) =>
            Effect.sync(() =>
              letters.push([record.sequenceNumber, record.subSequenceNumber, Buffer.from(record.data).toString()])
            )
        })
      )
      yield* until(isDone(seen))
      yield* m.service.commit
      assert.deepStrictEqual(letters, [
        [bad?.sequenceNumber ?? "", undefined, "bad"],
        [aggregate?.sequenceNumber ?? "", 1, "bad"]
      ])
      assert.deepStrictEqual(yield* positionOf(w), Option.some(Position.afterSequence(last?.sequenceNumber ?? "")))
      assert.deepStrictEqual(yield* eventsOf(m, "RecordSkipped"), [])
    }))

  it.scoped("a dead-letter effect that fails: so does the stream, and the record comes again", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      const [first] = yield* put(w)
      const m = yield* faulty(w, manual)
      let tries = 0
      const decode = Payload.decode(order, {
        onInvalid: () => Effect.suspend(() => ++tries === 1 ? Effect.fail("full" as const) : Effect.void)
      })
      const { fiber } = yield* reading(m, decode)
      yield* until(Effect.map(fiber.status, ({ _tag }) => _tag === "Done"))
      assert.strictEqual(yield* Effect.flip(fiber), "full")
      yield* m.service.commit
      assert.deepStrictEqual(yield* positionOf(w), Option.some(Position.afterSequence(first?.sequenceNumber ?? "")))
      const { seen } = yield* reading(m, decode)
      yield* until(isDone(seen))
      assert.deepStrictEqual(ids(yield* seen), [1, 2, 3])
      assert.strictEqual(tries, 3)
    }))

  it.scoped("auto commit: a slice counts as processed as ever, though nothing of it decodes", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* w.kinesis.createStream({ name: "orders" })
      const putTo = (data: string) => w.kinesis.putTo({ stream: "orders", shardId: shardId(0), data })
      yield* putTo("bad")
      const { sequenceNumber } = yield* putTo("worse")
      const m = yield* faulty(w)
      const fiber = yield* m.service.records.pipe(
        Payload.decode(order, { onInvalid: "skip" }),
        Stream.runDrain,
        Effect.provideService(Kinesumer.Kinesumer, m.service),
        Effect.fork
      )
      yield* until(Effect.map(eventsOf(m, "RecordSkipped"), ({ length }) => length === 2))
      yield* pass(3)
      assert.strictEqual(Option.isNone(yield* fiber.poll), true)
      assert.deepStrictEqual(yield* positionOf(w), Option.some(Position.afterSequence(sequenceNumber)))
    }))

  it.scoped("what was lost meanwhile is left to its next owner", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* put(w)
      const m = yield* faulty(w, manual)
      const records = yield* Ref.make<ReadonlyArray<KinesumerRecord.KinesumerRecord>>([])
      yield* m.service.records.pipe(
        Stream.runForEach((record) => Ref.update(records, (all) => [...all, record])),
        Effect.fork
      )
      yield* until(Effect.map(Ref.get(records), ({ length }) => length === 6))
      yield* m.close
      const all = yield* Ref.get(records)
      const lost = yield* Effect.flip(m.service.skip(all[1] ?? recordOf(bytes("")), "why"))
      assert.strictEqual(lost._tag, "LeaseLost")
      const decoded = yield* Stream.fromIterable(all).pipe(
        Payload.decode(order, { onInvalid: "skip" }),
        Stream.runCollect,
        Effect.provideService(Kinesumer.Kinesumer, m.service)
      )
      assert.deepStrictEqual(ids(Chunk.toReadonlyArray(decoded)), [0, 1, 2, 3])
    }))
})
