/** What a commit covers: records whose own run came back for more, or that were marked, and nothing else. */
import { assert, describe, it } from "@effect/vitest"
import { KinesumerError, Position } from "@kinesumer/core"
import type { KinesumerConfig, KinesumerRecord } from "@kinesumer/core"
import { Faults } from "@kinesumer/test-kit"
import { Effect, Exit, Fiber, Option, Ref, Schedule, Stream } from "effect"
import { datas, names, pass, putTo, shardId, type TestMember, until } from "../group/support.js"
import {
  bothViews,
  commitsOf,
  crash,
  eventsOf,
  faulty,
  type FaultyWorld,
  faultyWorld,
  leap,
  manual,
  namesOf,
  positionOf,
  reader,
  runOf,
  type View
} from "./reading-support.js"

const a = shardId(0)

const withRecords = (count: number) =>
  Effect.gen(function*() {
    const w = yield* faultyWorld()
    yield* w.kinesis.createStream({ name: "orders" })
    yield* putTo(w, "orders", a, names("a", 1, count))
    return w
  })

const nameOf = (record: KinesumerRecord.KinesumerRecord) => datas([record]).join()

const stored = (w: FaultyWorld) => Effect.flatMap(positionOf(w), (position) => namesOf(w, Option.toArray(position)))

/** A member that takes the same place, and what it is handed. */
const startAgain = (w: FaultyWorld, options: Partial<KinesumerConfig.KinesumerOptions> = {}) =>
  Effect.gen(function*() {
    const m = yield* faulty(w, options)
    yield* m.consume()
    return m
  })

