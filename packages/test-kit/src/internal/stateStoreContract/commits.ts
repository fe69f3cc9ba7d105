/** Commits: fenced by owner and epoch, never backwards, and final at the end of a shard. */
import { assert } from "@effect/vitest"
import * as Position from "@kinesumer/core/Position"
import * as Effect from "effect/Effect"
import type { Case } from "../../StateStoreContract.js"
import {
  acquired,
  acquireOne,
  alice,
  bob,
  commitOne,
  lease,
  makeCase,
  ownerOf,
  plainAnswer,
  plainPosition,
  plainRow,
  plainRows,
  requestOf,
  rowOf,
  some,
  stream,
  timestamp
} from "./fixture.js"

const committed = { answer: "Committed" }
const digits56 = "9".repeat(56)
const digits57 = `1${"0".repeat(56)}`

/** From the lowest to the highest. As text, most of them stand in another order. */
const ascending: ReadonlyArray<Position.Position> = [
  Position.trimHorizon,
  timestamp(0),
  timestamp(999),
  timestamp(1_700_000_000_000),
  timestamp(1_700_000_000_001),
  Position.afterSequence("9"),
  Position.afterSequence("10", 0),
  Position.afterSequence("10", 2),
  Position.afterSequence("10", 10),
  Position.afterSequence("10"),
  Position.afterSequence("11", 0),
  Position.afterSequence("49590338271490256608559692538361571095921575989136588898"),
  Position.afterSequence(digits56, 3),
  Position.afterSequence(digits56),
  Position.afterSequence(digits57),
  Position.afterSequence(`${digits57.slice(0, -1)}1`),
  Position.afterSequence("9".repeat(57)),
  Position.shardEnd
]

