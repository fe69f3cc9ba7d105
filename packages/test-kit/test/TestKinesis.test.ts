import { assert, describe, it } from "@effect/vitest"
import { KinesisClient, Position, SequenceNumber } from "@kinesumer/core"
import { TestKinesis } from "@kinesumer/test-kit"
import { Chunk, DateTime, Duration, Effect, Exit, Fiber, Layer, Option, Stream, TestClock } from "effect"

const orders: KinesisClient.StreamId = { name: "orders", arn: Option.none() }
const shard0 = "shardId-000000000000"
const shard1 = "shardId-000000000001"
const shard2 = "shardId-000000000002"
const shard3 = "shardId-000000000003"

const at = (millis: number) => Position.atTimestamp(DateTime.unsafeMake(millis))

const text = (record: { readonly data: Uint8Array }) => new TextDecoder().decode(record.data)

const putAll = (data: ReadonlyArray<string>, shardId = shard0) =>
  Effect.gen(function*() {
    const kinesis = yield* TestKinesis.TestKinesis
    return yield* Effect.forEach(data, (data) => kinesis.putTo({ stream: "orders", shardId, data }))
  })

const iteratorAt = (position: Position.Position, shardId = shard0) =>
  Effect.flatMap(KinesisClient.KinesisClient, (client) => client.getShardIterator(orders, shardId, position))

const get = (iterator: string, options: { readonly shardId?: string; readonly limit?: number } = {}) =>
  Effect.flatMap(
    KinesisClient.KinesisClient,
    (client) => client.getRecords(orders, options.shardId ?? shard0, { iterator, limit: options.limit ?? 10_000 })
  )

/** Everything from a position on, read until the tip or the end. */
const readFrom = (position: Position.Position, options: { readonly shardId?: string; readonly limit?: number } = {}) =>
  Stream.paginateChunkEffect(undefined as string | undefined, (iterator) =>
    Effect.gen(function*() {
      const page = yield* get(iterator ?? (yield* iteratorAt(position, options.shardId)), options)
      const more = page.records.length > 0 && Option.isSome(page.nextIterator)
      return [Chunk.map(Chunk.fromIterable(page.records), text), more ? page.nextIterator : Option.none()] as const
    })).pipe(Stream.runCollect, Effect.map(Chunk.toReadonlyArray))

const listAll = Effect.gen(function*() {
  const client = yield* KinesisClient.KinesisClient
  const pages = yield* Stream.paginateEffect(
    Option.none<string>(),
    (token) =>
      Effect.map(client.listShards(orders, token), (page) =>
        [
          page.shards,
          Option.map(page.nextToken, Option.some)
        ] as const)
  ).pipe(Stream.runCollect)
  return Array.from(pages, (page) => page.map((shard) => shard.shardId))
})

const reasonOf = <A, E extends { readonly reason: string }, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.flip(effect), (error) => error.reason)

const create = (options: Partial<TestKinesis.CreateStreamOptions> = {}) =>
  Effect.flatMap(TestKinesis.TestKinesis, (kinesis) => kinesis.createStream({ name: "orders", ...options }))

const unlimited = Effect.provide(TestKinesis.layerWith({ limits: false }))

