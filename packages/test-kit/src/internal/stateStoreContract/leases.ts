/** Leases: who gets one, from whom, and under which epoch. */
import { assert } from "@effect/vitest"
import * as Position from "@kinesumer/core/Position"
import type { StateStore } from "@kinesumer/core/StateStore"
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
  only,
  ownerOf,
  plainAnswer,
  plainRow,
  plainRows,
  requestOf,
  rowOf,
  some,
  stream
} from "./fixture.js"

const plain = (shardId: string, owner: string | null, epoch: number, position: string | null = null) => ({
  shardId,
  position,
  owner,
  epoch
})

const contended = ["s0", "s1", "s2"]

/** Many members ask for the same leases at once. Each lease has one winner, whom everybody sees. */
const contend = Effect.fnUntraced(function*(
  store: StateStore["Type"],
  app: string,
  options: Parameters<typeof requestOf>[1],
  epoch: number
) {
  const answers = yield* Effect.forEach(
    Array.from({ length: 20 }, (_, index) => ownerOf(`member-${index}`)),
    (owner) =>
      Effect.map(
        store.acquireLeases(app, owner, contended.map((shardId) => requestOf(shardId, options))),
        (results) => results.map((result, index) => ({ owner, result, shardId: contended[index] }))
      ),
    { concurrency: "unbounded" }
  )
  const winners = contended.map((shardId) => {
    const results = answers.flat().filter((answer) => answer.shardId === shardId)
    const { owner } = only(results.filter(({ result }) => result._tag === "Acquired"))
    const row = plain(shardId, `${owner.memberId} (${owner.incarnation})`, epoch)
    for (const { result } of results) {
      assert.deepStrictEqual(plainAnswer(result), { answer: result._tag, row })
    }
    return { owner, lease: { stream, shardId, epoch }, row }
  })
  assert.deepStrictEqual(plainRows(yield* store.listCheckpoints(app, stream)), winners.map(({ row }) => row))
  return winners
})

