import { assert, describe, it } from "@effect/vitest"
import * as Liveness from "../../src/internal/liveness.js"
import type { Member } from "../../src/StateStore.js"

const timeout = 6_000

const a = (heartbeat: number): Member => ({
  memberId: "a",
  incarnation: "first",
  heartbeat,
  refreshes: 0,
  streams: ["orders"],
  assignVersion: 1
})

/** What is known after looks at these moments, each answered 100 ms later: the counter that a row showed, or no row. */
const after = (looks: ReadonlyArray<readonly [askedAt: number, heartbeat: number | undefined]>): Liveness.Liveness =>
  looks.reduce<Liveness.Liveness>((liveness, [askedAt, heartbeat]) => {
    const members = heartbeat === undefined ? [] : [a(heartbeat)]
    const seen = Liveness.observeMembers(liveness, members, { askedAt, now: askedAt + 100, timeout })
    return Liveness.observeOwners(seen, members, [a(0)], askedAt + 100)
  }, new Map())

const isDead = (liveness: Liveness.Liveness, now: number) => Liveness.isDead(liveness, a(0), now, timeout)

describe("liveness", () => {
  it("a counter that stands still for the timeout is a dead member's", () => {
    const liveness = after([[0, 1], [2_000, 2], [4_000, 2], [8_000, 2]])
    assert.isFalse(isDead(liveness, 8_099))
    assert.isTrue(isDead(liveness, 8_100))
  })

  it("an owner without a row is dead a timeout after it was first missed", () => {
    const liveness = after([[1_000, undefined], [5_000, undefined]])
    assert.isFalse(isDead(liveness, 7_099))
    assert.isTrue(isDead(liveness, 7_100))
  })

  // Between the look at 2,000 and the one at 4,000 it may have beaten once more, before its row was another one's.
  it("a row that vanished may have beaten unseen until then", () => {
    const liveness = after([[0, 1], [2_000, 1], [4_000, undefined], [6_000, undefined]])
    assert.isFalse(isDead(liveness, 6_200))
    assert.isFalse(isDead(liveness, 10_099))
    assert.isTrue(isDead(liveness, 10_100))
  })

  it("whoever was dead already stays so when its row is removed", () => {
    const liveness = after([[0, 1], [6_100, 1], [8_000, undefined]])
    assert.isTrue(isDead(liveness, 8_100))
  })
})
