/** Rows that vanish, or that forget, under the members that need them. */
import { assert, describe, it } from "@effect/vitest"
import { Position, StateStore } from "@kinesumer/core"
import { Faults } from "@kinesumer/test-kit"
import { Effect, Option } from "effect"
import { datas, names, pass, putTo, row, shardId, type TestMember, until, type World } from "../group/support.js"
import { after, eventsOf, faulty, type FaultyWorld, faultyWorld, ids, leases, shardsOf } from "./leases-support.js"

/**
 * A store whose rows can be wiped behind everybody's back: what was there before is of an older store. It begins anew
 * with a store that is empty, or that somebody has filled.
 */
const wipeable = (shards: number) =>
  Effect.gen(function*() {
    const w = yield* faultyWorld(shards)
    let current: StateStore.StateStore["Type"] = w.store
    const store: StateStore.StateStore["Type"] = {
      registerMember: (...args) => Effect.suspend(() => current.registerMember(...args)),
      heartbeat: (...args) => Effect.suspend(() => current.heartbeat(...args)),
      deregisterMember: (...args) => Effect.suspend(() => current.deregisterMember(...args)),
      listMembers: (...args) => Effect.suspend(() => current.listMembers(...args)),
      pruneMembers: (...args) => Effect.suspend(() => current.pruneMembers(...args)),
      listShardVersions: (...args) => Effect.suspend(() => current.listShardVersions(...args)),
      getShards: (...args) => Effect.suspend(() => current.getShards(...args)),
      updateShards: (...args) => Effect.suspend(() => current.updateShards(...args)),
      listCheckpoints: (...args) => Effect.suspend(() => current.listCheckpoints(...args)),
      acquireLeases: (...args) => Effect.suspend(() => current.acquireLeases(...args)),
      releaseLeases: (...args) => Effect.suspend(() => current.releaseLeases(...args)),
      commitCheckpoints: (...args) => Effect.suspend(() => current.commitCheckpoints(...args)),
      removeCheckpoints: (...args) => Effect.suspend(() => current.removeCheckpoints(...args))
    }
    return {
      w: { ...w, store },
      begin: (next: StateStore.StateStore["Type"]) =>
        Effect.sync(() => {
          current = next
        })
    }
  })

/** Removes the row of a shard as somebody does who wants to read it anew: the lease does not protect it. */
const removeRow = (w: World, id: string) =>
  Effect.gen(function*() {
    const found = yield* row(w, id)
    if (Option.isNone(found) || Option.isNone(found.value.owner)) return
    const { epoch, owner } = found.value
    yield* w.store.releaseLeases("app", owner.value, [{ stream: "orders", shardId: id, epoch }])
    yield* w.store.removeCheckpoints("app", "orders", [id])
  })

const positionOf = (w: World, id: string) => Effect.map(row(w, id), Option.flatMap(({ position }) => position))

const reading = (w: FaultyWorld) =>
  Effect.gen(function*() {
    const a = yield* faulty(w, "a")
    yield* a.consume()
    yield* putTo(w, "orders", shardId(0), names("a", 1, 3))
    yield* until(Effect.map(a.delivered, (all) => all.length === 3))
    yield* pass(2)
    return a
  })

const deliveredOf = (members: ReadonlyArray<TestMember>) =>
  Effect.map(Effect.forEach(members, (m) => m.delivered), (all) => datas(all.flat()))

