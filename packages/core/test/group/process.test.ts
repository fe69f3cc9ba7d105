/** `process`: ordering, failures, bounds, and what becomes of records in hand when a shard goes. */
import { assert, describe, it } from "@effect/vitest"
import { KinesumerError, KinesumerEvent, KinesumerMetrics, Processing } from "@kinesumer/core"
import { Data, Deferred, Effect, Fiber, Metric, Ref, Schedule, TestClock } from "effect"
import { mostBetweenHostTurns } from "../utils/hostTurns.js"
import { committed, dataOf, failureOf, log, oneShard, putKeyed, shaky, start, steal } from "./processSupport.js"
import { member, names, pass, putTo, shardId, until, world } from "./support.js"

describe("process", () => {
  for (const mode of ["auto", "manual"] as const) {
    it.scoped(`handles every record once and commits it, in ${mode} mode`, () =>
      Effect.gen(function*() {
        const w = yield* oneShard
        yield* putTo(w, "orders", shardId(0), names("a", 1, 1_200))
        const m = yield* member(w, { commit: { mode, interval: "1 second" } })
        const done = yield* log
        yield* start(m, (record) => done.add(dataOf(record)))
        yield* until(Effect.map(done.size, (size) => size === 1_200))
        assert.deepStrictEqual(yield* done.all, names("a", 1, 1_200))
        yield* pass(2)
        assert.strictEqual(yield* committed(w), "a1200")
      }))
  }

  it.scoped("commits up to the first unfinished record, and delivers from there after a crash", () =>
    Effect.gen(function*() {
      const w = yield* oneShard
      yield* putTo(w, "orders", shardId(0), names("a", 1, 20))
      const m = yield* member(w, { memberId: "a" })
      const done = yield* log
      const running = yield* start(
        m,
        (record) => dataOf(record) === "a8" ? Effect.never : done.add(dataOf(record)),
        { ordering: "none" }
      )
      yield* until(Effect.map(done.size, (size) => size === 19))
      yield* pass(3)
      assert.strictEqual(yield* committed(w), "a7")
      yield* Fiber.interrupt(running)
      yield* m.close
      assert.strictEqual(yield* committed(w), "a7")
      const again = yield* log
      const next = yield* member(w, { memberId: "b" })
      yield* start(next, (record) => again.add(dataOf(record)))
      yield* until(Effect.map(again.size, (size) => size === 13))
      assert.deepStrictEqual(yield* again.all, names("a", 8, 20))
    }))

  it.scoped("goes on where it was after an interruption, and after a failure", () =>
    Effect.gen(function*() {
      const w = yield* oneShard
      yield* putTo(w, "orders", shardId(0), names("a", 1, 9))
      const m = yield* member(w)
      const done = yield* log
      const first = yield* start(m, (record) => dataOf(record) === "a4" ? Effect.never : done.add(dataOf(record)))
      yield* until(Effect.map(done.size, (size) => size === 3))
      yield* Fiber.interrupt(first)
      const second = yield* start(m, (record) => dataOf(record) === "a6" ? Effect.fail("no") : done.add(dataOf(record)))
      yield* pass(3)
      assert.instanceOf(failureOf(yield* Fiber.await(second)), Processing.RecordFailed)
      yield* start(m, (record) => done.add(dataOf(record)))
      yield* until(Effect.map(done.size, (size) => size === 9))
      assert.deepStrictEqual(yield* done.all, names("a", 1, 9))
    }))

  it.scoped("refuses a second run", () =>
    Effect.gen(function*() {
      const w = yield* oneShard
      const m = yield* member(w)
      yield* start(m, () => Effect.void)
      yield* TestClock.adjust("1 millis")
      const second = failureOf(yield* Effect.exit(m.service.process(() => Effect.void)))
      assert.instanceOf(second, KinesumerError.AlreadyRunning)
      assert.strictEqual(second.view, "process")
    }))
})

