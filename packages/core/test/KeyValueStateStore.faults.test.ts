import { Error as PlatformError, KeyValueStore } from "@effect/platform"
import { assert, describe, it } from "@effect/vitest"
import type { StateStore } from "@kinesumer/core"
import { KeyValueStateStore, Position } from "@kinesumer/core"
import { Effect, Exit, FastCheck, Fiber, Option, TestClock } from "effect"

const alice: StateStore.Owner = { memberId: "alice", incarnation: "1" }

/** Values that outlive a store, and a way to get between it and them. */
const makeValues = () => {
  const map = new Map<string, string>()
  const written: Array<{ readonly key: string; readonly text: string }> = []
  const faults: {
    set: (key: string, text: string) => Effect.Effect<void, PlatformError.PlatformError>
    get: (key: string) => Effect.Effect<void, PlatformError.PlatformError>
  } = { set: () => Effect.void, get: () => Effect.void }
  const store = KeyValueStore.makeStringOnly({
    get: (key) => Effect.map(faults.get(key), () => Option.fromNullable(map.get(key))),
    set: (key, text) =>
      Effect.map(faults.set(key, text), () => {
        written.push({ key, text })
        map.set(key, text)
      }),
    remove: (key) => Effect.sync(() => map.delete(key)),
    clear: Effect.sync(() => map.clear()),
    size: Effect.sync(() => map.size)
  })
  return {
    map,
    written,
    faults,
    /** A new process. */
    open: Effect.provideService(KeyValueStateStore.make, KeyValueStore.KeyValueStore, store)
  }
}

type Store = StateStore.StateStore["Type"]

const acquire = (store: Store, ...shardIds: ReadonlyArray<string>) =>
  store.acquireLeases(
    "app",
    alice,
    shardIds.map((shardId) => ({ stream: "orders", shardId, takeFrom: Option.none(), epochAbove: 0 }))
  )

const commit = (store: Store, sequenceNumber: number, ...shardIds: ReadonlyArray<string>) =>
  store.commitCheckpoints(
    "app",
    alice,
    shardIds.map((shardId) => ({
      stream: "orders",
      shardId,
      epoch: 1,
      position: Position.afterSequence(`${sequenceNumber}`)
    }))
  )

const positions = (store: Store) =>
  Effect.map(
    store.listCheckpoints("app", "orders"),
    (rows) =>
      Object.fromEntries(rows.map(({ position, shardId }) => [
        shardId,
        Option.match(position, {
          onNone: () => 0,
          onSome: (position) => position._tag === "AfterSequence" ? Number(position.sequenceNumber) : position._tag
        })
      ]))
  )

const failed = (reason: PlatformError.SystemErrorReason, method = "set") =>
  new PlatformError.SystemError({ reason, module: "KeyValueStore", method })