describe("reading", () => {
  it.effect("gives exactly the rest from each position, with two records in one millisecond and calls 1 ms apart", () =>
    Effect.gen(function*() {
      yield* TestClock.adjust("1 minute")
      yield* create()
      const data = Array.from({ length: 12 }, (_, i) => `r${i}`)
      const arrivals: Array<number> = []
      const numbers: Array<string> = []
      for (const [i, datum] of data.entries()) {
        arrivals.push(60_000 + Math.floor(i / 2))
        numbers.push(...(yield* putAll([datum])).map((put) => put.sequenceNumber))
        if (i % 2 === 1) yield* TestClock.adjust(1)
      }
      for (const limit of [1, 5, 10_000]) {
        assert.deepStrictEqual(yield* readFrom(Position.trimHorizon, { limit }), data)
        for (const [i, sequenceNumber] of numbers.entries()) {
          assert.deepStrictEqual(yield* readFrom(Position.afterSequence(sequenceNumber), { limit }), data.slice(i + 1))
          assert.deepStrictEqual(yield* readFrom(Position.afterSequence(sequenceNumber, 3), { limit }), data.slice(i))
        }
        for (const [i, arrival] of arrivals.entries()) {
          assert.deepStrictEqual(yield* readFrom(at(arrival), { limit }), data.slice(i - i % 2))
        }
      }
    }).pipe(unlimited))

  it.effect("an iterator at the tip sees what is put before its first use, and each record once", () =>
    Effect.gen(function*() {
      yield* create()
      yield* putAll(["old"])
      yield* TestClock.adjust(1)
      const tip = yield* iteratorAt(at(1))
      yield* putAll(["a", "b"])
      const first = yield* get(tip)
      assert.deepStrictEqual(first.records.map(text), ["a", "b"])
      const next = yield* first.nextIterator
      assert.deepStrictEqual((yield* get(next)).records, [])
      yield* putAll(["c"])
      assert.deepStrictEqual((yield* get(next)).records.map(text), ["c"])
      assert.deepStrictEqual((yield* get(next)).records.map(text), ["c"], "an iterator can be used again")
    }).pipe(unlimited))

  it.effect("says how far behind the next unread record is", () =>
    Effect.gen(function*() {
      yield* create()
      yield* putAll(["a", "b"])
      yield* TestClock.adjust("3 seconds")
      yield* putAll(["c"])
      const first = yield* get(yield* iteratorAt(Position.trimHorizon), { limit: 1 })
      assert.deepStrictEqual(first.millisBehindLatest, Option.some(3000))
      assert.deepStrictEqual(first.records[0]?.arrivalTime, new Date(0))
      const second = yield* get(yield* first.nextIterator, { limit: 1 })
      assert.deepStrictEqual(second.millisBehindLatest, Option.some(1), "more is there, in this very millisecond")
      const third = yield* get(yield* second.nextIterator, { limit: 1 })
      assert.deepStrictEqual(third.millisBehindLatest, Option.some(0))
    }).pipe(unlimited))

  it.effect("a page has at most the limit and at most 10 MiB", () =>
    Effect.gen(function*() {
      const kinesis = yield* TestKinesis.TestKinesis
      yield* create()
      const large = new Uint8Array(3 * 1024 * 1024)
      yield* Effect.replicateEffect(kinesis.putTo({ stream: "orders", shardId: shard0, data: large }), 4)
      yield* kinesis.putTo({ stream: "orders", shardId: shard0, data: new Uint8Array(10 * 1024 * 1024) })
      const sizes: Array<number> = []
      let iterator = yield* iteratorAt(Position.trimHorizon)
      for (let i = 0; i < 3; i++) {
        const page = yield* get(iterator)
        sizes.push(page.records.length)
        iterator = yield* page.nextIterator
      }
      assert.deepStrictEqual(sizes, [3, 1, 1])
      assert.strictEqual(yield* reasonOf(get(iterator, { limit: 0 })), "InvalidArgument")
      assert.strictEqual(yield* reasonOf(get(iterator, { limit: 10_001 })), "InvalidArgument")
      const tooLarge = kinesis.putTo({ stream: "orders", shardId: shard0, data: new Uint8Array(10 * 1024 * 1024 + 1) })
      assert.strictEqual(yield* reasonOf(tooLarge), "InvalidArgument")
    }).pipe(unlimited))

  it.effect("iterators expire after 5 minutes", () =>
    Effect.gen(function*() {
      const kinesis = yield* TestKinesis.TestKinesis
      yield* create()
      yield* putAll(["a"])
      const iterator = yield* iteratorAt(Position.trimHorizon)
      yield* TestClock.adjust(Duration.minutes(5).pipe(Duration.subtract(Duration.millis(1))))
      const page = yield* get(iterator)
      yield* TestClock.adjust(1)
      assert.strictEqual(yield* reasonOf(get(iterator)), "ExpiredIterator")
      assert.strictEqual((yield* get(yield* page.nextIterator)).records.length, 0)
      yield* kinesis.expireIterators
      assert.strictEqual(yield* reasonOf(get(yield* page.nextIterator)), "ExpiredIterator")
      assert.strictEqual((yield* get(yield* iteratorAt(Position.trimHorizon))).records.length, 1)
    }).pipe(Effect.provide(TestKinesis.layer)))

  it.effect("gives empty pages that stay where they are", () =>
    Effect.gen(function*() {
      const kinesis = yield* TestKinesis.TestKinesis
      yield* create()
      yield* putAll(["a"])
      yield* TestClock.adjust("1 second")
      yield* kinesis.emptyPages({ stream: "orders", shardId: shard0, count: 2 })
      let iterator = yield* iteratorAt(Position.trimHorizon)
      const sizes: Array<number> = []
      for (let i = 0; i < 3; i++) {
        const page = yield* get(iterator)
        assert.deepStrictEqual(page.millisBehindLatest, Option.some(i < 2 ? 1000 : 0))
        sizes.push(page.records.length)
        iterator = yield* page.nextIterator
      }
      assert.deepStrictEqual(sizes, [0, 0, 1])
    }).pipe(unlimited))
})