describe("ordering", () => {
  it.scoped("a slow key does not hold up the others, and the records behind it wait for it", () =>
    Effect.gen(function*() {
      const w = yield* oneShard
      yield* putKeyed(w, ["slow:1", "b:1", "slow:2", "c:1", "b:2", "c:2"])
      const m = yield* member(w)
      const done = yield* log
      const gate = yield* Deferred.make<void>()
      yield* start(
        m,
        (record) =>
          Effect.zipRight(dataOf(record) === "slow:1" ? Deferred.await(gate) : Effect.void, done.add(dataOf(record))),
        { ordering: "partitionKey" }
      )
      yield* until(Effect.map(done.size, (size) => size === 4))
      yield* pass(2)
      assert.deepStrictEqual([...(yield* done.all)].sort(), ["b:1", "b:2", "c:1", "c:2"])
      yield* Deferred.succeed(gate, undefined)
      yield* until(Effect.map(done.size, (size) => size === 6))
      assert.deepStrictEqual((yield* done.all).slice(4), ["slow:1", "slow:2"])
    }))

  it.scoped("keeps the order of a key across retries, whose wait takes no place from others", () =>
    Effect.gen(function*() {
      const w = yield* oneShard
      yield* putKeyed(w, ["a:1", "a:2", "b:1", "b:2"])
      const m = yield* member(w)
      const done = yield* log
      const tries = yield* Ref.make(0)
      yield* start(
        m,
        (record) =>
          dataOf(record) === "a:1"
            ? Effect.flatMap(
              Ref.updateAndGet(tries, (n) => n + 1),
              (n) => n < 3 ? Effect.fail("busy") : done.add("a:1")
            )
            : done.add(dataOf(record)),
        { ordering: "partitionKey", concurrency: 1, retry: Schedule.spaced("3 seconds") }
      )
      yield* until(Effect.map(done.size, (size) => size === 2))
      assert.deepStrictEqual(yield* done.all, ["b:1", "b:2"])
      yield* until(Effect.map(done.size, (size) => size === 4))
      assert.deepStrictEqual((yield* done.all).slice(2), ["a:1", "a:2"])
    }))

  it.scoped("keys that fail for ever leave every second turn to fresh ones", () =>
    Effect.gen(function*() {
      const w = yield* oneShard
      yield* putKeyed(w, ["p:1", "q:1", "a:1", "b:1", "c:1"])
      const m = yield* member(w)
      const done = yield* log
      yield* start(
        m,
        (record) =>
          ["p:1", "q:1"].includes(dataOf(record))
            ? Effect.delay(Effect.fail("no"), "100 millis")
            : done.add(dataOf(record)),
        { ordering: "partitionKey", concurrency: 1, retry: Schedule.forever }
      )
      yield* pass(3)
      assert.deepStrictEqual(yield* done.all, ["a:1", "b:1", "c:1"])
    }))

  it.scoped("shard: one at a time for each shard, and a shard that is stuck leaves places to the others", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders", shards: 3 })
      for (const index of [0, 1, 2]) yield* putTo(w, "orders", shardId(index), names(`${index}-`, 1, 60))
      const m = yield* member(w)
      const done = yield* log
      yield* start(
        m,
        (record) => record.shardId === shardId(0) ? Effect.never : done.add(dataOf(record)),
        { maxInFlight: 8 }
      )
      yield* until(Effect.map(done.size, (size) => size === 120))
      for (const index of [1, 2]) {
        assert.deepStrictEqual(
          (yield* done.all).filter((one) => one.startsWith(`${index}-`)),
          names(`${index}-`, 1, 60)
        )
      }
    }))

  it.scoped("holds no more than maxInFlight records, and runs no more than concurrency handlers", () =>
    Effect.gen(function*() {
      const w = yield* oneShard
      yield* putTo(w, "orders", shardId(0), names("a", 1, 200))
      const m = yield* member(w, { bufferSize: 50 })
      const running = yield* Ref.make(0)
      const most = yield* Ref.make(0)
      const done = yield* log
      yield* start(
        m,
        (record) =>
          Effect.gen(function*() {
            const now = yield* Ref.updateAndGet(running, (n) => n + 1)
            yield* Ref.update(most, (n) => Math.max(n, now))
            yield* Effect.sleep("300 millis")
            yield* Ref.update(running, (n) => n - 1)
            yield* done.add(dataOf(record))
          }),
        { ordering: "none", concurrency: 5, maxInFlight: 12 }
      )
      yield* until(Effect.map(done.size, (size) => size > 0))
      for (let step = 0; step < 20; step++) {
        const { bufferedRecords } = yield* m.service.health
        const read = new Set((yield* w.kinesis.callsOf("getRecords")).flatMap((call) => call.sequenceNumbers)).size
        assert.isAtMost(bufferedRecords, 50)
        assert.isAtMost(read - (yield* done.size), 50 + 12)
        yield* TestClock.adjust("200 millis")
      }
      yield* until(Effect.map(done.size, (size) => size === 200))
      assert.strictEqual(yield* Ref.get(most), 5)
    }))
})

