/** Membership: rows of members, each of which belongs to one incarnation. */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { Case } from "../../StateStoreContract.js"
import { makeCase, memberOf, plainMembers } from "./fixture.js"

export const cases: ReadonlyArray<Case> = [
  makeCase("has no members at first", (store, app) =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* store.listMembers(app), [])
    })),

  makeCase("lists members with every field", (store, app) =>
    Effect.gen(function*() {
      const members = [
        {
          memberId: "host#1/α β",
          incarnation: "3f2a#1",
          heartbeat: 7,
          refreshes: 3,
          streams: ["orders", "arn:aws:kinesis:eu-west-1:123456789012:stream/payments"],
          assignVersion: 2
        },
        { ...memberOf("b"), streams: [] }
      ]
      yield* Effect.forEach(members, (member) => store.registerMember(app, member))
      assert.deepStrictEqual(plainMembers(yield* store.listMembers(app)), plainMembers(members))
    })),

  makeCase("registers a member in place of its earlier incarnation", (store, app) =>
    Effect.gen(function*() {
      yield* store.registerMember(app, memberOf("a", { incarnation: "1", heartbeat: 41 }))
      const restarted = memberOf("a", { incarnation: "2" })
      yield* store.registerMember(app, restarted)
      assert.deepStrictEqual(plainMembers(yield* store.listMembers(app)), plainMembers([restarted]))
    })),

  makeCase("rewrites the whole row with a heartbeat", (store, app) =>
    Effect.gen(function*() {
      yield* store.registerMember(app, memberOf("a"))
      const later = {
        ...memberOf("a", { heartbeat: 1 }),
        refreshes: 5,
        streams: ["payments", "orders"],
        assignVersion: 9
      }
      yield* store.heartbeat(app, later)
      assert.deepStrictEqual(plainMembers(yield* store.listMembers(app)), plainMembers([later]))
    })),

  makeCase("tells a member whose row is gone, and does not bring the row back", (store, app) =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(store.heartbeat(app, memberOf("a", { heartbeat: 1 })))
      assert.strictEqual(error._tag, "MemberMissing")
      assert.deepStrictEqual(yield* store.listMembers(app), [])
    })),

  makeCase(
    "tells a member that another incarnation has replaced it, and leaves that one alone",
    (store, app) =>
      Effect.gen(function*() {
        yield* store.registerMember(app, memberOf("a", { incarnation: "1" }))
        const restarted = memberOf("a", { incarnation: "2" })
        yield* store.registerMember(app, restarted)
        const error = yield* Effect.flip(store.heartbeat(app, memberOf("a", { incarnation: "1", heartbeat: 1 })))
        assert.strictEqual(error._tag, "MemberReplaced")
        assert.deepStrictEqual(plainMembers(yield* store.listMembers(app)), plainMembers([restarted]))
      })
  ),

  makeCase("deregisters its own row only, and that as often as asked", (store, app) =>
    Effect.gen(function*() {
      const [a, b] = [memberOf("a", { incarnation: "2" }), memberOf("b")]
      yield* store.registerMember(app, a)
      yield* store.registerMember(app, b)
      yield* store.deregisterMember(app, { memberId: "a", incarnation: "1" })
      assert.deepStrictEqual(plainMembers(yield* store.listMembers(app)), plainMembers([a, b]))
      yield* store.deregisterMember(app, a)
      yield* store.deregisterMember(app, a)
      assert.deepStrictEqual(plainMembers(yield* store.listMembers(app)), plainMembers([b]))
    })),

  makeCase("prunes members only as they were seen", (store, app) =>
    Effect.gen(function*() {
      const dead = memberOf("dead", { heartbeat: 3 })
      const alive = memberOf("alive", { heartbeat: 3 })
      const restarted = memberOf("restarted", { incarnation: "1", heartbeat: 3 })
      const gone = memberOf("gone")
      yield* Effect.forEach([dead, alive, restarted], (member) => store.registerMember(app, member))
      const beaten = { ...alive, heartbeat: 4 }
      const again = { ...restarted, incarnation: "2" }
      yield* store.heartbeat(app, beaten)
      yield* store.registerMember(app, again)
      yield* store.pruneMembers(app, [dead, alive, restarted, gone])
      assert.deepStrictEqual(plainMembers(yield* store.listMembers(app)), plainMembers([beaten, again]))
    })),

  makeCase("prunes nobody when nobody is named", (store, app) =>
    Effect.gen(function*() {
      yield* store.registerMember(app, memberOf("a"))
      yield* store.pruneMembers(app, [])
      assert.strictEqual((yield* store.listMembers(app)).length, 1)
    }))
]
