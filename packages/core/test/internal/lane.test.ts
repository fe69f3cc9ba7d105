/** The rules about positions of one shard, for any order of pages, pulls, marks, rewinds and commits. */
import { assert, describe, it } from "@effect/vitest"
import { Position } from "@kinesumer/core"
import { FastCheck, Option } from "effect"
import * as Lane from "../../src/internal/lane.js"

/** A lane with pages of slices; record n has sequence number n. */
const at = (n: number): Position.Position => n === 0 ? Position.trimHorizon : Position.afterSequence(`${n}`)

const slice = (from: number, to: number): Lane.Slice => ({
  size: to - from,
  bytes: 10 * (to - from),
  from: at(from),
  to: at(to),
  split: (size) => [slice(from, from + size), slice(from + size, to)],
  open: () => {
    throw new Error("a lane makes no records")
  }
})

const numberOf = (position: Position.Position): number =>
  position._tag === "AfterSequence" ? Number(position.sequenceNumber) : 0

type Action =
  | { readonly _tag: "Push"; readonly count: number; readonly stale: boolean }
  | { readonly _tag: "Pass"; readonly count: number }
  | { readonly _tag: "Pull"; readonly most: number }
  | { readonly _tag: "Mark"; readonly pick: number; readonly width: number }
  | { readonly _tag: "Rewind" }
  | { readonly _tag: "Drop" }
  | { readonly _tag: "Refuse" }
  | { readonly _tag: "End" }
  | { readonly _tag: "Commit" }

const action: FastCheck.Arbitrary<Action> = FastCheck.oneof(
  FastCheck.record({
    _tag: FastCheck.constant("Push" as const),
    count: FastCheck.integer({ min: 1, max: 5 }),
    stale: FastCheck.boolean()
  }),
  FastCheck.record({ _tag: FastCheck.constant("Pass" as const), count: FastCheck.integer({ min: 1, max: 3 }) }),
  FastCheck.record({
    _tag: FastCheck.constant("Pull" as const),
    most: FastCheck.oneof(FastCheck.constant(Infinity), FastCheck.integer({ min: 1, max: 4 }))
  }),
  FastCheck.record({
    _tag: FastCheck.constant("Mark" as const),
    pick: FastCheck.nat(1000),
    width: FastCheck.integer({ min: 1, max: 3 })
  }),
  FastCheck.constant<Action>({ _tag: "Rewind" }),
  FastCheck.constant<Action>({ _tag: "Drop" }),
  FastCheck.constant<Action>({ _tag: "Refuse" }),
  FastCheck.constant<Action>({ _tag: "End" }),
  FastCheck.constant<Action>({ _tag: "Commit" })
)