describe("failures", () => {
  it.scoped("stop: fails with the record's name, its attempts and its error, and commits what came before", () =>
    Effect.gen(function*() {
      const w = yield* oneShard
      yield* putTo(w, "orders", shardId(0), names("a", 1, 5))
      const m = yield* member(w)
      const running = yield* start(
        m,
        (record) => dataOf(record) === "a3" ? Effect.fail("poison" as const) : Effect.void,
        { retry: Schedule.recurs(2) }
      )
      yield* pass(1)
      const error = failureOf(yield* Fiber.await(running))
      assert.instanceOf(error, Processing.RecordFailed)
      const third = (yield* w.kinesis.records("orders", shardId(0)))[2]
      assert.strictEqual(error.sequenceNumber, third?.sequenceNumber)
      assert.strictEqual(error.stream, "orders")
      assert.strictEqual(error.shardId, shardId(0))
      assert.strictEqual(error.attempts, 3)
      assert.strictEqual(error.error, "poison")
      yield* m.service.commit
      assert.strictEqual(yield* committed(w), "a2")
    }))

  it.effect("say what happened, whatever the error is", () =>
    Effect.sync(() => {
      class Nope extends Data.TaggedError("Nope")<{ readonly code: number }> {}
      const name = { stream: "orders", shardId: "shard", sequenceNumber: "7", subSequenceNumber: undefined }
      const recordFailed = (error: unknown) => new Processing.RecordFailed({ ...name, attempts: 2, error }).message
      assert.match(recordFailed(new Nope({ code: 7 })), /^Record orders\/shard\/7 failed at attempt 2: Nope\. /)
      assert.match(recordFailed({ code: 7 }), /: {"code":7}\. /)
      assert.match(recordFailed(new Error("no room")), /: no room\. /)
      assert.match(recordFailed(new Processing.HandlerDefect({ defect: "a bug" })), /: The handler died: a bug\. /)
      assert.match(
        new Processing.DeadLetterFailed({ ...name, error: new Processing.HandlerDefect({ defect: "a bug" }) }).message,
        /^The dead-letter effect for record orders\/shard\/7 failed: a bug\. /
      )
      const failures = [{ record: name, error: "no" }]
      assert.strictEqual(
        new Processing.BatchFailed({ failures }).message,
        "1 record of a batch failed; the first one, 7: no"
      )
    }))

  for (
    const [what, handler, tag] of [
      ["fails", Effect.fail({ _tag: "Poison" as const }), "Poison"],
      ["dies", Effect.die("a bug"), "HandlerDefect"],
      ["interrupts itself", Effect.interrupt, "HandlerDefect"],
      ["takes too long", Effect.never, "HandlerTimeout"]
    ] as const
  ) {
    it.scoped(`a handler that ${what} is tried again, dead-lettered, told, and then passed`, () =>
      Effect.gen(function*() {
        const w = yield* oneShard
        yield* putTo(w, "orders", shardId(0), names("a", 1, 5))
        const m = yield* member(w, { app: `app-${what}` })
        const done = yield* log
        const letters = yield* Ref.make<ReadonlyArray<readonly [string, string, number]>>([])
        yield* start(
          m,
          (record): Effect.Effect<void, { readonly _tag: "Poison" }> =>
            dataOf(record) === "a3" ? handler : done.add(dataOf(record)),
          {
            timeout: "1 second",
            retry: Schedule.recurs(1),
            onFailure: ({ attempts, error, record }) =>
              Ref.update(letters, (all) => [...all, [dataOf(record), error._tag, attempts] as const])
          }
        )
        yield* until(Effect.map(done.size, (size) => size === 4))
        assert.deepStrictEqual(yield* done.all, ["a1", "a2", "a4", "a5"])
        assert.deepStrictEqual(yield* Ref.get(letters), [["a3", tag, 2]])
        yield* pass(2)
        assert.strictEqual(yield* committed(w, 0, `app-${what}`), "a5")
        const events = yield* m.events
        assert.strictEqual(events.filter(KinesumerEvent.is("HandlerFailed")).length, 2)
        const [letter] = events.filter(KinesumerEvent.is("DeadLettered"))
        assert.strictEqual(letter?.attempts, 2)
        const counted = yield* Metric.value(
          KinesumerMetrics.deadLetters.pipe(Metric.tagged("app", `app-${what}`), Metric.tagged("stream", "orders"))
        )
        assert.strictEqual(counted.count, 1)
      }))
  }

  for (
    const [what, letter] of [["fails", Effect.fail("full")], ["dies", Effect.die("full")]] as const
  ) {
    it.scoped(`a dead-letter effect that ${what} ends the whole with a typed error, and the record comes again`, () =>
      Effect.gen(function*() {
        const w = yield* oneShard
        yield* putTo(w, "orders", shardId(0), names("a", 1, 5))
        const m = yield* member(w)
        const running = yield* start(
          m,
          (record) => dataOf(record) === "a3" ? Effect.fail("poison") : Effect.void,
          { onFailure: (): Effect.Effect<void, string> => letter }
        )
        yield* pass(1)
        const error = failureOf(yield* Fiber.await(running))
        assert.instanceOf(error, Processing.DeadLetterFailed)
        const third = (yield* w.kinesis.records("orders", shardId(0)))[2]
        assert.strictEqual(error.sequenceNumber, third?.sequenceNumber)
        assert.strictEqual(error.shardId, shardId(0))
        const done = yield* log
        yield* start(m, (record) => done.add(dataOf(record)))
        yield* until(Effect.map(done.size, (size) => size === 3))
        assert.deepStrictEqual(yield* done.all, ["a3", "a4", "a5"])
      }))
  }

  for (const nothing of [undefined, null]) {
    it.scoped(`a handler that fails with ${nothing} has failed`, () =>
      Effect.gen(function*() {
        const w = yield* oneShard
        yield* putTo(w, "orders", shardId(0), names("a", 1, 3))
        const m = yield* member(w)
        const running = yield* start(m, (record) => dataOf(record) === "a2" ? Effect.fail(nothing) : Effect.void)
        yield* pass(1)
        assert.instanceOf(failureOf(yield* Fiber.await(running)), Processing.RecordFailed)
        yield* m.service.commit
        assert.strictEqual(yield* committed(w), "a1")
      }))
  }

  it.scoped("ends with the group, and leaves no fiber behind", () =>
    Effect.gen(function*() {
      const w = yield* oneShard
      yield* putTo(w, "orders", shardId(0), names("a", 1, 5))
      const m = yield* member(w)
      const ended = yield* log
      const running = yield* start(
        m,
        (record) => Effect.onInterrupt(Effect.never, () => ended.add(dataOf(record))),
        { ordering: "none" }
      )
      yield* pass(1)
      yield* m.close
      yield* Fiber.join(running)
      assert.deepStrictEqual([...(yield* ended.all)].sort(), names("a", 1, 5))
    }))
})