describe("positions that are refused", () => {
  it.effect("of another shard, another stream, the future, the end, or none at all", () =>
    Effect.gen(function*() {
      const kinesis = yield* TestKinesis.TestKinesis
      yield* create({ shards: 2 })
      yield* kinesis.createStream({ name: "payments" })
      const [mine] = yield* putAll(["a"], shard0)
      const [other] = yield* putAll(["a"], shard1)
      const foreign = yield* kinesis.putTo({ stream: "payments", shardId: shard0, data: "a" })
      const refused = [
        Position.afterSequence(other?.sequenceNumber ?? ""),
        Position.afterSequence(foreign.sequenceNumber),
        Position.afterSequence(`${mine?.sequenceNumber}0`),
        Position.afterSequence("0"),
        Position.afterSequence(""),
        Position.afterSequence("LATEST"),
        Position.shardEnd,
        at(1)
      ]
      for (const position of refused) {
        assert.strictEqual(yield* reasonOf(iteratorAt(position)), "InvalidArgument", JSON.stringify(position))
      }
      yield* iteratorAt(Position.afterSequence(mine?.sequenceNumber ?? ""))
      yield* iteratorAt(at(0))
    }).pipe(unlimited))

  it.effect("unknown streams and shards, iterators of another shard, and garbage", () =>
    Effect.gen(function*() {
      const client = yield* KinesisClient.KinesisClient
      yield* create({ shards: 2 })
      assert.strictEqual(
        yield* reasonOf(client.listShards({ name: "nothing", arn: Option.none() }, Option.none())),
        "NotFound"
      )
      assert.strictEqual(yield* reasonOf(iteratorAt(Position.trimHorizon, shard3)), "NotFound")
      const iterator = yield* iteratorAt(Position.trimHorizon)
      assert.strictEqual(yield* reasonOf(get(iterator, { shardId: shard1 })), "InvalidArgument")
      assert.strictEqual(yield* reasonOf(get("garbage")), "InvalidArgument")
      assert.strictEqual(yield* reasonOf(client.listShards(orders, Option.some("garbage"))), "InvalidArgument")
    }).pipe(unlimited))

  it.effect("of a stream that was made again under its name", () =>
    Effect.gen(function*() {
      const kinesis = yield* TestKinesis.TestKinesis
      const first = yield* create()
      const [put] = yield* putAll(["old"])
      const number = put?.sequenceNumber ?? ""
      const iterator = yield* iteratorAt(Position.trimHorizon)
      yield* kinesis.deleteStream("orders")
      assert.strictEqual(yield* reasonOf(get(iterator)), "NotFound")
      yield* TestClock.adjust("1 minute")
      const second = yield* create()
      assert.strictEqual(DateTime.distance(first.createdAt, second.createdAt), 60_000)
      yield* putAll(["new"])
      assert.strictEqual(yield* reasonOf(get(iterator)), "InvalidArgument")
      assert.strictEqual(yield* reasonOf(iteratorAt(Position.afterSequence(number))), "InvalidArgument")
      assert.deepStrictEqual(yield* readFrom(Position.trimHorizon), ["new"])
    }).pipe(unlimited))

  it.effect("but not where the numbers of the new stream begin as those of the old one", () =>
    Effect.gen(function*() {
      const kinesis = yield* TestKinesis.TestKinesis
      const firstSequenceNumber = `${10n ** 56n}`
      yield* create({ firstSequenceNumber })
      const old = yield* putAll(["1", "2", "3"])
      yield* kinesis.deleteStream("orders")
      yield* create({ firstSequenceNumber })
      yield* putAll(["4", "5", "6", "7", "8"])
      yield* iteratorAt(Position.afterSequence(old[1]?.sequenceNumber ?? ""))
    }).pipe(unlimited))
})