export const cases: ReadonlyArray<Case> = [
  makeCase("commits every kind of position under the current lease", (store, app) =>
    Effect.gen(function*() {
      const held = yield* lease(store, app, alice, "s")
      for (const position of ascending) {
        assert.deepStrictEqual(plainAnswer(yield* commitOne(store, app, alice, held, position)), committed)
        const row = some(yield* rowOf(store, app, "s"))
        assert.strictEqual(plainPosition(some(row.position)), plainPosition(position))
        assert.strictEqual(Position.compare(some(row.position), position), 0)
      }
    })),

  makeCase(
    "answers Committed to a position at or below the stored one, and keeps that",
    (store, app) =>
      Effect.gen(function*() {
        const held = yield* lease(store, app, alice, "s")
        for (const [index, position] of ascending.entries()) {
          yield* commitOne(store, app, alice, held, position)
          for (const lower of [...ascending.slice(Math.max(0, index - 2), index + 1), Position.trimHorizon]) {
            assert.deepStrictEqual(plainAnswer(yield* commitOne(store, app, alice, held, lower)), committed)
            const stored = some(some(yield* rowOf(store, app, "s")).position)
            assert.strictEqual(plainPosition(stored), plainPosition(position))
          }
        }
      })
  ),

  makeCase("keeps the highest of commits that overtake each other", (store, app) =>
    Effect.gen(function*() {
      const held = yield* lease(store, app, alice, "s")
      const numbers = [3, 11, 7, 1, 12, 9, 2, 10, 8, 5, 4, 6]
      const answers = yield* Effect.forEach(
        numbers,
        (n) => commitOne(store, app, alice, held, Position.afterSequence(`${n}`)),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(answers.map(plainAnswer), numbers.map(() => committed))
      assert.strictEqual(plainRow(some(yield* rowOf(store, app, "s"))).position, "after 12")
    })),

  makeCase(
    "refuses a commit by anybody but the owner, and under any epoch but the current one",
    (store, app) =>
      Effect.gen(function*() {
        const held = yield* lease(store, app, alice, "s", { epochAbove: 4 })
        yield* commitOne(store, app, alice, held, Position.afterSequence("5"))
        const lost = {
          answer: "Lost",
          row: { shardId: "s", position: "after 5", owner: "alice (1)", epoch: 5 }
        }
        const attempts = [
          [bob, 5],
          [ownerOf("alice", "2"), 5],
          [ownerOf("alice1", ""), 5],
          [alice, 4],
          [alice, 6],
          [alice, 0]
        ] as const
        for (const [owner, epoch] of attempts) {
          for (const position of [Position.afterSequence("9"), Position.afterSequence("1"), Position.shardEnd]) {
            const answer = yield* commitOne(store, app, owner, { ...held, epoch }, position)
            assert.deepStrictEqual(plainAnswer(answer), lost)
          }
        }
        assert.deepStrictEqual(plainRow(some(yield* rowOf(store, app, "s"))), lost.row)
      })
  ),

  makeCase("refuses a commit after the lease was given back", (store, app) =>
    Effect.gen(function*() {
      const held = yield* lease(store, app, alice, "s")
      yield* store.releaseLeases(app, alice, [held])
      const row = { shardId: "s", position: null, owner: null, epoch: 1 }
      for (const position of [Position.afterSequence("9"), Position.shardEnd]) {
        const answer = yield* commitOne(store, app, alice, held, position)
        assert.deepStrictEqual(plainAnswer(answer), { answer: "Lost", row })
      }
      assert.deepStrictEqual(plainRow(some(yield* rowOf(store, app, "s"))), row)
    })),

  makeCase("refuses the old owner after a take-over, whatever the position", (store, app) =>
    Effect.gen(function*() {
      const before = yield* lease(store, app, alice, "s")
      const now = yield* lease(store, app, bob, "s", { takeFrom: alice })
      const answer = yield* commitOne(store, app, alice, before, Position.shardEnd)
      const row = { shardId: "s", position: null, owner: "bob (1)", epoch: 2 }
      assert.deepStrictEqual(plainAnswer(answer), { answer: "Lost", row })
      assert.deepStrictEqual(
        plainAnswer(yield* commitOne(store, app, bob, now, Position.afterSequence("1"))),
        committed
      )
    })),

  makeCase("tells that a row is missing, and does not bring it back", (store, app) =>
    Effect.gen(function*() {
      const lost = { stream, shardId: "s", epoch: 1 }
      for (const position of [Position.afterSequence("1"), Position.shardEnd]) {
        assert.deepStrictEqual(plainAnswer(yield* commitOne(store, app, alice, lost, position)), { answer: "Missing" })
      }
      assert.deepStrictEqual(yield* store.listCheckpoints(app, stream), [])
    })),

  makeCase("gives the lease back with the end of a shard", (store, app) =>
    Effect.gen(function*() {
      const held = yield* lease(store, app, alice, "s")
      yield* commitOne(store, app, alice, held, Position.afterSequence(digits57))
      assert.deepStrictEqual(plainAnswer(yield* commitOne(store, app, alice, held, Position.shardEnd)), committed)
      assert.deepStrictEqual(
        plainRow(some(yield* rowOf(store, app, "s"))),
        { shardId: "s", position: "ShardEnd", owner: null, epoch: 1 }
      )
    })),

  makeCase(
    "answers Committed again where the answer to the end of a shard was lost",
    (store, app) =>
      Effect.gen(function*() {
        const held = yield* lease(store, app, alice, "s")
        yield* commitOne(store, app, alice, held, Position.shardEnd)
        for (const position of [Position.shardEnd, Position.afterSequence("7")]) {
          assert.deepStrictEqual(plainAnswer(yield* commitOne(store, app, alice, held, position)), committed)
        }
        assert.deepStrictEqual(
          plainRow(some(yield* rowOf(store, app, "s"))),
          { shardId: "s", position: "ShardEnd", owner: null, epoch: 1 }
        )
      })
  ),

  makeCase("never replaces the end of a shard, under no later epoch", (store, app) =>
    Effect.gen(function*() {
      const first = yield* lease(store, app, alice, "s")
      yield* commitOne(store, app, alice, first, Position.shardEnd)
      const row = acquired(yield* acquireOne(store, app, bob, requestOf("s")))
      assert.deepStrictEqual(plainRow(row), { shardId: "s", position: "ShardEnd", owner: "bob (1)", epoch: 2 })
      const late = yield* commitOne(store, app, alice, first, Position.shardEnd)
      assert.deepStrictEqual(plainAnswer(late), { answer: "Lost", row: plainRow(row) })
      const second = { stream, shardId: "s", epoch: 2 }
      const lower = yield* commitOne(store, app, bob, second, Position.afterSequence(digits57))
      assert.deepStrictEqual(plainAnswer(lower), committed)
      assert.deepStrictEqual(plainRow(some(yield* rowOf(store, app, "s"))), plainRow(row))
      const end = yield* commitOne(store, app, bob, second, Position.shardEnd)
      assert.deepStrictEqual(plainAnswer(end), committed)
      assert.deepStrictEqual(plainRow(some(yield* rowOf(store, app, "s"))), { ...plainRow(row), owner: null })
    })),

  makeCase("judges each commit by itself, and answers in their order", (store, app) =>
    Effect.gen(function*() {
      const [a, b, c, theirs] = [
        yield* lease(store, app, alice, "a"),
        yield* lease(store, app, alice, "b"),
        yield* lease(store, app, alice, "c"),
        yield* lease(store, app, bob, "theirs")
      ]
      yield* commitOne(store, app, alice, b, Position.afterSequence("10"))
      const answers = yield* store.commitCheckpoints(app, alice, [
        { ...theirs, position: Position.afterSequence("1") },
        { ...a, position: Position.afterSequence("2") },
        { ...a, shardId: "missing", position: Position.afterSequence("3") },
        { ...b, position: Position.afterSequence("9") },
        { ...c, position: Position.shardEnd }
      ])
      const bobs = { shardId: "theirs", position: null, owner: "bob (1)", epoch: 1 }
      assert.deepStrictEqual(
        answers.map(plainAnswer),
        [{ answer: "Lost", row: bobs }, committed, { answer: "Missing" }, committed, committed]
      )
      assert.deepStrictEqual(plainRows(yield* store.listCheckpoints(app, stream)), [
        { shardId: "a", position: "after 2", owner: "alice (1)", epoch: 1 },
        { shardId: "b", position: "after 10", owner: "alice (1)", epoch: 1 },
        { shardId: "c", position: "ShardEnd", owner: null, epoch: 1 },
        bobs
      ])
    })),

  makeCase("lets no commit of an old owner through while leases change hands", (store, app) =>
    Effect.gen(function*() {
      let previous = ownerOf("owner-0")
      let held = yield* lease(store, app, previous, "s")
      for (let round = 1; round <= 5; round++) {
        const next = ownerOf(`owner-${round}`)
        const stale = held
        const before = some(yield* rowOf(store, app, "s"))
        const [taken] = yield* Effect.all([
          acquireOne(store, app, next, requestOf("s", { takeFrom: { ...previous, epoch: stale.epoch } })),
          Effect.forEach(
            Array.from({ length: 5 }, (_, index) => Position.afterSequence(`${round * 10 + index}`)),
            (position) => commitOne(store, app, previous, stale, position),
            { concurrency: "unbounded" }
          )
        ], { concurrency: "unbounded" })
        const row = acquired(taken)
        assert.strictEqual(row.epoch, before.epoch + 1)
        assert.deepStrictEqual(plainRow(some(yield* rowOf(store, app, "s"))), plainRow(row))
        const late = yield* commitOne(store, app, previous, stale, Position.afterSequence("999"))
        assert.deepStrictEqual(plainAnswer(late), { answer: "Lost", row: plainRow(row) })
        previous = next
        held = { ...held, epoch: row.epoch }
      }
    }))
]