describe("a retry", () => {
  /** What a fiber has of its ancestors: the most values of one of its refs. */
  const depth = Effect.map(
    Effect.getFiberRefs,
    (refs) => Math.max(...[...refs.locals.values()].map(({ length }) => length))
  )

  for (const ordering of ["shard", "partitionKey", "none"] as const) {
    it.scoped(`costs what the first try does, however often it comes, with ordering "${ordering}"`, () =>
      Effect.gen(function*() {
        const w = yield* oneShard
        yield* putTo(w, "orders", shardId(0), names("a", 1, 20))
        const m = yield* member(w)
        const depths = yield* Ref.make<ReadonlyArray<number>>([])
        yield* start(
          m,
          () =>
            depth.pipe(
              Effect.tap((one) => Ref.update(depths, (all) => [...all, one])),
              Effect.delay("1 millis"),
              Effect.zipRight(Effect.fail("no"))
            ),
          { ordering, retry: Schedule.spaced("10 millis"), concurrency: 4, timeout: "1 second" }
        )
        // All 20 are tried at the same time where none waits for another.
        yield* Effect.repeatN(TestClock.adjust("20 millis"), ordering === "none" ? 10 : 100)
        const all = yield* Ref.get(depths)
        assert.isAtLeast(all.length, 50)
        assert.strictEqual(Math.max(...all), all[0])
      }))
  }
})

describe("the process it runs in", () => {
  for (const onFailure of ["fails", "is well"] as const) {
    it.scoped(`comes to its timers while each of many records ${onFailure} at once`, () =>
      Effect.gen(function*() {
        const w = yield* oneShard
        yield* putTo(w, "orders", shardId(0), names("a", 1, 2_000))
        const m = yield* member(w)
        const tries = yield* Ref.make(0)
        const dead = yield* Ref.make(0)
        const running = Effect.zipRight(
          start(
            m,
            () =>
              Effect.zipRight(
                Ref.update(tries, (count) => count + 1),
                onFailure === "fails" ? Effect.fail("no") : Effect.void
              ),
            {
              ordering: "none",
              retry: Schedule.recurs(3),
              onFailure: () => Ref.update(dead, (count) => count + 1)
            }
          ),
          until(Effect.map(Ref.get(tries), (count) => count === (onFailure === "fails" ? 8_000 : 2_000)))
        )
        assert.isAtMost(yield* mostBetweenHostTurns(tries, running), 300)
      }))
  }
})