describe("a torn write", () => {
  it.effect("gives way to the one before it, wherever it was cut", () =>
    Effect.gen(function*() {
      const values = makeValues()
      const first = yield* values.open
      yield* acquire(first, "s")
      yield* commit(first, 7, "s")
      yield* commit(first, 8, "s")
      const last = values.written.at(-1) ?? assert.fail("nothing was written")
      // Every place around the beginning, and every fifth after it.
      for (let length = 0; length < last.text.length; length += length < 12 ? 1 : 5) {
        const cut = last.text.slice(0, length)
        for (const torn of [cut, cut.padEnd(last.text.length, "\0")]) {
          values.map.set(last.key, torn)
          const next = yield* values.open
          assert.deepStrictEqual(yield* positions(next), { s: 7 }, torn)
        }
      }
      // And the store goes on from there.
      const next = yield* values.open
      yield* commit(next, 9, "s")
      assert.deepStrictEqual(yield* positions(yield* values.open), { s: 9 })
    }), 30_000)

  it.effect("leaves nothing behind if it was the first one", () =>
    Effect.gen(function*() {
      const values = makeValues()
      yield* acquire(yield* values.open, "s")
      const [first] = values.written
      values.map.set(first?.key ?? "", first?.text.slice(0, 40) ?? "")
      const next = yield* values.open
      assert.deepStrictEqual(yield* positions(next), {})
      yield* acquire(next, "s")
      assert.deepStrictEqual(yield* positions(yield* values.open), { s: 0 })
    }))

  it.effect("is no explanation if both slots are torn", () =>
    Effect.gen(function*() {
      const values = makeValues()
      const store = yield* values.open
      yield* acquire(store, "s")
      yield* commit(store, 7, "s")
      for (const { key } of values.written) values.map.set(key, "")
      const error = yield* Effect.flip(positions(yield* values.open))
      assert.strictEqual(error.reason, "MalformedRow")
    }))

  const crash = {
    /** Shards that each commit covers. */
    commits: FastCheck.array(FastCheck.uniqueArray(FastCheck.nat(5), { minLength: 1 }), { minLength: 1, maxLength: 8 }),
    /** The write that the crash comes in, and how much of it arrives. */
    write: FastCheck.nat(20),
    part: FastCheck.double({ min: 0, max: 1, noNaN: true })
  }

  it.effect.prop(
    "never loses what was answered, and never goes forwards",
    crash,
    ({ commits, part, write }) =>
      Effect.gen(function*() {
        const values = makeValues()
        const shardIds = Array.from({ length: 6 }, (_, index) => `s${index}`)
        const store = yield* values.open
        yield* acquire(store, ...shardIds)
        const crashAt = values.written.length + write
        values.faults.set = (key, text) =>
          Effect.suspend(() => {
            if (values.written.length < crashAt) return Effect.void
            if (values.written.length === crashAt) {
              values.map.set(key, text.slice(0, Math.floor(text.length * part)))
            }
            return Effect.die("killed")
          })
        const answered: Record<string, number> = Object.fromEntries(shardIds.map((shardId) => [shardId, 0]))
        const asked = { ...answered }
        for (const [index, covered] of commits.entries()) {
          const ids = covered.map((shard) => `s${shard}`)
          for (const id of ids) asked[id] = index + 1
          const exit = yield* Effect.exit(commit(store, index + 1, ...ids))
          if (Exit.isFailure(exit)) break
          for (const id of ids) answered[id] = index + 1
        }
        values.faults.set = () => Effect.void
        const found = yield* positions(yield* values.open)
        assert.deepStrictEqual(Object.keys(found).sort(), shardIds)
        for (const id of shardIds) {
          assert.include([answered[id], asked[id]], found[id], id)
        }
      }),
    30_000
  )
})

describe("a value that the store cannot have written", () => {
  it.effect("is MalformedRow, which names the key", () =>
    Effect.gen(function*() {
      const values = makeValues()
      const store = yield* values.open
      yield* acquire(store, "s")
      yield* commit(store, 7, "s")
      const { key, text } = values.written.at(-1) ?? assert.fail("nothing was written")
      const wrong = [
        "not JSON",
        "null",
        "{}",
        text.replace("\"format\":1", "\"format\":2"),
        text.replace("\"epoch\":1", "\"epoch\":-1"),
        text.replace("\"sequenceNumber\":\"7\"", "\"sequenceNumber\":\"07\""),
        text.replace("[\"app\",\"orders\"]", "[\"app\",\"payments\"]")
      ]
      for (const value of wrong) {
        assert.notStrictEqual(value, text)
        values.map.set(key, value)
        const error = yield* Effect.flip(positions(yield* values.open))
        assert.strictEqual(error.reason, "MalformedRow", value)
        assert.strictEqual(error.operation, "listCheckpoints")
        assert.include(error.detail, key)
      }
    }))
})