describe("sequence numbers", () => {
  it.effect("grow as numbers but not as text, are never neighbours, and those of children stand above", () =>
    Effect.gen(function*() {
      const kinesis = yield* TestKinesis.TestKinesis
      yield* create({ shards: 2 })
      const numbersOf = (shardId: string) =>
        Effect.map(kinesis.records("orders", shardId), (records) => records.map((record) => record.sequenceNumber))
      yield* Effect.forEach([shard0, shard1], (shardId) => putAll(Array.from({ length: 20 }, String), shardId))
      yield* kinesis.split("orders", shard0)
      yield* Effect.forEach([shard2, shard3], (shardId) => putAll(Array.from({ length: 20 }, String), shardId))
      const parent = yield* numbersOf(shard0)
      const child = yield* numbersOf(shard2)
      for (const numbers of [parent, child]) {
        assert.deepStrictEqual([...numbers].sort(SequenceNumber.compare), numbers)
        assert.notDeepEqual([...numbers].sort(), numbers)
        assert.strictEqual(new Set(numbers).size, 20)
        assert.isTrue(numbers.every((number, i) => i === 0 || BigInt(number) - BigInt(numbers[i - 1] ?? "") > 1n))
      }
      assert.deepStrictEqual(Array.from(new Set(parent.map((number) => number.length))), [56, 57])
      assert.strictEqual(SequenceNumber.compare(parent.at(-1) ?? "", child[0] ?? ""), -1)
      const [ended] = yield* kinesis.shards("orders")
      const ending = yield* ended?.endingSequenceNumber ?? Option.none()
      assert.strictEqual(SequenceNumber.compare(parent.at(-1) ?? "", ending), -1)
      assert.strictEqual(SequenceNumber.compare(ending, child[0] ?? ""), -1)
    }).pipe(unlimited))
})

describe("limits", () => {
  it.effect("5 GetRecords a second for each shard", () =>
    Effect.gen(function*() {
      yield* create({ shards: 2 })
      const iterator = yield* iteratorAt(Position.trimHorizon)
      const other = yield* iteratorAt(Position.trimHorizon, shard1)
      yield* Effect.replicateEffect(get(iterator), 5)
      assert.strictEqual(yield* reasonOf(get(iterator)), "Throttled")
      yield* get(other, { shardId: shard1 })
      yield* TestClock.adjust(999)
      assert.strictEqual(yield* reasonOf(get(iterator)), "Throttled")
      yield* TestClock.adjust(1)
      yield* Effect.replicateEffect(get(iterator), 5)
    }).pipe(Effect.provide(TestKinesis.layer)))

  it.effect("2 MiB a second for each shard, and 5 seconds of rest after 10 MiB", () =>
    Effect.gen(function*() {
      const kinesis = yield* TestKinesis.TestKinesis
      yield* create()
      const put = (mib: number) =>
        kinesis.putTo({ stream: "orders", shardId: shard0, data: new Uint8Array(mib * 1024 * 1024) })
      yield* Effect.replicateEffect(put(1), 4)
      let page = yield* get(yield* iteratorAt(Position.trimHorizon), { limit: 1 })
      page = yield* get(yield* page.nextIterator, { limit: 1 })
      assert.strictEqual(yield* reasonOf(get(yield* page.nextIterator)), "Throttled")
      yield* TestClock.adjust("1 second")
      page = yield* get(yield* page.nextIterator, { limit: 1 })
      yield* put(9)
      yield* TestClock.adjust("1 second")
      page = yield* get(yield* page.nextIterator)
      assert.strictEqual(page.records.length, 1)
      page = yield* get(yield* page.nextIterator)
      assert.strictEqual(page.records.length, 1)
      yield* TestClock.adjust("4400 millis")
      assert.strictEqual(yield* reasonOf(get(yield* page.nextIterator)), "Throttled")
      yield* TestClock.adjust("200 millis")
      yield* get(yield* page.nextIterator)
    }).pipe(Effect.provide(TestKinesis.layer)))

  it.effect("5 GetShardIterator a second for each shard", () =>
    Effect.gen(function*() {
      yield* create({ shards: 2 })
      yield* Effect.replicateEffect(iteratorAt(Position.trimHorizon), 5)
      assert.strictEqual(yield* reasonOf(iteratorAt(Position.trimHorizon)), "Throttled")
      yield* iteratorAt(Position.trimHorizon, shard1)
      yield* TestClock.adjust("1 second")
      yield* iteratorAt(Position.trimHorizon)
    }).pipe(Effect.provide(TestKinesis.layer)))

  it.effect("can be switched off", () =>
    Effect.gen(function*() {
      yield* create()
      yield* Effect.replicateEffect(Effect.flatMap(iteratorAt(Position.trimHorizon), get), 20)
    }).pipe(unlimited))
})