describe("a shard that goes", () => {
  it.scoped("is handed over when what was taken is finished, and nothing is handled twice", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders", shards: 2 })
      for (const index of [0, 1]) yield* putTo(w, "orders", shardId(index), names(`${index}-`, 1, 40))
      const done = yield* log
      const handler = (id: string) => (record: Parameters<typeof dataOf>[0]) =>
        Effect.delay(done.add(`${id} ${dataOf(record)}`), "100 millis")
      const options = { ordering: "none", concurrency: 2, maxInFlight: 10 } as const
      const a = yield* member(w, { memberId: "a" })
      yield* start(a, handler("a"), options)
      yield* until(Effect.map(done.size, (size) => size > 5))
      const b = yield* member(w, { memberId: "b" })
      yield* start(b, handler("b"), options)
      yield* until(Effect.map(done.size, (size) => size >= 80))
      yield* pass(2)
      const all = yield* done.all
      assert.strictEqual(all.length, 80)
      assert.strictEqual(new Set(all.map((line) => line.slice(2))).size, 80)
      assert.isTrue(all.some((line) => line.startsWith("b")))
    }))

  it.scoped("a handler that does not end holds a hand-over up for one sync interval, and is interrupted", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders", shards: 2 })
      for (const index of [0, 1]) yield* putTo(w, "orders", shardId(index), names(`${index}-`, 1, 3))
      const a = yield* member(w, { memberId: "a" })
      const cut = yield* log
      const running = yield* start(
        a,
        (record) => Effect.onInterrupt(Effect.never, () => cut.add(dataOf(record)))
      )
      yield* pass(1)
      const b = yield* member(w, { memberId: "b" })
      const done = yield* log
      yield* start(b, (record) => done.add(dataOf(record)))
      yield* until(Effect.map(done.size, (size) => size === 3), 6)
      assert.strictEqual((yield* cut.all).length, 1)
      assert.strictEqual((yield* a.service.assignment).length, 1)
      // The rest of it goes on.
      assert.isNull(yield* Effect.map(Fiber.poll(running), (exit) => exit._tag === "Some" ? exit.value : null))
    }))

  it.scoped("lost to another member: its handlers are interrupted, the rest goes on, and it is no failure", () =>
    Effect.gen(function*() {
      const w = yield* world()
      yield* w.kinesis.createStream({ name: "orders", shards: 2 })
      const m = yield* member(w)
      const cut = yield* log
      const done = yield* log
      const letters = yield* log
      yield* start(
        m,
        (record) =>
          record.shardId === shardId(0)
            ? Effect.onInterrupt(Effect.never, () => cut.add(dataOf(record)))
            : done.add(dataOf(record)),
        { ordering: "none", concurrency: 3, onFailure: ({ record }) => letters.add(dataOf(record)) }
      )
      yield* putTo(w, "orders", shardId(0), names("a", 1, 3))
      yield* pass(2)
      yield* steal(w)
      yield* until(Effect.map(cut.size, (size) => size === 3), 20)
      yield* putTo(w, "orders", shardId(1), names("b", 1, 3))
      yield* until(Effect.map(done.size, (size) => size === 3))
      assert.deepStrictEqual(yield* letters.all, [])
    }))

  it.scoped("begins nothing while the member may have been taken for dead, and goes on under a later epoch", () =>
    Effect.gen(function*() {
      const { broken, m } = yield* shaky(12)
      const begun = yield* log
      const done = yield* log
      yield* start(
        m,
        (record) =>
          Effect.zipRight(
            begun.add(`${record.epoch} ${dataOf(record)}`),
            Effect.delay(done.add(dataOf(record)), "2 seconds")
          )
      )
      yield* until(Effect.map(done.size, (size) => size === 1))
      yield* Ref.set(broken, true)
      yield* pass(8)
      const before = yield* begun.size
      yield* pass(20)
      assert.strictEqual(yield* begun.size, before)
      yield* Ref.set(broken, false)
      yield* until(Effect.map(done.all, (all) => all.includes("a12")), 60)
      assert.deepStrictEqual([...new Set(yield* done.all)], names("a", 1, 12))
      assert.isTrue((yield* begun.all).at(-1)?.startsWith("2 "))
    }))
})