describe("stop-counts-the-record-in-hand", () => {
  const oneByOne = { polling: { limit: 1, idleInterval: "200 millis" } } satisfies Partial<
    KinesumerConfig.KinesumerOptions
  >

  /** The fifth record is in hand, and `onFifth` is what becomes of it. */
  const untilFifth = (view: View, onFifth: Effect.Effect<void, string>) =>
    Effect.gen(function*() {
      const w = yield* withRecords(10)
      const m = yield* faulty(w, { ...oneByOne, closeTimeout: "4 seconds" })
      const run = yield* reader(m, view, (record) => nameOf(record) === "a5" ? onFifth : Effect.void)
      return { w, m, run }
    })

  const assertResumes = (w: FaultyWorld) =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* stored(w), ["a4"])
      const again = yield* startAgain(w)
      yield* until(Effect.map(again.delivered, (all) => all.length >= 6), 10)
      assert.deepStrictEqual(datas(yield* again.delivered), names("a", 5, 10))
    })

  /** Before anything of it is handled anew, nothing at or after the fifth was asked to be written. */
  const assertNothingAbove = (w: FaultyWorld) =>
    Effect.gen(function*() {
      const commits = yield* Effect.flatMap(commitsOf(w), (positions) => namesOf(w, positions))
      assert.isTrue(commits.every((name) => names("a", 1, 4).includes(name)), commits.join())
    })

  for (const view of bothViews) {
    it.scoped(`${view}: the handler fails, and the member is closed`, () =>
      Effect.gen(function*() {
        const { m, run, w } = yield* untilFifth(view, Effect.fail("broken"))
        const fiber = yield* Effect.fork(run.run)
        yield* until(Effect.map(Fiber.poll(fiber), Option.isSome), 5)
        assert.deepStrictEqual(yield* Fiber.await(fiber), Exit.fail("broken"))
        yield* m.close
        yield* assertNothingAbove(w)
        yield* assertResumes(w)
      }))

    it.scoped(`${view}: the handler fails, and nothing is closed for a while`, () =>
      Effect.gen(function*() {
        const { m, run, w } = yield* untilFifth(view, Effect.fail("broken"))
        yield* Effect.fork(run.run)
        yield* pass(5)
        yield* assertNothingAbove(w)
        yield* m.close
        yield* assertNothingAbove(w)
        yield* assertResumes(w)
      }))

    it.scoped(`${view}: closing the scope interrupts the handler`, () =>
      Effect.gen(function*() {
        const { m, run, w } = yield* untilFifth(view, Effect.never)
        yield* Effect.forkIn(run.run, m.scope)
        yield* until(Effect.map(run.count, (count) => count === 5), 5)
        yield* m.close
        yield* assertNothingAbove(w)
        yield* assertResumes(w)
      }))

    it.scoped(`${view}: the process is killed`, () =>
      Effect.gen(function*() {
        const { m, run, w } = yield* untilFifth(view, Effect.never)
        yield* Effect.fork(run.run)
        yield* until(Effect.map(run.count, (count) => count === 5), 5)
        yield* pass(1.2)
        yield* crash(w, m)
        yield* w.faults.healAll
        yield* assertNothingAbove(w)
        yield* assertResumes(w)
      }))

    it.scoped(`${view}: the handler never returns, and closing runs out of time`, () =>
      Effect.gen(function*() {
        const { m, run, w } = yield* untilFifth(view, Effect.uninterruptible(Effect.sleep("1 hour")))
        yield* Effect.forkDaemon(run.run)
        yield* until(Effect.map(run.count, (count) => count === 5), 5)
        yield* pass(1.2)
        const held = yield* w.faults.addStore({ on: ["releaseLeases", "deregisterMember"] }, Faults.hang)
        const closing = yield* Effect.fork(m.close)
        yield* pass(4.2)
        assert.isTrue(Option.isSome(yield* Fiber.poll(closing)))
        yield* held.heal
        yield* assertNothingAbove(w)
        yield* assertResumes(w)
      }))

    it.scoped(`${view}: manual, what was delivered after the last mark comes again`, () =>
      Effect.gen(function*() {
        const w = yield* withRecords(10)
        const m = yield* faulty(w, { ...oneByOne, ...manual })
        const run = yield* reader(m, view)
        yield* Effect.fork(run.run)
        yield* until(Effect.map(run.count, (count) => count >= 3), 5)
        yield* m.service.mark((yield* run.seen).slice(0, 3))
        yield* until(Effect.map(run.count, (count) => count >= 8), 5)
        yield* pass(1.2)
        yield* m.close
        const commits = yield* Effect.flatMap(commitsOf(w), (positions) => namesOf(w, positions))
        assert.deepStrictEqual(commits.at(-1), "a3")
        assert.isTrue(commits.every((name) => names("a", 1, 3).includes(name)), commits.join())
        const again = yield* startAgain(w)
        yield* until(Effect.map(again.delivered, (all) => all.length >= 7), 10)
        assert.deepStrictEqual(datas(yield* again.delivered), names("a", 4, 10))
      }))

    it.scoped(`${view}: manual, the end of a closed shard waits for the marks`, () =>
      Effect.gen(function*() {
        const w = yield* withRecords(10)
        yield* w.kinesis.split("orders", a)
        const m = yield* faulty(w, manual)
        const run = yield* reader(m, view)
        yield* Effect.fork(run.run)
        yield* until(Effect.map(m.service.health, ({ shards }) => shards.some(({ ending }) => ending)), 5)
        yield* until(Effect.map(run.seen, (all) => all.length === 10), 1)
        yield* m.service.mark((yield* run.seen).slice(0, 3))
        yield* pass(2)
        yield* m.service.commit
        yield* m.close
        assert.deepStrictEqual(yield* Effect.flatMap(commitsOf(w), (positions) => namesOf(w, positions)), ["a3"])
        const again = yield* startAgain(w)
        yield* until(Effect.map(again.delivered, (all) => all.length >= 7), 10)
        assert.deepStrictEqual(datas(yield* again.delivered), names("a", 4, 10))
        yield* until(Effect.map(stored(w), (names) => names.join() === "end"), 3)
      }))
  }
})

