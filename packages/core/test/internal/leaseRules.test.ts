import { assert, describe, it } from "@effect/vitest"
import { Position, type StateStore } from "@kinesumer/core"
import { DateTime, FastCheck, Option } from "effect"
import * as LeaseRules from "../../src/internal/leaseRules.js"

const owner: FastCheck.Arbitrary<StateStore.Owner> = FastCheck.record({
  memberId: FastCheck.constantFrom("a", "b"),
  incarnation: FastCheck.constantFrom("1", "2")
})

const position: FastCheck.Arbitrary<Position.Position> = FastCheck.oneof(
  FastCheck.constant(Position.trimHorizon),
  FastCheck.nat(3).map((millis) => Position.atTimestamp(DateTime.unsafeMake(millis))),
  FastCheck.tuple(FastCheck.nat(12), FastCheck.option(FastCheck.nat(2), { nil: undefined })).map(([sequence, part]) =>
    Position.afterSequence(`${sequence}`, part)
  ),
  FastCheck.constant(Position.shardEnd)
)

const option = <A>(arbitrary: FastCheck.Arbitrary<A>) =>
  FastCheck.option(arbitrary, { nil: undefined }).map((value) => Option.fromNullable(value))

const epoch = FastCheck.nat(3)

const row: FastCheck.Arbitrary<LeaseRules.Row> = option(
  FastCheck.record({ shardId: FastCheck.constant("s"), position: option(position), owner: option(owner), epoch })
)

const request = FastCheck.record({
  shardId: FastCheck.constant("s"),
  takeFrom: option(FastCheck.tuple(owner, epoch).map(([owner, epoch]) => ({ ...owner, epoch }))),
  epochAbove: FastCheck.nat(5)
})

const commit = FastCheck.record({ epoch, position })

const same = (self: StateStore.Owner, that: StateStore.Owner) =>
  self.memberId === that.memberId && self.incarnation === that.incarnation

const isHeldBy = (row: LeaseRules.Row, owner: StateStore.Owner, epoch: number) =>
  Option.exists(row, (row) => row.epoch === epoch && Option.exists(row.owner, (current) => same(current, owner)))

const epochOf = (row: LeaseRules.Row) => Option.match(row, { onNone: () => 0, onSome: (row) => row.epoch })
const ownerOf = (row: LeaseRules.Row) => Option.flatMap(row, (row) => row.owner)
const positionOf = (row: LeaseRules.Row) => Option.flatMap(row, (row) => row.position)

/** `none` stands below every position. */
const isBefore = (self: Option.Option<Position.Position>, that: Option.Option<Position.Position>) =>
  Option.match(that, {
    onNone: () => false,
    onSome: (that) => Option.isNone(self) || Position.compare(self.value, that) < 0
  })

const isEnded = (row: LeaseRules.Row) => Option.exists(positionOf(row), Position.is("ShardEnd"))

describe("acquire", () => {
  it.prop("grants exactly what is free, ours, an earlier start's, or a dead owner's as it was seen", {
    row,
    owner,
    request
  }, ({
    owner,
    request,
    row
  }) => {
    const [answer] = LeaseRules.acquire(row, owner, request)
    const isGranted = Option.match(ownerOf(row), {
      onNone: () => true,
      onSome: (current) =>
        current.memberId === owner.memberId ||
        Option.exists(request.takeFrom, (dead) => same(dead, current) && dead.epoch === epochOf(row))
    })
    assert.strictEqual(answer._tag, isGranted ? "Acquired" : "Held")
  })

  it.prop("answers the row as it is afterwards", { row, owner, request }, ({ owner, request, row }) => {
    const [answer, after] = LeaseRules.acquire(row, owner, request)
    if (answer._tag === "Failed") assert.fail()
    assert.deepStrictEqual(Option.some(answer.checkpoint), after)
  })

  it.prop("changes nothing but owner and epoch, and these only together", { row, owner, request }, ({
    owner,
    request,
    row
  }) => {
    const [answer, after] = LeaseRules.acquire(row, owner, request)
    assert.deepStrictEqual(positionOf(after), positionOf(row))
    const isKept = isHeldBy(row, owner, epochOf(row)) && epochOf(row) > request.epochAbove
    if (answer._tag === "Held" || isKept) {
      assert.strictEqual(after, row)
    } else {
      assert.isTrue(isHeldBy(after, owner, Math.max(epochOf(row), request.epochAbove) + 1))
    }
  })
})