describe("an error of the key-value store", () => {
  it.effect("has the reason that says what to do", () =>
    Effect.gen(function*() {
      const reasons = {
        PermissionDenied: "AccessDenied",
        NotFound: "TableMissing",
        BadResource: "TableInvalid"
      } as const
      for (const [reason, expected] of Object.entries(reasons)) {
        const values = makeValues()
        values.faults.get = () => Effect.fail(failed(reason as keyof typeof reasons, "get"))
        const error = yield* Effect.flip((yield* values.open).listMembers("app"))
        assert.strictEqual(error.reason, expected)
        assert.strictEqual(error.operation, "listMembers")
      }
    }))

  it.effect("is tried again if it can pass", () =>
    Effect.gen(function*() {
      const values = makeValues()
      let left = 3
      values.faults.set = () => Effect.suspend(() => left-- > 0 ? Effect.fail(failed("Busy")) : Effect.void)
      const fiber = yield* Effect.fork(acquire(yield* values.open, "s"))
      yield* TestClock.adjust("2 seconds")
      const [answer] = yield* Fiber.join(fiber)
      assert.strictEqual(answer?._tag, "Acquired")
      assert.strictEqual(left, -1)
    }))

  it.effect("is answered for the rows of that value alone", () =>
    Effect.gen(function*() {
      const values = makeValues()
      const store = yield* values.open
      const shardIds = Array.from({ length: 20 }, (_, index) => `s${index}`)
      yield* acquire(store, ...shardIds)
      yield* commit(store, 1, "s7")
      const bad = values.written.at(-1)?.key.replace(/-[01]$/, "") ?? assert.fail("nothing was written")
      values.faults.set = (key) => key.startsWith(bad) ? Effect.fail(failed("PermissionDenied")) : Effect.void
      const answers = yield* commit(store, 2, ...shardIds)
      const failures = shardIds.filter((_, index) => answers[index]?._tag === "Failed")
      assert.include(failures, "s7")
      assert.isBelow(failures.length, 5)
      assert.strictEqual(answers.filter((answer) => answer._tag === "Committed").length, 20 - failures.length)
      // The failed write did not happen, and the store knows.
      const found = yield* positions(store)
      assert.strictEqual(found["s7"], 1)
      assert.deepStrictEqual(found, yield* positions(yield* values.open))
    }))

  it.effect("makes the store look again, since the write may have happened all the same", () =>
    Effect.gen(function*() {
      const values = makeValues()
      const store = yield* values.open
      yield* acquire(store, "s")
      values.faults.set = (key, text) =>
        Effect.suspend(() => {
          values.map.set(key, text)
          return Effect.fail(failed("PermissionDenied"))
        })
      const [answer] = yield* commit(store, 7, "s")
      assert.strictEqual(answer?._tag, "Failed")
      assert.deepStrictEqual(yield* positions(store), { s: 7 })
      values.faults.set = () => Effect.void
      yield* commit(store, 8, "s")
      assert.deepStrictEqual(yield* positions(yield* values.open), { s: 8 })
    }))
})

describe("cost", () => {
  it.effect("writes one small value for one commit among 10,000 shards, and none for one that says nothing new", () =>
    Effect.gen(function*() {
      const values = makeValues()
      const store = yield* values.open
      yield* acquire(store, ...Array.from({ length: 10_000 }, (_, index) => `shardId-${`${index}`.padStart(12, "0")}`))
      assert.strictEqual(values.written.length, 64)
      assert.isBelow(Math.max(...values.written.map(({ text }) => text.length)), 50_000)
      yield* commit(store, 7, "shardId-000000000042")
      assert.strictEqual(values.written.length, 65)
      yield* commit(store, 7, "shardId-000000000042")
      yield* commit(store, 6, "shardId-000000000042")
      assert.strictEqual(values.written.length, 65)
    }))

  it.effect("reads a value once", () =>
    Effect.gen(function*() {
      const values = makeValues()
      yield* acquire(yield* values.open, "s")
      let reads = 0
      values.faults.get = () =>
        Effect.sync(() => {
          reads++
        })
      const store = yield* values.open
      yield* positions(store)
      const first = reads
      yield* commit(store, 7, "s")
      yield* positions(store)
      assert.strictEqual(reads, first)
    }))
})

it.effect("takes no write back when its fiber is interrupted in the middle", () =>
  Effect.gen(function*() {
    const values = makeValues()
    const store = yield* values.open
    yield* acquire(store, "s")
    values.faults.set = () => Effect.sleep("1 second")
    const fiber = yield* Effect.fork(commit(store, 7, "s"))
    yield* TestClock.adjust("500 millis")
    const interruption = yield* Effect.fork(Fiber.interrupt(fiber))
    const next = yield* Effect.fork(positions(store))
    yield* TestClock.adjust("500 millis")
    yield* Fiber.join(interruption)
    assert.deepStrictEqual(yield* Fiber.join(next), { s: 7 })
  }))
