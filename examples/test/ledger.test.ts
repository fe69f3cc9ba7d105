import { assert, describe, it } from "@effect/vitest"
import * as Ledger from "../src/demo/ledger.js"

const shard = (index: number): string => `shardId-${`${index}`.padStart(12, "0")}`

/** The record of a key with this number; its sequence number is by 7 larger. */
const record = (number: number, at: { readonly key?: string; readonly shard?: number } = {}): Ledger.Put => ({
  stream: "orders",
  shardId: shard(at.shard ?? 0),
  sequenceNumber: `${number + 7}`,
  key: at.key ?? "a",
  number
})

interface Owner {
  readonly member?: string
  readonly epoch?: number
}

const ledger = (puts: ReadonlyArray<Ledger.Put>, deliveries: ReadonlyArray<readonly [Ledger.Put, Owner?]>) =>
  deliveries.reduce(
    (ledger, [put, owner], at) =>
      Ledger.delivered(ledger, { ...put, member: owner?.member ?? "one", epoch: owner?.epoch ?? 1, at }),
    Ledger.put(Ledger.empty, puts)
  )

const counts = (self: Ledger.Ledger) => {
  const { lost, reordered, ...rest } = Ledger.balance(self)
  return { ...rest, lost: lost.map(({ number }) => number), reordered: reordered.map(({ number }) => number) }
}

const two = { member: "two", epoch: 2 }

describe("ledger", () => {
  it("balances what was delivered once and in order, also past the length of a sequence number", () => {
    const puts = [1, 2, 3, 4].map((number) => record(number))
    assert.deepStrictEqual(counts(ledger(puts, puts.map((put) => [put] as const))), {
      put: 4,
      distinct: 4,
      lost: [],
      reordered: [],
      duplicates: 0
    })
  })

  it("balances with nothing put", () => {
    assert.deepStrictEqual(counts(Ledger.empty), { put: 0, distinct: 0, lost: [], reordered: [], duplicates: 0 })
  })

  it("finds what was never delivered", () => {
    const puts = [1, 2, 3].map((number) => record(number))
    assert.deepStrictEqual(counts(ledger(puts, [[record(1)], [record(3)]])).lost, [2])
  })

  it("tells records of two shards apart that have one sequence number", () => {
    const puts = [record(1), record(1, { key: "b", shard: 1 })]
    assert.deepStrictEqual(counts(ledger(puts, [[record(1)]])).lost, [1])
    assert.strictEqual(counts(ledger(puts, [[record(1)]])).distinct, 1)
  })

  it("lets the next owner repeat, and counts it", () => {
    const puts = [1, 2, 3].map((number) => record(number))
    const balance = counts(
      ledger(puts, [[record(1)], [record(2)], [record(1), two], [record(2), two], [record(3), two]])
    )
    assert.deepStrictEqual(balance, { put: 3, distinct: 3, lost: [], reordered: [], duplicates: 2 })
  })

  it("lets the same member repeat under a later epoch", () => {
    const puts = [1, 2].map((number) => record(number))
    const balance = counts(ledger(puts, [[record(1)], [record(1), { epoch: 2 }], [record(2), { epoch: 2 }]]))
    assert.deepStrictEqual(balance, { put: 2, distinct: 2, lost: [], reordered: [], duplicates: 1 })
  })

  it("finds two members that deliver under one epoch", () => {
    const puts = [1, 2].map((number) => record(number))
    const balance = counts(ledger(puts, [[record(1)], [record(1), { member: "two" }], [record(2)]]))
    assert.deepStrictEqual(balance.reordered, [1])
  })

  it("takes reports of two owners in the order of their epochs, whichever was read first", () => {
    const self = Ledger.put(Ledger.empty, [1, 2].map((number) => record(number)))
    const late = { ...record(1), member: "one", epoch: 1, at: 1 }
    const early = { ...record(2), ...two, at: 2 }
    assert.deepStrictEqual(counts(Ledger.delivered(Ledger.delivered(self, early), late)).reordered, [])
  })

  it("finds what one owner repeats or turns around", () => {
    const puts = [1, 2].map((number) => record(number, { key: `${number}` }))
    const [first, second] = [record(1, { key: "1" }), record(2, { key: "2" })]
    assert.deepStrictEqual(counts(ledger(puts, [[second], [first]])).reordered, [1])
    assert.deepStrictEqual(counts(ledger(puts, [[first], [first], [second]])).reordered, [1])
  })

  it("finds a gap that an earlier owner left, although a later one fills it", () => {
    const puts = [1, 2, 3].map((number) => record(number, { key: `${number}` }))
    const balance = counts(ledger(puts, [
      [record(1, { key: "1" })],
      [record(3, { key: "3" })],
      [record(2, { key: "2" }), two],
      [record(3, { key: "3" }), two]
    ]))
    assert.deepStrictEqual(balance.lost, [])
    assert.deepStrictEqual(balance.reordered, [2])
  })

  it("finds a child shard that began before its parent was done", () => {
    const puts = [record(1), record(2, { shard: 2 })]
    assert.deepStrictEqual(counts(ledger(puts, [[record(2, { shard: 2 })], [record(1), two]])).reordered, [2])
  })

  it("lets a key go on in another shard", () => {
    const puts = [record(1), record(2, { shard: 2 })]
    assert.deepStrictEqual(
      counts(ledger(puts, [[record(1)], [record(2, { shard: 2 }), two], [record(1), two]])).reordered,
      []
    )
  })
})