describe("release", () => {
  it.prop("drops the owner of the very lease that was named, and nothing else", { row, owner, epoch }, ({
    epoch,
    owner,
    row
  }) => {
    const [, after] = LeaseRules.release(row, owner, { epoch })
    if (isHeldBy(row, owner, epoch)) {
      assert.deepStrictEqual(after, Option.map(row, (row) => ({ ...row, owner: Option.none() })))
    } else {
      assert.strictEqual(after, row)
    }
  })
})

describe("commit", () => {
  it.prop("writes under the current lease only", { row, owner, commit }, ({ commit, owner, row }) => {
    const [answer, after] = LeaseRules.commit(row, owner, commit)
    if (isHeldBy(row, owner, commit.epoch)) {
      assert.strictEqual(answer._tag, "Committed")
      return
    }
    assert.strictEqual(after, row)
    const isOwnEnd = isEnded(row) && Option.isNone(ownerOf(row)) && epochOf(row) === commit.epoch
    assert.strictEqual(answer._tag, Option.isNone(row) ? "Missing" : isOwnEnd ? "Committed" : "Lost")
    if (answer._tag === "Lost") {
      assert.deepStrictEqual(Option.some(answer.checkpoint), row)
    }
  })

  it.prop("leaves the higher of two positions", { row, owner, commit }, ({ commit, owner, row }) => {
    const [answer, after] = LeaseRules.commit(row, owner, commit)
    assert.isFalse(isBefore(positionOf(after), positionOf(row)))
    if (answer._tag === "Committed") {
      assert.isFalse(isBefore(positionOf(after), Option.some(commit.position)))
    }
    if (Option.isSome(row) && after !== row && commit.position._tag !== "ShardEnd") {
      assert.deepStrictEqual(positionOf(after), Option.some(commit.position))
    }
  })

  it.prop("gives the lease back with the end of the shard, and only then", { row, owner, commit }, ({
    commit,
    owner,
    row
  }) => {
    const [, after] = LeaseRules.commit(row, owner, commit)
    const ends = isHeldBy(row, owner, commit.epoch) && commit.position._tag === "ShardEnd"
    assert.deepStrictEqual(ownerOf(after), ends ? Option.none() : ownerOf(row))
    assert.strictEqual(epochOf(after), epochOf(row))
  })

  it.prop("answers the same, and writes nothing new, when it is repeated", { row, owner, commit }, ({
    commit,
    owner,
    row
  }) => {
    const [answer, once] = LeaseRules.commit(row, owner, commit)
    const [again, twice] = LeaseRules.commit(once, owner, commit)
    assert.strictEqual(again._tag, answer._tag)
    assert.strictEqual(twice, once)
  })
})

describe("remove", () => {
  it.prop("removes a row without an owner, and answers it", { row }, ({ row }) => {
    const [removed, after] = LeaseRules.remove(row)
    assert.strictEqual(after, Option.isSome(ownerOf(row)) ? row : Option.none())
    assert.deepStrictEqual(removed, Option.isSome(ownerOf(row)) ? Option.none() : row)
  })
})

describe("any sequence", () => {
  const step = FastCheck.oneof(
    FastCheck.tuple(owner, request).map(([owner, request]) => (row: LeaseRules.Row) =>
      LeaseRules.acquire(row, owner, request)[1]
    ),
    FastCheck.tuple(owner, epoch).map(([owner, epoch]) => (row: LeaseRules.Row) =>
      LeaseRules.release(row, owner, { epoch })[1]
    ),
    FastCheck.tuple(owner, commit).map(([owner, commit]) => (row: LeaseRules.Row) =>
      LeaseRules.commit(row, owner, commit)[1]
    )
  )

  it.prop("never takes an epoch or a position back, nor the end of a shard", {
    steps: FastCheck.array(step, { maxLength: 30, size: "max" })
  }, ({ steps }) => {
    steps.reduce((before, step) => {
      const after = step(before)
      assert.isAtLeast(epochOf(after), epochOf(before))
      assert.isFalse(isBefore(positionOf(after), positionOf(before)))
      assert.isTrue(isEnded(after) || !isEnded(before))
      const changesHands = Option.isSome(ownerOf(after)) && ownerOf(after) !== ownerOf(before)
      assert.isTrue(!changesHands || epochOf(after) > epochOf(before))
      return after
    }, Option.none<StateStore.Checkpoint>())
  })
})