export const cases: ReadonlyArray<Case> = [
  makeCase("has no rows at first, and takes empty requests", (store, app) =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* store.listCheckpoints(app, stream), [])
      assert.deepStrictEqual(yield* store.acquireLeases(app, alice, []), [])
      assert.deepStrictEqual(yield* store.commitCheckpoints(app, alice, []), [])
      assert.deepStrictEqual(yield* store.removeCheckpoints(app, stream, []), [])
      yield* store.releaseLeases(app, alice, [])
      assert.deepStrictEqual(yield* store.listCheckpoints(app, stream), [])
    })),

  makeCase("grants a free lease, with the row as it stands now", (store, app) =>
    Effect.gen(function*() {
      const row = acquired(yield* acquireOne(store, app, alice, requestOf("s")))
      assert.deepStrictEqual(plainRow(row), plain("s", "alice (1)", 1))
      assert.deepStrictEqual(plainRows(yield* store.listCheckpoints(app, stream)), [plainRow(row)])
    })),

  makeCase("refuses a lease that is held, and shows by whom", (store, app) =>
    Effect.gen(function*() {
      const held = yield* lease(store, app, alice, "s")
      yield* commitOne(store, app, alice, held, Position.afterSequence("7"))
      const answer = yield* acquireOne(store, app, bob, requestOf("s"))
      assert.deepStrictEqual(plainAnswer(answer), { answer: "Held", row: plain("s", "alice (1)", 1, "after 7") })
      assert.deepStrictEqual(plainRow(some(yield* rowOf(store, app, "s"))), plain("s", "alice (1)", 1, "after 7"))
    })),

  makeCase("grants its own lease again under the same epoch", (store, app) =>
    Effect.gen(function*() {
      const first = acquired(yield* acquireOne(store, app, alice, requestOf("s")))
      const again = acquired(yield* acquireOne(store, app, alice, requestOf("s")))
      assert.deepStrictEqual(plainRow(again), plainRow(first))
    })),

  makeCase(
    "renews its own lease: the epoch grows above the one that was known, and the position stays",
    (store, app) =>
      Effect.gen(function*() {
        const held = yield* lease(store, app, alice, "s")
        yield* commitOne(store, app, alice, held, Position.afterSequence("7"))
        const epochs: Array<number> = []
        for (const epochAbove of [1, 2, 41]) {
          const row = acquired(yield* acquireOne(store, app, alice, requestOf("s", { epochAbove })))
          assert.deepStrictEqual(plainRow(row), plain("s", "alice (1)", row.epoch, "after 7"))
          assert.deepStrictEqual(plainRow(some(yield* rowOf(store, app, "s"))), plainRow(row))
          const late = yield* commitOne(store, app, alice, { ...held, epoch: row.epoch - 1 }, Position.shardEnd)
          assert.deepStrictEqual(plainAnswer(late), { answer: "Lost", row: plainRow(row) })
          epochs.push(row.epoch)
        }
        assert.deepStrictEqual(epochs, [2, 3, 42])
        const kept = yield* commitOne(store, app, alice, { ...held, epoch: 42 }, Position.afterSequence("8"))
        assert.deepStrictEqual(plainAnswer(kept), { answer: "Committed" })
      })
  ),

  makeCase(
    "renews once where it is asked twice, since the first answer was lost",
    (store, app) =>
      Effect.gen(function*() {
        yield* lease(store, app, alice, "s")
        const renewal = acquireOne(store, app, alice, requestOf("s", { epochAbove: 1 }))
        const answers = [yield* renewal, yield* renewal, ...(yield* Effect.all([renewal, renewal], { concurrency: 2 }))]
        for (const answer of answers) {
          assert.deepStrictEqual(plainAnswer(answer), { answer: "Acquired", row: plain("s", "alice (1)", 2) })
        }
        assert.deepStrictEqual(plainRow(some(yield* rowOf(store, app, "s"))), plain("s", "alice (1)", 2))
      })
  ),

  makeCase("renews nobody's lease but its own", (store, app) =>
    Effect.gen(function*() {
      const held = yield* lease(store, app, alice, "s")
      const now = yield* lease(store, app, bob, "s", { takeFrom: { ...alice, epoch: held.epoch } })
      const answer = yield* acquireOne(store, app, alice, requestOf("s", { epochAbove: held.epoch }))
      assert.deepStrictEqual(plainAnswer(answer), { answer: "Held", row: plain("s", "bob (1)", now.epoch) })
    })),

  makeCase(
    "grants the lease of an earlier incarnation of the same member, under a new epoch",
    (store, app) =>
      Effect.gen(function*() {
        const before = yield* lease(store, app, ownerOf("a", "1"), "s")
        yield* commitOne(store, app, ownerOf("a", "1"), before, Position.afterSequence("7"))
        const row = acquired(yield* acquireOne(store, app, ownerOf("a", "2"), requestOf("s")))
        assert.deepStrictEqual(plainRow(row), plain("s", "a (2)", 2, "after 7"))
        const late = yield* commitOne(store, app, ownerOf("a", "1"), before, Position.afterSequence("8"))
        assert.deepStrictEqual(plainAnswer(late), { answer: "Lost", row: plainRow(row) })
      })
  ),

  makeCase("takes a lease from the dead owner that was named", (store, app) =>
    Effect.gen(function*() {
      yield* lease(store, app, alice, "s")
      const answer = yield* acquireOne(store, app, bob, requestOf("s", { takeFrom: alice }))
      assert.deepStrictEqual(plainAnswer(answer), { answer: "Acquired", row: plain("s", "bob (1)", 2) })
    })),

  makeCase("does not take a lease from anybody but the one that was named", (store, app) =>
    Effect.gen(function*() {
      yield* lease(store, app, alice, "s")
      for (const takeFrom of [ownerOf("alice", "2"), ownerOf("carol"), ownerOf("alice1", "")]) {
        const answer = yield* acquireOne(store, app, bob, requestOf("s", { takeFrom }))
        assert.deepStrictEqual(plainAnswer(answer), { answer: "Held", row: plain("s", "alice (1)", 1) })
      }
    })),

  makeCase(
    "takes a dead owner's lease only under the epoch that the owner was seen under",
    (store, app) =>
      Effect.gen(function*() {
        yield* lease(store, app, alice, "s", { epochAbove: 4 })
        for (const epoch of [4, 6, 0]) {
          const answer = yield* acquireOne(store, app, bob, requestOf("s", { takeFrom: { ...alice, epoch } }))
          assert.deepStrictEqual(plainAnswer(answer), { answer: "Held", row: plain("s", "alice (1)", 5) })
        }
        const answer = yield* acquireOne(store, app, bob, requestOf("s", { takeFrom: { ...alice, epoch: 5 } }))
        assert.deepStrictEqual(plainAnswer(answer), { answer: "Acquired", row: plain("s", "bob (1)", 6) })
      })
  ),

  makeCase(
    "leaves a lease to an owner that was taken for dead and has renewed it since",
    (store, app) =>
      Effect.gen(function*() {
        const seen = yield* lease(store, app, alice, "s")
        const now = yield* lease(store, app, alice, "s", { epochAbove: seen.epoch })
        for (const epochAbove of [0, 99]) {
          const late = requestOf("s", { takeFrom: { ...alice, epoch: seen.epoch }, epochAbove })
          assert.deepStrictEqual(
            plainAnswer(yield* acquireOne(store, app, bob, late)),
            { answer: "Held", row: plain("s", "alice (1)", now.epoch) }
          )
        }
        const kept = yield* commitOne(store, app, alice, now, Position.afterSequence("7"))
        assert.deepStrictEqual(plainAnswer(kept), { answer: "Committed" })
      })
  ),

  makeCase(
    "grants a lease to its owner or to the one that takes it for dead, where both ask at once",
    (store, app) =>
      Effect.gen(function*() {
        for (let round = 0; round < 10; round++) {
          const shardId = `s${round}`
          const { epoch } = yield* lease(store, app, alice, shardId)
          const answers = yield* Effect.all([
            acquireOne(store, app, alice, requestOf(shardId, { epochAbove: epoch })),
            acquireOne(store, app, bob, requestOf(shardId, { takeFrom: { ...alice, epoch } }))
          ], { concurrency: "unbounded" })
          const [alices, bobs] = answers.map(plainAnswer)
          const isKept = alices?.answer === "Acquired"
          const row = plain(shardId, isKept ? "alice (1)" : "bob (1)", 2)
          assert.deepStrictEqual(alices, { answer: isKept ? "Acquired" : "Held", row })
          assert.deepStrictEqual(bobs, { answer: isKept ? "Held" : "Acquired", row })
          assert.deepStrictEqual(plainRow(some(yield* rowOf(store, app, shardId))), row)
        }
      })
  ),

  makeCase("grants a free lease whoever takeFrom names", (store, app) =>
    Effect.gen(function*() {
      yield* lease(store, app, bob, "missing", { takeFrom: alice })
      yield* store.releaseLeases(app, alice, [yield* lease(store, app, alice, "released")])
      const answer = yield* acquireOne(store, app, bob, requestOf("released", { takeFrom: ownerOf("carol") }))
      assert.deepStrictEqual(plainAnswer(answer), { answer: "Acquired", row: plain("released", "bob (1)", 2) })
    })),

  makeCase(
    "chooses an epoch above the row's and above the one that was asked for",
    (store, app) =>
      Effect.gen(function*() {
        const epochs: Array<number> = []
        const next = Effect.fnUntraced(function*(epochAbove: number) {
          const held = yield* lease(store, app, alice, "s", { epochAbove })
          epochs.push(held.epoch)
          yield* store.releaseLeases(app, alice, [held])
        })
        yield* next(41) // no row
        yield* next(41) // below the row's
        yield* next(43) // the row's
        yield* next(99) // above it
        yield* next(0)
        assert.deepStrictEqual(epochs, [42, 43, 44, 100, 101])
      })
  ),

  makeCase(
    "changes nothing, the epoch included, where epochAbove stands in a request that is refused",
    (store, app) =>
      Effect.gen(function*() {
        yield* lease(store, app, alice, "s")
        const answer = yield* acquireOne(store, app, bob, requestOf("s", { epochAbove: 99 }))
        assert.deepStrictEqual(plainAnswer(answer), { answer: "Held", row: plain("s", "alice (1)", 1) })
        assert.deepStrictEqual(plainRow(some(yield* rowOf(store, app, "s"))), plain("s", "alice (1)", 1))
      })
  ),

  makeCase("answers in the order of the requests, across streams", (store, app) =>
    Effect.gen(function*() {
      yield* store.acquireLeases(app, bob, [requestOf("s1"), requestOf("s1", { stream: "payments" })])
      const answers = yield* store.acquireLeases(app, alice, [
        requestOf("s2", { stream: "payments" }),
        requestOf("s1"),
        requestOf("s0"),
        requestOf("s1", { stream: "payments" }),
        requestOf("s2")
      ])
      assert.deepStrictEqual(
        answers.map((answer) => answer._tag === "Failed" ? answer : [answer._tag, answer.checkpoint.shardId]),
        [["Acquired", "s2"], ["Held", "s1"], ["Acquired", "s0"], ["Held", "s1"], ["Acquired", "s2"]]
      )
      const payments = yield* store.listCheckpoints(app, "payments")
      assert.deepStrictEqual(plainRows(payments), [plain("s1", "bob (1)", 1), plain("s2", "alice (1)", 1)])
    })),

  makeCase(
    "lets exactly one of many members win a free lease, and counts one epoch for it",
    (store, app) =>
      Effect.gen(function*() {
        for (const epoch of [1, 2, 3]) {
          const winners = yield* contend(store, app, {}, epoch)
          yield* Effect.forEach(winners, ({ lease, owner }) => store.releaseLeases(app, owner, [lease]))
        }
      })
  ),

  makeCase("lets exactly one of many members take over from a dead owner", (store, app) =>
    Effect.gen(function*() {
      const dead = ownerOf("dead")
      yield* store.acquireLeases(app, dead, contended.map((shardId) => requestOf(shardId)))
      yield* contend(store, app, { takeFrom: dead }, 2)
    })),

  makeCase("gives back its own lease, and the position and epoch stay", (store, app) =>
    Effect.gen(function*() {
      const held = yield* lease(store, app, alice, "s")
      yield* commitOne(store, app, alice, held, Position.afterSequence("7"))
      yield* store.releaseLeases(app, alice, [held])
      assert.deepStrictEqual(plainRow(some(yield* rowOf(store, app, "s"))), plain("s", null, 1, "after 7"))
      yield* store.releaseLeases(app, alice, [held])
      const next = yield* acquireOne(store, app, bob, requestOf("s"))
      assert.deepStrictEqual(plainAnswer(next), { answer: "Acquired", row: plain("s", "bob (1)", 2, "after 7") })
    })),

  makeCase(
    "leaves leases alone that are another's, of another epoch or missing",
    (store, app) =>
      Effect.gen(function*() {
        const first = yield* lease(store, app, ownerOf("a", "1"), "s")
        const now = yield* lease(store, app, ownerOf("a", "2"), "s")
        yield* store.releaseLeases(app, bob, [now])
        yield* store.releaseLeases(app, ownerOf("a", "1"), [first, now])
        yield* store.releaseLeases(app, ownerOf("a", "2"), [first, { ...now, epoch: now.epoch + 1 }])
        yield* store.releaseLeases(app, ownerOf("a", "2"), [{ ...now, shardId: "missing" }])
        assert.deepStrictEqual(plainRows(yield* store.listCheckpoints(app, stream)), [plain("s", "a (2)", 2)])
      })
  ),

  makeCase(
    "removes only rows that nobody owns, and returns each once, as it was",
    (store, app) =>
      Effect.gen(function*() {
        const [free, done, held] = [
          yield* lease(store, app, alice, "free"),
          yield* lease(store, app, alice, "done"),
          yield* lease(store, app, alice, "held")
        ]
        yield* store.commitCheckpoints(app, alice, [
          { ...free, position: Position.afterSequence("7", 2) },
          { ...done, position: Position.shardEnd },
          { ...held, position: Position.afterSequence("8") }
        ])
        yield* store.releaseLeases(app, alice, [free])
        const removed = yield* store.removeCheckpoints(app, stream, ["missing", "free", "held", "done"])
        assert.deepStrictEqual(plainRows(removed), [
          plain("done", null, 1, "ShardEnd"),
          plain("free", null, 1, "after 7, part 2")
        ])
        assert.deepStrictEqual(yield* store.removeCheckpoints(app, stream, ["free", "held", "done"]), [])
        assert.deepStrictEqual(
          plainRows(yield* store.listCheckpoints(app, stream)),
          [plain("held", "alice (1)", 1, "after 8")]
        )
      })
  ),

  makeCase("returns a removed row to one of many that remove it", (store, app) =>
    Effect.gen(function*() {
      yield* store.releaseLeases(app, alice, [yield* lease(store, app, alice, "s")])
      const removed = yield* Effect.forEach(
        Array.from({ length: 10 }),
        () => store.removeCheckpoints(app, stream, ["s"]),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(plainRows(removed.flat()), [plain("s", null, 1)])
    })),

  makeCase("keeps a lease with its owner while others ask for it", (store, app) =>
    Effect.gen(function*() {
      const held = yield* lease(store, app, alice, "s")
      const others = Array.from({ length: 10 }, (_, index) => ownerOf(`member-${index}`))
      const [committed, answers] = yield* Effect.all([
        Effect.forEach(
          Array.from({ length: 10 }, (_, index) => Position.afterSequence(`${index + 1}`)),
          (position) => commitOne(store, app, alice, held, position)
        ),
        Effect.forEach(others, (owner) => acquireOne(store, app, owner, requestOf("s")), { concurrency: "unbounded" })
      ], { concurrency: "unbounded" })
      assert.isTrue(committed.every((answer) => answer._tag === "Committed"))
      assert.isTrue(answers.every((answer) => answer._tag === "Held"))
      assert.deepStrictEqual(plainRow(some(yield* rowOf(store, app, "s"))), plain("s", "alice (1)", 1, "after 10"))
    }))
]