describe("shards", () => {
  it.effect("records go to the open shard that has the MD5 of their key", () =>
    Effect.gen(function*() {
      const kinesis = yield* TestKinesis.TestKinesis
      yield* create({ shards: 4 })
      const put = (partitionKey: string, explicitHashKey?: string) =>
        Effect.map(
          kinesis.put({ stream: "orders", partitionKey, data: "", explicitHashKey }),
          (result) => result.shardId
        )
      // MD5: a = 0cc1…, b = 92eb…, c = 4a8a…, 4 = a87f…, 3 = eccb…
      assert.deepStrictEqual(
        yield* Effect.forEach(["a", "b", "c", "4", "3"], (key) => put(key)),
        [shard0, shard2, shard1, shard2, shard3]
      )
      assert.strictEqual(yield* put("a", `${2n ** 128n - 1n}`), shard3)
      yield* kinesis.split("orders", shard0)
      assert.strictEqual(yield* put("a"), "shardId-000000000004")
    }).pipe(unlimited))

  it.effect("a closed shard is read to its end, and its last answer names the children", () =>
    Effect.gen(function*() {
      const kinesis = yield* TestKinesis.TestKinesis
      yield* create()
      yield* putAll(["a", "b"])
      const [low, high] = yield* kinesis.split("orders", shard0)
      const first = yield* get(yield* iteratorAt(Position.trimHorizon), { limit: 1 })
      assert.isTrue(Option.isSome(first.nextIterator))
      assert.deepStrictEqual(first.childShards, [])
      const last = yield* get(yield* first.nextIterator, { limit: 1 })
      assert.deepStrictEqual(last.records.map(text), ["b"])
      assert.isTrue(Option.isNone(last.nextIterator))
      assert.deepStrictEqual(last.childShards.map((shard) => shard.shardId), [low.shardId, high.shardId])
      assert.deepStrictEqual(last.childShards.map((shard) => shard.parents), [[shard0], [shard0]])
      assert.deepStrictEqual(last.millisBehindLatest, Option.some(0))
      assert.strictEqual(yield* reasonOf(putAll(["c"])), "InvalidArgument")
      assert.strictEqual(yield* reasonOf(kinesis.split("orders", shard0)), "InvalidArgument")
    }).pipe(unlimited))

  it.effect("the end of a closed shard can come after empty pages", () =>
    Effect.gen(function*() {
      const kinesis = yield* TestKinesis.TestKinesis
      yield* create()
      yield* putAll(["a"])
      yield* kinesis.split("orders", shard0)
      yield* kinesis.emptyPages({ stream: "orders", shardId: shard0, count: 15, atEnd: true })
      let iterator = Option.some(yield* iteratorAt(Position.trimHorizon))
      const sizes: Array<number> = []
      while (Option.isSome(iterator)) {
        const page = yield* get(iterator.value)
        sizes.push(page.records.length)
        assert.strictEqual(page.childShards.length, Option.isNone(page.nextIterator) ? 2 : 0)
        iterator = page.nextIterator
      }
      assert.deepStrictEqual(sizes, [1, ...Array.from({ length: 15 }, () => 0)])
    }).pipe(unlimited))

  it.effect("splits and merges over several generations keep lineage and hash keys", () =>
    Effect.gen(function*() {
      const kinesis = yield* TestKinesis.TestKinesis
      yield* create()
      const [b, c] = yield* kinesis.split("orders", shard0, "1000")
      const [d, e] = yield* kinesis.split("orders", c.shardId)
      const f = yield* kinesis.merge("orders", d.shardId, b.shardId)
      assert.strictEqual(yield* reasonOf(kinesis.merge("orders", d.shardId, e.shardId)), "InvalidArgument")
      const g = yield* kinesis.merge("orders", f.shardId, e.shardId)
      const max = `${2n ** 128n - 1n}`
      assert.deepStrictEqual(b.hashKeyRange, { start: "0", end: "999" })
      assert.deepStrictEqual(c.hashKeyRange, { start: "1000", end: max })
      assert.deepStrictEqual(f.parents, [b.shardId, d.shardId])
      assert.deepStrictEqual(f.hashKeyRange, { start: "0", end: d.hashKeyRange.end })
      assert.deepStrictEqual(g.parents, [f.shardId, e.shardId])
      assert.deepStrictEqual(g.hashKeyRange, { start: "0", end: max })
      const listed = yield* kinesis.shards("orders")
      assert.deepStrictEqual(listed.filter((shard) => !shard.closed).map((shard) => shard.shardId), [g.shardId])
      assert.deepStrictEqual(listed.map((shard) => shard.children.length), [2, 1, 2, 1, 1, 1, 0])
    }).pipe(unlimited))

  it.effect("only neighbours merge, and a split stays inside", () =>
    Effect.gen(function*() {
      const kinesis = yield* TestKinesis.TestKinesis
      yield* create({ shards: 3 })
      assert.strictEqual(yield* reasonOf(kinesis.merge("orders", shard0, shard2)), "InvalidArgument")
      assert.strictEqual(yield* reasonOf(kinesis.merge("orders", shard0, shard0)), "InvalidArgument")
      assert.strictEqual(yield* reasonOf(kinesis.split("orders", shard1, "0")), "InvalidArgument")
    }).pipe(unlimited))

  it.effect("a uniform reshard leaves shards of one size, reached by splits and merges", () =>
    Effect.gen(function*() {
      const kinesis = yield* TestKinesis.TestKinesis
      yield* create({ shards: 4 })
      for (const count of [8, 3, 5, 1, 2]) {
        const open = yield* kinesis.reshard("orders", count)
        assert.strictEqual(open.length, count)
        const sizes = open.map((shard) => BigInt(shard.hashKeyRange.end) - BigInt(shard.hashKeyRange.start))
        assert.isTrue(sizes.every((size) => size - (sizes[0] ?? 0n) <= 1n && (sizes[0] ?? 0n) - size <= 1n))
        assert.strictEqual(open[0]?.hashKeyRange.start, "0")
        assert.strictEqual(open.at(-1)?.hashKeyRange.end, `${2n ** 128n - 1n}`)
      }
      const all = yield* kinesis.shards("orders")
      assert.isTrue(all.every((shard) => shard.closed ? shard.children.length > 0 : shard.children.length === 0))
      assert.isTrue(all.every((shard) => shard.parents.length <= 2))
    }).pipe(unlimited))

  it.effect("are listed in pages whose token expires", () =>
    Effect.gen(function*() {
      const client = yield* KinesisClient.KinesisClient
      yield* create({ shards: 5 })
      assert.deepStrictEqual((yield* listAll).map((page) => page.length), [2, 2, 1])
      assert.deepStrictEqual((yield* listAll).flat().length, 5)
      const first = yield* client.listShards(orders, Option.none())
      yield* TestClock.adjust("5 minutes")
      assert.strictEqual(yield* reasonOf(client.listShards(orders, first.nextToken)), "ExpiredToken")
    }).pipe(Effect.provide(TestKinesis.layerWith({ pageSize: 2 }))))

  it.effect("1,000 are listed at once", () =>
    Effect.gen(function*() {
      yield* create({ shards: 1001 })
      assert.deepStrictEqual((yield* listAll).map((page) => page.length), [1000, 1])
    }).pipe(unlimited))
})