describe("failed-batch-marked-by-the-next-pull", () => {
  const byFives = { polling: { limit: 5, idleInterval: "200 millis" } } satisfies Partial<
    KinesumerConfig.KinesumerOptions
  >

  /** Fails on the third record, the first time. What each try was handed is noted. */
  const failingOnce = (fault: Effect.Effect<void, string>) =>
    Effect.map(
      Effect.all([Ref.make<ReadonlyArray<string>>([]), Ref.make(false)]),
      ([seen, failed]) => ({
        seen: Ref.get(seen),
        handle: (record: KinesumerRecord.KinesumerRecord) =>
          Effect.gen(function*() {
            yield* Ref.update(seen, (all) => [...all, nameOf(record)])
            if (nameOf(record) === "a3" && !(yield* Ref.getAndSet(failed, true))) yield* fault
          })
      })
    )

  /** Once more from the third record or before, in order, and the log has no commit of it before. */
  const assertAgain = (w: FaultyWorld, seen: Effect.Effect<ReadonlyArray<string>>) =>
    Effect.gen(function*() {
      yield* until(Effect.map(seen, (all) => all.at(-1) === "a10"), 10)
      assert.deepStrictEqual(yield* seen, [...names("a", 1, 3), ...names("a", 1, 10)])
      yield* until(Effect.map(stored(w), (names) => names.join() === "a10"), 3)
    })

  type Handle = (record: KinesumerRecord.KinesumerRecord) => Effect.Effect<void, string>

  const handled = (m: TestMember, view: View, handle: Handle) => runOf(m, view, Stream.mapEffect(handle))

  const ways: Readonly<
    Record<string, (m: TestMember, view: View, handle: Handle) => Effect.Effect<unknown, unknown>>
  > = {
    "the program is run again": (m, view, handle) =>
      Effect.retry(Stream.runDrain(handled(m, view, handle)), { times: 1 }),
    "the program is run again a while later": (m, view, handle) =>
      Effect.retry(Stream.runDrain(handled(m, view, handle)), Schedule.spaced("3 seconds")),
    "the stream is retried": (m, view, handle) =>
      Stream.runDrain(Stream.retry(handled(m, view, handle), Schedule.recurs(1))),
    "the error is caught and the stream is run anew": (m, view, handle) =>
      Stream.runDrain(Stream.catchAll(handled(m, view, handle), () => handled(m, view, handle)))
  }

  for (const view of bothViews) {
    for (const [name, way] of Object.entries(ways)) {
      it.scoped(`${view}: ${name}`, () =>
        Effect.gen(function*() {
          const w = yield* withRecords(10)
          const m = yield* faulty(w, byFives)
          const { handle, seen } = yield* failingOnce(Effect.fail("broken"))
          const fiber = yield* Effect.fork(way(m, view, handle))
          yield* until(Effect.map(seen, (all) => all.includes("a3")), 5)
          assert.deepStrictEqual(yield* commitsOf(w), [])
          yield* assertAgain(w, seen)
          yield* Fiber.interrupt(fiber)
        }))
    }

    it.scoped(`${view}: interrupted in the third record, and forked anew`, () =>
      Effect.gen(function*() {
        const w = yield* withRecords(10)
        const m = yield* faulty(w, byFives)
        const { handle, seen } = yield* failingOnce(Effect.never)
        const first = yield* Effect.fork(Stream.runDrain(handled(m, view, handle)))
        yield* until(Effect.map(seen, (all) => all.includes("a3")), 5)
        yield* pass(2)
        yield* Fiber.interrupt(first)
        yield* pass(2)
        assert.deepStrictEqual(yield* commitsOf(w), [])
        const second = yield* Effect.fork(Stream.runDrain(handled(m, view, handle)))
        yield* assertAgain(w, seen)
        yield* Fiber.interrupt(second)
      }))

    it.scoped(`${view}: three are taken, then it is run again`, () =>
      Effect.gen(function*() {
        const w = yield* withRecords(10)
        const m = yield* faulty(w, byFives)
        const taken = yield* Ref.make<ReadonlyArray<string>>([])
        const taking = yield* Effect.fork(Stream.runForEach(
          runOf(m, view, Stream.take(3)),
          (record) => Ref.update(taken, (all) => [...all, nameOf(record)])
        ))
        yield* pass(3)
        assert.deepStrictEqual(yield* Ref.get(taken), names("a", 1, 3))
        yield* Fiber.interrupt(taking)
        assert.deepStrictEqual(yield* commitsOf(w), [])
        const run = yield* reader(m, view)
        yield* Effect.fork(run.run)
        yield* until(Effect.map(run.count, (count) => count >= 10), 5)
        assert.deepStrictEqual(yield* run.datas, names("a", 1, 10))
      }))

    it.scoped(`${view}: a second run beside the first is refused, and does not disturb it`, () =>
      Effect.gen(function*() {
        const w = yield* withRecords(10)
        const m = yield* faulty(w, byFives)
        const first = yield* reader(m, view)
        yield* Effect.fork(first.run)
        yield* until(Effect.map(first.count, (count) => count > 0), 5)
        for (const other of bothViews) {
          const exit = yield* Effect.exit(Stream.runDrain(runOf(m, other, (records) => records)))
          assert.deepStrictEqual(exit, Exit.fail(new KinesumerError.AlreadyRunning({ view })))
        }
        yield* until(Effect.map(first.count, (count) => count >= 10), 5)
        assert.deepStrictEqual(yield* first.datas, names("a", 1, 10))
      }))
  }

  it.scoped("one of the streams of single shards fails: the others go on, and it begins again", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* w.kinesis.createStream({ name: "orders", shards: 2 })
      yield* putTo(w, "orders", a, names("a", 1, 10))
      yield* putTo(w, "orders", shardId(1), names("b", 1, 10))
      const m = yield* faulty(w, byFives)
      const { handle, seen } = yield* failingOnce(Effect.fail("broken"))
      const fiber = yield* Effect.fork(Stream.runDrain(Stream.flatMap(
        m.service.shards,
        (shard) => Stream.retry(Stream.mapEffect(shard.records, handle), Schedule.spaced("2 seconds")),
        { concurrency: "unbounded" }
      )))
      yield* until(Effect.map(seen, (all) => all.includes("b10")), 5)
      yield* pass(1.2)
      assert.deepStrictEqual(yield* commitsOf(w, a), [])
      assert.deepStrictEqual(
        yield* Effect.flatMap(
          positionOf(w, shardId(1)),
          (position) => namesOf(w, Option.toArray(position), shardId(1))
        ),
        ["b10"]
      )
      yield* until(Effect.map(seen, (all) => all.includes("a10")), 5)
      const all = yield* seen
      assert.deepStrictEqual(all.filter((name) => name.startsWith("b")), names("b", 1, 10))
      assert.deepStrictEqual(all.filter((name) => name.startsWith("a")), [...names("a", 1, 3), ...names("a", 1, 10)])
      yield* Fiber.interrupt(fiber)
    }))

  for (const view of bothViews) {
    it.scoped(`${view}: manual, a mark that is left out holds the position`, () =>
      Effect.gen(function*() {
        const w = yield* withRecords(10)
        const m = yield* faulty(w, { ...byFives, ...manual })
        const run = yield* reader(m, view)
        yield* Effect.fork(run.run)
        yield* until(Effect.map(run.count, (count) => count >= 10), 5)
        const all = yield* run.seen
        // Later ones first, and in pieces.
        for (const index of [8, 3, 4, 9, 1, 0]) yield* m.service.mark(all.slice(index, index + 1))
        yield* m.service.commit
        yield* pass(2)
        assert.deepStrictEqual(yield* Effect.flatMap(commitsOf(w), (positions) => namesOf(w, positions)), ["a2"])
        const { shards } = yield* m.service.health
        assert.deepStrictEqual(
          yield* namesOf(w, shards.flatMap(({ committed, delivered, processed }) => [committed, processed, delivered])),
          ["a2", "a2", "a10"]
        )
        yield* crash(w, m)
        yield* w.faults.healAll
        const again = yield* startAgain(w)
        yield* until(Effect.map(again.delivered, (all) => all.length >= 8), 10)
        assert.deepStrictEqual(datas(yield* again.delivered), names("a", 3, 10))
      }))
  }

  it.scoped(`manual, nothing of the first slice is marked for a hundred slices`, () =>
    Effect.gen(function*() {
      const w = yield* withRecords(500)
      const m = yield* faulty(w, {
        ...manual,
        syncInterval: "10 seconds",
        livenessTimeout: "1 minute",
        bufferSize: 20,
        polling: { limit: 5, idleInterval: "200 millis" }
      })
      const held = yield* Ref.make(0)
      const run = yield* reader(m, "records", (record) =>
        Effect.gen(function*() {
          const { bufferedRecords } = yield* m.service.health
          yield* Ref.update(held, (most) => Math.max(most, bufferedRecords))
          if (!names("a", 1, 5).includes(nameOf(record))) yield* Effect.orDie(m.service.mark(record))
        }))
      const fiber = yield* Effect.fork(run.run)
      yield* leap(40)
      assert.deepStrictEqual(yield* run.datas, names("a", 1, 500))
      yield* m.service.commit
      assert.deepStrictEqual(yield* commitsOf(w), [])
      assert.isAtMost(yield* Ref.get(held), 20)
      const { shards } = yield* m.service.health
      assert.deepStrictEqual(shards.map(({ processed }) => processed), [Position.trimHorizon])
      assert.deepStrictEqual(yield* namesOf(w, shards.map(({ delivered }) => delivered)), ["a500"])
      assert.deepStrictEqual(yield* eventsOf(m, "CommitFailed"), [])
      yield* Fiber.interrupt(fiber)
      yield* crash(w, m)
      yield* w.faults.healAll
      const again = yield* startAgain(w)
      yield* until(Effect.map(again.delivered, (all) => all.length >= 1), 10)
      assert.deepStrictEqual(datas(yield* again.delivered), names("a", 1, 500))
    }))
})