describe("lane", () => {
  it.prop("never runs ahead of itself, and a commit covers only what is marked", [
    FastCheck.array(action, { maxLength: 80 })
  ], ([
    actions
  ]) => {
    let lane = Lane.make(at(0))
    const marked = new Set<number>()
    /** What was read and is not delivered. */
    const dropped = new Set<number>()
    let stored: Position.Position = at(0)
    for (const one of actions) {
      switch (one._tag) {
        case "Push": {
          const from = numberOf(lane.read)
          if (lane.ending === "Read") break
          const generation = one.stale ? lane.generation - 1 : lane.generation
          const to = numberOf(lane.passed) + one.count
          const pushed = Lane.push(lane, generation, [slice(from, Math.max(from + 1, to))])
          assert.strictEqual(Option.isSome(pushed), !one.stale)
          for (let n = numberOf(lane.passed) + 1; !one.stale && n <= to; n++) dropped.delete(n)
          lane = Option.getOrElse(pushed, () => lane)
          break
        }
        case "Pass": {
          if (lane.ending === "Read") break
          const from = Math.max(numberOf(lane.read), numberOf(lane.passed))
          for (let n = from + 1; n <= from + one.count; n++) dropped.add(n)
          lane = Lane.pass(lane, lane.read, at(from + one.count))
          break
        }
        case "Pull": {
          const before = lane
          const [taken, next] = Lane.pull(lane, one.most)
          lane = next
          // Nothing is skipped: a slice begins where the cursor stood.
          if (Option.isSome(taken)) {
            assert.deepStrictEqual(taken.value.from, before.cursor)
            assert.isAtMost(taken.value.size, one.most)
          }
          break
        }
        case "Mark": {
          const delivered = numberOf(lane.cursor)
          if (delivered === 0) break
          const from = one.pick % delivered
          const to = Math.min(delivered, from + one.width)
          for (let n = from + 1; n <= to; n++) marked.add(n)
          lane = Lane.mark(lane, { from: at(from), to: at(to) })
          break
        }
        case "Rewind": {
          lane = Lane.rewind(lane)
          assert.deepStrictEqual(lane.cursor, lane.processed)
          // Marks beyond a gap were given back with their records.
          for (const n of marked) if (n > numberOf(lane.processed)) marked.delete(n)
          break
        }
        case "Drop":
          lane = Lane.drop(lane)
          assert.strictEqual(lane.waiting.length, 0)
          break
        case "Refuse":
          lane = Lane.refuse(lane)
          break
        case "End":
          lane = Lane.end(lane, lane.generation)
          break
        case "Commit": {
          const position = Lane.toCommit(lane)
          if (Option.isNone(position)) break
          assert.isTrue(Position.compare(position.value, stored) > 0)
          if (position.value._tag === "ShardEnd") {
            assert.strictEqual(lane.waiting.length, 0)
            assert.deepStrictEqual(lane.processed, lane.read)
          }
          for (let n = 1; n <= numberOf(position.value); n++) {
            assert.isTrue(marked.has(n) || dropped.has(n), `${n} is committed, not marked`)
          }
          stored = position.value
          lane = Lane.committed(lane, position.value)
          if (position.value._tag === "ShardEnd") return
        }
      }
      for (let n = 1; n <= numberOf(lane.processed); n++) assert.isTrue(marked.has(n), `${n} is covered, not marked`)
      assert.isTrue(Position.compare(lane.processed, lane.cursor) <= 0)
      assert.isTrue(Position.compare(lane.cursor, lane.read) <= 0)
      assert.strictEqual(lane.waitingRecords, lane.waiting.reduce((sum, { size }) => sum + size, 0))
      assert.strictEqual(lane.waitingBytes, 10 * lane.waitingRecords)
      assert.isFalse(
        marked.has(numberOf(lane.processed) + 1) &&
          lane.marked.some(({ from }) => Position.compare(from, lane.processed) <= 0)
      )
    }
  })

  it("refuses the page that is on its way, and reads on from where it was", () => {
    const asked = Option.getOrThrow(Lane.push(Lane.make(at(0)), 0, [slice(0, 5)]))
    for (const change of [Lane.refuse, Lane.drop]) {
      const refused = change(asked)
      assert.isTrue(Option.isNone(Lane.push(refused, asked.generation, [slice(5, 6)])))
      assert.deepStrictEqual(Lane.end(refused, asked.generation).ending, "Open")
    }
    assert.deepStrictEqual(Lane.refuse(asked).read, at(5))
    assert.deepStrictEqual(Lane.drop(asked).read, at(0))
    const [, delivered] = Lane.pull(asked)
    assert.deepStrictEqual(Lane.drop(delivered).read, at(5))
    const ended = Lane.end(delivered, delivered.generation)
    assert.strictEqual(Lane.drop(ended), ended)
  })

  it("commits up to the gap that a record leaves which was not marked", () => {
    let lane = Option.getOrThrow(Lane.push(Lane.make(at(0)), 0, [slice(0, 5)]))
    ;[, lane] = Lane.pull(lane)
    for (const n of [1, 2, 4, 5]) lane = Lane.mark(lane, { from: at(n - 1), to: at(n) })
    assert.deepStrictEqual(Lane.toCommit(lane), Option.some(at(2)))
    lane = Lane.mark(lane, { from: at(2), to: at(3) })
    assert.deepStrictEqual(Lane.toCommit(lane), Option.some(at(5)))
  })

  it("commits past what is dropped as soon as nothing before it is left, and the next record covers it", () => {
    const passed = Lane.pass(Lane.make(at(0)), at(0), at(3))
    assert.deepStrictEqual(Lane.toCommit(passed), Option.some(at(3)))
    const written = Lane.committed(passed, at(3))
    assert.deepStrictEqual(Lane.toCommit(written), Option.none())

    const waiting = Lane.pass(Option.getOrThrow(Lane.push(written, 0, [slice(0, 5)])), at(5), at(8))
    assert.deepStrictEqual(Lane.toCommit(waiting), Option.none())
    const [, inHand] = Lane.pull(waiting)
    assert.deepStrictEqual(Lane.toCommit(inHand), Option.none())
    const done = Lane.mark(inHand, { from: at(0), to: at(5) })
    assert.deepStrictEqual(Lane.toCommit(done), Option.some(at(8)))
    // What is given back is read again, and so is what was dropped behind it.
    assert.deepStrictEqual(Lane.toCommit(Lane.rewind(inHand)), Option.none())
    // Reading has gone on elsewhere meanwhile.
    assert.strictEqual(Lane.pass(done, at(0), at(9)), done)
  })

  it("stops for good: what waits is dropped, what is on its way is refused, and marks of what was delivered count", () => {
    const read = Option.getOrThrow(Lane.push(Lane.make(at(0)), 0, [slice(0, 2), slice(2, 5)]))
    const [, delivered] = Lane.pull(read)
    const stopped = Lane.stop(delivered)
    assert.strictEqual(stopped.ending, "Stopped")
    assert.deepStrictEqual(stopped.waiting, [])
    assert.strictEqual(stopped.waitingRecords, 0)
    assert.strictEqual(stopped.waitingBytes, 0)
    assert.deepStrictEqual(stopped.cursor, at(2))
    assert.isTrue(Option.isNone(Lane.push(stopped, delivered.generation, [slice(5, 6)])))
    assert.deepStrictEqual(Lane.end(stopped, delivered.generation).ending, "Stopped")
    const marked = Lane.mark(stopped, { from: at(0), to: at(2) })
    assert.isTrue(Lane.isSettled(marked))
    assert.isFalse(Lane.isFinished(marked))
    assert.deepStrictEqual(Lane.toCommit(marked), Option.some(at(2)))
    for (const change of [Lane.rewind, Lane.drop, Lane.refuse, Lane.stop]) {
      assert.strictEqual(change(stopped).ending, "Stopped")
      assert.strictEqual(change(marked).ending, "Stopped")
    }
  })

  it("an end that waits for marks alone stays one when it stops, and one that waits for delivery does not", () => {
    const read = Option.getOrThrow(Lane.push(Lane.make(at(0)), 0, [slice(0, 2), slice(2, 5)]))
    const ended = Lane.end(read, read.generation)
    assert.strictEqual(Lane.stop(ended).ending, "Stopped")
    const [, half] = Lane.pull(ended)
    const [, delivered] = Lane.pull(half)
    const stopped = Lane.stop(delivered)
    assert.strictEqual(stopped.ending, "Read")
    assert.deepStrictEqual(
      Lane.toCommit(Lane.mark(stopped, { from: at(0), to: at(5) })),
      Option.some(Position.shardEnd)
    )
    // A handler that fails after that gives its records back: there is an end no more, and nothing more is read.
    assert.deepStrictEqual(Lane.toCommit(Lane.rewind(stopped)), Option.none())
  })
})