describe("retention", () => {
  it.effect("records older than the retention vanish, and a position among them starts at the horizon", () =>
    Effect.gen(function*() {
      yield* create({ retention: "1 hour" })
      const [old] = yield* putAll(["a"])
      yield* TestClock.adjust("1 hour")
      yield* putAll(["b"])
      const iterator = yield* iteratorAt(Position.trimHorizon)
      assert.deepStrictEqual(yield* readFrom(Position.trimHorizon), ["a", "b"])
      yield* TestClock.adjust(1)
      assert.deepStrictEqual(yield* readFrom(Position.trimHorizon), ["b"])
      assert.deepStrictEqual((yield* get(iterator)).records.map(text), ["b"])
      assert.deepStrictEqual(yield* readFrom(Position.afterSequence(old?.sequenceNumber ?? "")), ["b"])
      assert.deepStrictEqual(yield* readFrom(at(0)), ["b"])
      yield* TestClock.adjust("2 hours")
      assert.deepStrictEqual(yield* readFrom(Position.afterSequence(old?.sequenceNumber ?? "")), [])
      yield* putAll(["c"])
      assert.deepStrictEqual(yield* readFrom(Position.afterSequence(old?.sequenceNumber ?? "")), ["c"])
    }).pipe(unlimited))

  it.effect("an iterator keeps its place while older records vanish, and moves up when its own do", () =>
    Effect.gen(function*() {
      const kinesis = yield* TestKinesis.TestKinesis
      yield* create()
      const [, b] = yield* putAll(["a", "b", "c", "d"])
      const next = yield* (yield* get(yield* iteratorAt(Position.trimHorizon), { limit: 1 })).nextIterator
      const trim = (through: string | undefined) => kinesis.trim({ stream: "orders", shardId: shard0, through })
      yield* trim(`${BigInt(b?.sequenceNumber ?? "0") - 1n}`)
      assert.deepStrictEqual((yield* get(next)).records.map(text), ["b", "c", "d"])
      yield* trim(b?.sequenceNumber)
      assert.deepStrictEqual((yield* get(next)).records.map(text), ["c", "d"])
      yield* trim(undefined)
      assert.deepStrictEqual((yield* get(next)).records, [])
      yield* putAll(["e"])
      assert.deepStrictEqual((yield* get(next)).records.map(text), ["e"])
    }).pipe(unlimited))

  it.effect("or is refused, if so configured", () =>
    Effect.gen(function*() {
      const kinesis = yield* TestKinesis.TestKinesis
      yield* create()
      const [a, b, c] = yield* putAll(["a", "b", "c"])
      yield* kinesis.trim({ stream: "orders", shardId: shard0, through: b?.sequenceNumber })
      for (const put of [a, b]) {
        const position = Position.afterSequence(put?.sequenceNumber ?? "")
        assert.strictEqual(yield* reasonOf(iteratorAt(position)), "InvalidArgument")
      }
      yield* iteratorAt(Position.afterSequence(c?.sequenceNumber ?? ""))
      assert.deepStrictEqual(yield* readFrom(Position.trimHorizon), ["c"])
      yield* kinesis.trim({ stream: "orders", shardId: shard0 })
      assert.deepStrictEqual(yield* readFrom(Position.trimHorizon), [])
    }).pipe(Effect.provide(TestKinesis.layerWith({ trimmedPosition: "refuse", limits: false }))))

  it.effect("closed shards vanish with their last record; their children still name them", () =>
    Effect.gen(function*() {
      const kinesis = yield* TestKinesis.TestKinesis
      yield* create({ retention: "1 hour" })
      yield* kinesis.split("orders", shard0)
      yield* TestClock.adjust("30 minutes")
      yield* kinesis.split("orders", shard1)
      yield* TestClock.adjust("30 minutes")
      assert.strictEqual((yield* listAll).flat().length, 5)
      const iterator = yield* iteratorAt(Position.trimHorizon)
      yield* TestClock.adjust(1)
      assert.notInclude((yield* listAll).flat(), shard0)
      assert.strictEqual(yield* reasonOf(iteratorAt(Position.trimHorizon)), "NotFound")
      assert.strictEqual(yield* reasonOf(get(iterator)), "NotFound")
      const shards = yield* kinesis.shards("orders")
      assert.deepStrictEqual(shards[0]?.parents, [shard0])
      yield* kinesis.forgetShard("orders", shard1)
      assert.strictEqual((yield* listAll).flat().length, 3)
      assert.strictEqual(yield* reasonOf(kinesis.forgetShard("orders", shard2)), "InvalidArgument")
      yield* kinesis.setRetention("orders", "2 hours")
      yield* TestClock.adjust("1 day")
      assert.strictEqual((yield* listAll).flat().length, 3, "open shards stay")
    }).pipe(unlimited))
})