describe("row-vanishes-under-its-owner", () => {
  it.scoped("the row of a shard: acquired anew from the cursor, under a later epoch, and told", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      const a = yield* reading(w)
      yield* removeRow(w, shardId(0))
      yield* putTo(w, "orders", shardId(0), names("a", 4, 6))
      yield* pass(5)
      assert.deepStrictEqual(yield* leases(w), [[shardId(0), "a", 2]])
      assert.deepStrictEqual((yield* eventsOf(a, "LeaseRestored")).map(({ epoch }) => epoch), [2])
      assert.deepStrictEqual([...new Set(datas(yield* a.delivered))], names("a", 1, 6))
      assert.deepStrictEqual(yield* positionOf(w, shardId(0)), yield* after(w, shardId(0), 6))
    }))

  it.scoped("the row of a shard, while another member joins and takes it first: one owner, no epoch is used again", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      const a = yield* faulty(w, "b")
      yield* a.consume()
      yield* putTo(w, "orders", shardId(0), names("a", 1, 3))
      yield* until(Effect.map(a.delivered, (all) => all.length === 3))
      yield* pass(2)
      // The row is given to the newcomer in ignorance.
      yield* removeRow(w, shardId(0))
      const joining = { memberId: "a", incarnation: "x", heartbeat: 1, refreshes: 0, streams: [], assignVersion: 1 }
      yield* w.store.acquireLeases("app", joining, [
        { stream: "orders", shardId: shardId(0), takeFrom: Option.none(), epochAbove: 0 }
      ])
      yield* w.store.registerMember("app", joining)
      yield* putTo(w, "orders", shardId(0), names("a", 4, 6))
      yield* pass(5)
      assert.deepStrictEqual(yield* leases(w), [[shardId(0), "b", 2]])
      assert.deepStrictEqual((yield* eventsOf(a, "LeaseRestored")).map(({ epoch }) => epoch), [2])
      assert.deepStrictEqual([...new Set(datas(yield* a.delivered))], names("a", 1, 6))
      assert.deepStrictEqual(yield* positionOf(w, shardId(0)), yield* after(w, shardId(0), 6))
    }))

  it.scoped("the rows of all shards, and a member joins: nothing is lost, and each runs one shard under a new epoch", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld(2)
      const a = yield* reading(w)
      yield* removeRow(w, shardId(0))
      yield* removeRow(w, shardId(1))
      const b = yield* faulty(w, "b")
      yield* b.consume()
      yield* pass(4)
      for (const index of [0, 1]) yield* putTo(w, "orders", shardId(index), names(`${index}-`, 1, 3))
      yield* pass(6)
      // Who was given a shard in ignorance learns it with its first commit at the latest: repeats, but no loss.
      const all = yield* deliveredOf([a, b])
      assert.deepStrictEqual(
        [...new Set(all)].filter((data) => !data.startsWith("a")).sort(),
        [...names("0-", 1, 3), ...names("1-", 1, 3)]
      )
      const held = yield* leases(w)
      assert.deepStrictEqual(held.map(([, owner]) => owner).sort(), ["a", "b"])
      assert.isTrue(held.every(([, , epoch]) => epoch >= 2))
      assert.deepStrictEqual([...(yield* shardsOf(a)), ...(yield* shardsOf(b))].sort(), ids(0, 1))
      for (const index of [0, 1]) {
        assert.deepStrictEqual(
          yield* positionOf(w, shardId(index)),
          yield* after(w, shardId(index), index === 0 ? 6 : 3)
        )
      }
    }))

  it.scoped("all rows of the app, with Latest: a member that has a cursor skips nothing", () =>
    Effect.gen(function*() {
      const { begin, w } = yield* wipeable(1)
      const a = yield* faulty(w, "a", { startFrom: "Latest" })
      yield* a.consume()
      yield* pass(2)
      yield* putTo(w, "orders", shardId(0), names("a", 1, 3))
      yield* until(Effect.map(a.delivered, (all) => all.length === 3))
      yield* pass(2)
      const start = Option.map(yield* w.store.getShards("app", "orders"), (list) => list.start)
      // Records that come while the rows are gone are read by nobody yet.
      yield* w.faults.addKinesis({ on: ["getRecords"], times: 4 }, Faults.fail("Unavailable"))
      yield* begin(yield* StateStore.makeMemory)
      yield* putTo(w, "orders", shardId(0), names("a", 4, 6))
      yield* pass(10)
      assert.deepStrictEqual(datas(yield* a.delivered), names("a", 1, 6))
      assert.deepStrictEqual(yield* leases(w), [[shardId(0), "a", 2]])
      assert.deepStrictEqual(Option.map(yield* w.store.getShards("app", "orders"), (list) => list.start), start)
      assert.deepStrictEqual(yield* positionOf(w, shardId(0)), yield* after(w, shardId(0), 6))
      assert.strictEqual((yield* w.store.listMembers("app")).length, 1)
      assert.isTrue((yield* a.service.health).healthy)
    }))

  it.scoped("a backup of an hour ago: positions do not fall behind those of the owner, epochs do not come again", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      yield* (yield* faulty(w, "z")).close
      const a = yield* reading(w)
      yield* removeRow(w, shardId(0))
      // In the backup it was another's, who is long gone.
      const gone = { memberId: "z", incarnation: "old" }
      yield* w.store.acquireLeases("app", gone, [
        { stream: "orders", shardId: shardId(0), takeFrom: Option.none(), epochAbove: 0 }
      ])
      const first = yield* after(w, shardId(0), 1)
      yield* w.store.commitCheckpoints("app", gone, [
        {
          stream: "orders",
          shardId: shardId(0),
          epoch: 1,
          position: Option.getOrElse(first, () => Position.trimHorizon)
        }
      ])
      yield* putTo(w, "orders", shardId(0), names("a", 4, 6))
      yield* pass(5)
      assert.deepStrictEqual(yield* leases(w), [[shardId(0), "a", 3]])
      assert.deepStrictEqual([...new Set(datas(yield* a.delivered))], names("a", 1, 6))
      assert.deepStrictEqual(yield* positionOf(w, shardId(0)), yield* after(w, shardId(0), 6))
    }))

  it.scoped("unavailable, or throttled, is not absent: nothing of this happens", () =>
    Effect.gen(function*() {
      const w = yield* faultyWorld()
      const a = yield* reading(w)
      for (const reason of ["Unavailable", "Throttled"] as const) {
        yield* w.faults.addStore({ member: "a", times: 10 }, Faults.fail(reason))
      }
      yield* putTo(w, "orders", shardId(0), names("a", 4, 6))
      yield* pass(8)
      assert.deepStrictEqual(yield* leases(w), [[shardId(0), "a", 1]])
      assert.deepStrictEqual(yield* eventsOf(a, "LeaseRestored"), [])
      assert.deepStrictEqual(datas(yield* a.delivered), names("a", 1, 6))
      assert.deepStrictEqual(yield* positionOf(w, shardId(0)), yield* after(w, shardId(0), 6))
    }))
})