describe("streams", () => {
  it.effect("are described, by Kinesis's own clock in whole seconds", () =>
    Effect.gen(function*() {
      const client = yield* KinesisClient.KinesisClient
      yield* TestClock.adjust(10_700)
      yield* create()
      yield* TestClock.adjust(2600)
      const description = yield* client.describeStream(orders)
      assert.deepStrictEqual(description, {
        name: "orders",
        arn: "arn:aws:kinesis:eu-west-3:123456789012:stream/orders",
        status: "ACTIVE",
        createdAt: DateTime.unsafeMake(130_700),
        answeredAt: DateTime.unsafeMake(133_000)
      })
      assert.strictEqual(yield* client.region, "eu-west-3")
      yield* putAll(["a"])
      const page = yield* get(yield* iteratorAt(at(133_300)))
      assert.deepStrictEqual(page.records[0]?.arrivalTime, new Date(133_300))
      assert.strictEqual(yield* reasonOf(iteratorAt(at(133_301))), "InvalidArgument")
    }).pipe(
      Effect.provide(TestKinesis.layerWith({ region: "eu-west-3", account: "123456789012", clockSkew: "2 minutes" }))
    ))

  it.effect("are addressed by name, or by the ARN of any account", () =>
    Effect.gen(function*() {
      const kinesis = yield* TestKinesis.TestKinesis
      const client = yield* KinesisClient.KinesisClient
      const own = yield* create()
      const foreign = yield* create({ account: "111111111111", shards: 2 })
      const count = (stream: KinesisClient.StreamId) =>
        Effect.map(client.listShards(stream, Option.none()), (page) => page.shards.length)
      assert.strictEqual(yield* count(orders), 1)
      assert.strictEqual(yield* count({ name: "orders", arn: Option.some(own.arn) }), 1)
      assert.strictEqual(yield* count({ name: "orders", arn: Option.some(foreign.arn) }), 2)
      assert.strictEqual((yield* kinesis.shards(foreign.arn)).length, 2)
      assert.strictEqual(yield* reasonOf(create()), "ResourceInUse")
    }).pipe(unlimited))

  it.effect("answer nothing but their description while they are made", () =>
    Effect.gen(function*() {
      const kinesis = yield* TestKinesis.TestKinesis
      const client = yield* KinesisClient.KinesisClient
      yield* create({ status: "CREATING" })
      assert.strictEqual((yield* client.describeStream(orders)).status, "CREATING")
      assert.strictEqual(yield* reasonOf(client.listShards(orders, Option.none())), "ResourceInUse")
      yield* kinesis.setStatus("orders", "ACTIVE")
      assert.strictEqual((yield* listAll).flat().length, 1)
    }).pipe(unlimited))
})

describe("calls", () => {
  it.effect("are logged with what was asked and answered", () =>
    Effect.gen(function*() {
      const kinesis = yield* TestKinesis.TestKinesis
      const client = yield* KinesisClient.KinesisClient
      yield* create({ shards: 2 })
      const puts = yield* putAll(["a", "b"])
      yield* listAll
      const iterator = yield* iteratorAt(Position.trimHorizon)
      yield* TestClock.adjust(5)
      yield* get(iterator, { limit: 1 })
      yield* Effect.exit(get("garbage", { shardId: shard1 }))
      yield* Effect.exit(client.describeStream({ name: "nothing", arn: Option.none() }))
      assert.deepStrictEqual(
        (yield* kinesis.calls).map((call) => [call.operation, call.stream, call.at]),
        [
          ["listShards", "orders", 0],
          ["getShardIterator", "orders", 0],
          ["getRecords", "orders", 5],
          ["getRecords", "orders", 5],
          ["describeStream", "nothing", 5]
        ]
      )
      assert.deepStrictEqual((yield* kinesis.callsOf("listShards"))[0]?.shardIds, [shard0, shard1])
      assert.deepStrictEqual((yield* kinesis.callsOf("getShardIterator"))[0]?.position, Position.trimHorizon)
      assert.deepStrictEqual(yield* kinesis.callsOf("getRecords", { stream: "orders", shardId: shard0 }), [{
        operation: "getRecords",
        stream: "orders",
        at: 5,
        error: Option.none(),
        shardId: shard0,
        iterator,
        limit: 1,
        sequenceNumbers: puts.slice(0, 1).map((put) => put.sequenceNumber),
        ended: false,
        millisBehindLatest: Option.some(5)
      }])
      const [failed] = yield* kinesis.callsOf("getRecords", { shardId: shard1 })
      assert.strictEqual((yield* failed?.error ?? Option.none()).reason, "InvalidArgument")
      yield* kinesis.clearCalls
      assert.deepStrictEqual(yield* kinesis.calls, [])
    }).pipe(unlimited))

  it.effect("can take their time, and one that is interrupted before has not been made", () =>
    Effect.gen(function*() {
      const kinesis = yield* TestKinesis.TestKinesis
      yield* create()
      const fiber = yield* Effect.fork(iteratorAt(Position.trimHorizon))
      yield* TestClock.adjust(99)
      assert.isTrue(Option.isNone(yield* Fiber.poll(fiber)))
      yield* TestClock.adjust(1)
      assert.isTrue(Exit.isSuccess(yield* Fiber.await(fiber)))
      const interrupted = yield* Effect.fork(iteratorAt(Position.trimHorizon))
      yield* TestClock.adjust(99)
      yield* Fiber.interrupt(interrupted)
      assert.strictEqual((yield* kinesis.calls).length, 1)
    }).pipe(Effect.provide(TestKinesis.layerWith({ latency: "100 millis" }))))

  it.effect("two layers are two Kinesis", () =>
    Effect.gen(function*() {
      const layer = TestKinesis.layerWith({})
      const streams = Effect.zipRight(create(), TestKinesis.TestKinesis)
      const first = yield* Effect.provide(streams, layer)
      const second = yield* Effect.provide(streams, Layer.fresh(layer))
      assert.notStrictEqual(first, second)
    }))
})
