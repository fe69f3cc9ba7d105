import { assert, describe, it } from "@effect/vitest"
import { FastCheck } from "effect"
import { assign, type AssignInput, type AssignMember, type AssignShard, version } from "../src/internal/assign.js"

type Target = ReadonlyMap<string, string>

// -----------------------------------------------------------------------------
// Groups
// -----------------------------------------------------------------------------

const shardsOf = (sizes: ReadonlyArray<number>): ReadonlyArray<AssignShard> =>
  sizes.flatMap((size, s) =>
    Array.from({ length: size }, (_, i) => ({ key: `stream-${s}/${i}`, stream: `stream-${s}` }))
  )

const membersOf = (ids: ReadonlyArray<string>, shards: ReadonlyArray<AssignShard>): ReadonlyArray<AssignMember> => {
  const streams = new Set(shards.map(({ stream }) => stream))
  return ids.map((memberId) => ({ memberId, streams }))
}

const free: Target = new Map()

const ids = (maxLength: number) =>
  FastCheck.uniqueArray(FastCheck.nat(0xffff).map((n) => n.toString(16)), { minLength: 1, maxLength })

const times = (size: FastCheck.Arbitrary<number>, minLength: number, maxLength: number) =>
  FastCheck.array(size, { minLength, maxLength })

const one = FastCheck.constant(1)
const few = FastCheck.integer({ min: 1, max: 9 })
const many = FastCheck.integer({ min: 20, max: 60 })

const oneStream = FastCheck.oneof(times(few, 1, 1), times(many, 1, 1))
const oneShardStreams = times(one, 1, 30)
const anyStreams = FastCheck.oneof(
  oneStream,
  oneShardStreams,
  times(few, 1, 8),
  times(FastCheck.integer({ min: 1, max: 4 }), 8, 24),
  FastCheck.tuple(times(many, 1, 2), times(one, 0, 9)).map(([big, small]) => [...big, ...small])
)

/** Owners of all kinds: none, dead, without the stream, one for nearly all, or balanced. */
const owners = (
  members: ReadonlyArray<AssignMember>,
  shards: ReadonlyArray<AssignShard>
): FastCheck.Arbitrary<Target> => {
  const anybody = FastCheck.constantFrom(undefined, "dead", ...members.map(({ memberId }) => memberId))
  const somebody = FastCheck.constantFrom(...members.map(({ memberId }) => memberId))
  const each = (owner: FastCheck.Arbitrary<string | undefined>) =>
    FastCheck.tuple(...shards.map(() => owner)).map((owners) =>
      new Map(shards.flatMap(({ key }, i) => {
        const owner = owners[i]
        return owner === undefined ? [] : [[key, owner]]
      }))
    )
  return FastCheck.oneof(
    FastCheck.constant(free),
    each(anybody),
    each(somebody),
    somebody.chain((first) => each(FastCheck.oneof({ weight: 5, arbitrary: FastCheck.constant(first) }, anybody))),
    FastCheck.constant(assign({ members, shards, owners: free }))
  )
}

/** A group whose members all have the same streams. */
const evenGroup = (sizes: FastCheck.Arbitrary<Array<number>>, maxMembers = 12): FastCheck.Arbitrary<AssignInput> =>
  FastCheck.tuple(sizes.map(shardsOf), ids(maxMembers)).chain(([shards, ids]) => {
    const members = membersOf(ids, shards)
    return FastCheck.record({
      members: FastCheck.constant(members),
      shards: FastCheck.constant(shards),
      owners: owners(members, shards)
    })
  })

/** A group whose members have some of the streams each. */
const unevenGroup = (sizes: FastCheck.Arbitrary<Array<number>>, maxMembers = 12): FastCheck.Arbitrary<AssignInput> =>
  FastCheck.tuple(sizes.map(shardsOf), ids(maxMembers)).chain(([shards, ids]) => {
    const some = FastCheck.subarray([...new Set(shards.map(({ stream }) => stream))])
    return FastCheck.tuple(...ids.map((memberId) => some.map((names) => ({ memberId, streams: new Set(names) }))))
      .chain(
        (members) =>
          FastCheck.record({
            members: FastCheck.constant(members),
            shards: FastCheck.constant(shards),
            owners: owners(members, shards)
          })
      )
  })

const anyGroup = FastCheck.oneof(evenGroup(anyStreams), unevenGroup(anyStreams))

// -----------------------------------------------------------------------------
// What is measured
// -----------------------------------------------------------------------------

const count = (keys: Iterable<string>): ReadonlyMap<string, number> => {
  const counts = new Map<string, number>()
  for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1)
  return counts
}

const totals = ({ members }: AssignInput, target: Target): ReadonlyArray<number> => {
  const counts = count(target.values())
  return members.map(({ memberId }) => counts.get(memberId) ?? 0)
}

/** The shards that are taken away from somebody who has them and could keep them. */
const taken = ({ members, owners, shards }: AssignInput, target: Target): ReadonlyArray<string> =>
  shards.filter(({ key, stream }) => {
    const owner = members.find(({ memberId }) => memberId === owners.get(key))
    return owner?.streams.has(stream) === true && target.get(key) !== owner.memberId
  }).map(({ key }) => key)

const squares = (numbers: Iterable<number>): number => [...numbers].reduce((sum, n) => sum + n * n, 0)

/** The objectives 1 to 3. */
const objectives = (input: AssignInput, target: Target): readonly [number, number, number] => [
  squares(totals(input, target)),
  squares(count(input.shards.map(({ key, stream }) => `${stream} ${target.get(key)}`)).values()),
  taken(input, target).length
]

const compare = (self: ReadonlyArray<number>, that: ReadonlyArray<number>): number => {
  const i = self.findIndex((n, i) => n !== that[i])
  return i === -1 ? 0 : (self[i] ?? 0) - (that[i] ?? 0)
}

/** Each way to give the shards to members that have their streams. */
const everyTarget = ({ members, shards }: AssignInput): ReadonlyArray<Target> =>
  shards.reduce<ReadonlyArray<Target>>((targets, { key, stream }) => {
    const able = members.filter(({ streams }) => streams.has(stream))
    return able.length === 0
      ? targets
      : targets.flatMap((target) => able.map(({ memberId }) => new Map([...target, [key, memberId]])))
  }, [free])

/**
 * Whether some exchange along a cycle of streams and members, of whatever length, makes the objectives 1 to 3 better:
 * Bellman and Ford's search for a negative cycle. Costs are convex, so there is none if and only if they are optimal.
 */
const canBeImproved = ({ members, owners, shards }: AssignInput, target: Target): boolean => {
  const big = 4 * shards.length + 4
  const cell = (stream: string, memberId: string) => `${stream} ${memberId}`
  const given = count(shards.map(({ key, stream }) => cell(stream, target.get(key) ?? "")))
  const owned = count(shards.map(({ key, stream }) => cell(stream, owners.get(key) ?? "")))
  const total = count(target.values())
  const arcs: Array<readonly [from: string, to: string, cost: number]> = []
  for (const { memberId, streams } of members) {
    const n = total.get(memberId) ?? 0
    arcs.push([memberId, "end", big * big * (2 * n + 1)])
    if (n > 0) arcs.push(["end", memberId, -big * big * (2 * n - 1)])
    for (const stream of streams) {
      const y = given.get(cell(stream, memberId)) ?? 0
      const c = owned.get(cell(stream, memberId)) ?? 0
      arcs.push([stream, memberId, big * (2 * y + 1) - (y < c ? 1 : 0)])
      if (y > 0) arcs.push([memberId, stream, -big * (2 * y - 1) + (y <= c ? 1 : 0)])
    }
  }
  const distance = new Map<string, number>()
  const relax = () =>
    arcs.filter(([from, to, cost]) => {
      const shorter = (distance.get(from) ?? 0) + cost
      if (shorter >= (distance.get(to) ?? 0)) return false
      distance.set(to, shorter)
      return true
    }).length > 0
  const vertices = new Set(arcs.flatMap(([from, to]) => [from, to])).size
  for (let i = 0; i <= vertices; i++) {
    if (!relax()) return false
  }
  return true
}

const assertSame = (actual: Target, expected: Target) => {
  assert.deepStrictEqual(new Map([...actual].sort()), new Map([...expected].sort()))
}

const assertWithinOne = (numbers: ReadonlyArray<number>) => {
  assert.isAtMost(Math.max(...numbers) - Math.min(...numbers), 1)
}

// -----------------------------------------------------------------------------
// Tests
// -----------------------------------------------------------------------------

describe("assign", () => {
  describe("what is assigned", () => {
    it.prop("does not depend on the order of the input", {
      orders: anyGroup.chain(({ members, owners, shards }) =>
        FastCheck.tuple(
          FastCheck.constant({ members, owners, shards }),
          FastCheck.record({
            members: FastCheck.shuffledSubarray([...members], { minLength: members.length }),
            shards: FastCheck.shuffledSubarray([...shards], { minLength: shards.length }),
            owners: FastCheck.shuffledSubarray([...owners], { minLength: owners.size }).map((all) => new Map(all))
          })
        )
      )
    }, ({ orders: [one, other] }) => {
      assertSame(assign(other), assign(one))
    })

    it.prop(
      "each shard that somebody can read goes to somebody who can, and no other",
      { group: anyGroup },
      ({ group }) => {
        const target = assign(group)
        for (const { key, stream } of group.shards) {
          const able = group.members.filter(({ streams }) => streams.has(stream)).map(({ memberId }) => memberId)
          const memberId = target.get(key)
          if (able.length === 0) {
            assert.isUndefined(memberId)
          } else {
            assert.include(able, memberId)
          }
        }
        const keys = new Set(group.shards.map(({ key }) => key))
        assert.isTrue([...target.keys()].every((key) => keys.has(key)))
      }
    )

    it("nothing is assigned where nobody is", () => {
      assert.strictEqual(assign({ members: [], shards: shardsOf([2, 1]), owners: free }).size, 0)
      assert.strictEqual(assign({ members: membersOf(["a"], []), shards: [], owners: free }).size, 0)
    })
  })

  describe("balance", () => {
    it.prop("within one shard, in all and of each stream", { group: evenGroup(anyStreams) }, ({ group }) => {
      const target = assign(group)
      assertWithinOne(totals(group, target))
      for (const name of new Set(group.shards.map(({ stream }) => stream))) {
        const ofStream = group.shards.filter(({ stream }) => stream === name)
        assertWithinOne(totals(group, new Map(ofStream.map(({ key }) => [key, target.get(key) ?? ""]))))
      }
    }, { fastCheck: { numRuns: 300 } })

    const tiny = FastCheck.oneof(times(one, 1, 6), times(FastCheck.integer({ min: 1, max: 3 }), 1, 2))
    it.prop(
      "no other way is better: all of them, where they are few",
      { group: FastCheck.oneof(evenGroup(tiny, 3), unevenGroup(tiny, 3)) },
      ({ group }) => {
        const [least] = everyTarget(group).map((target) => objectives(group, target)).sort(compare)
        assert.deepStrictEqual(objectives(group, assign(group)), least)
      },
      { fastCheck: { numRuns: 500 } }
    )

    it.prop("no exchange makes it better, however long", { group: anyGroup }, ({ group }) => {
      assert.isFalse(canBeImproved(group, assign(group)))
    }, { fastCheck: { numRuns: 300 } })
  })

  describe("stability", () => {
    const halfMoved = anyGroup.chain((group) => {
      const target = assign(group)
      return FastCheck.tuple(...group.shards.map(() => FastCheck.constantFrom("before", "between", "after"))).map(
        (stages): readonly [AssignInput, Target, Target] => {
          const owners = group.shards.flatMap(({ key }, i) => {
            const before = group.owners.get(key)
            const after = target.get(key)
            const owner = before === after || stages[i] === "before"
              ? before
              : stages[i] === "after"
              ? after
              : undefined
            return owner === undefined ? [] : [[key, owner] as const]
          })
          return [group, target, new Map(owners)]
        }
      )
    })

    it.prop("the target is the same while shards are half moved", { halfMoved }, ({ halfMoved }) => {
      const [group, target, owners] = halfMoved
      assertSame(assign({ ...group, owners }), target)
    }, { fastCheck: { numRuns: 1000 } })

    it.prop("once there, nothing moves any more", { group: anyGroup }, ({ group }) => {
      const target = assign(group)
      assertSame(assign({ ...group, owners: target }), target)
    })

    it.prop(
      "where nobody owns anything, streams are dealt out around one table",
      { group: evenGroup(anyStreams) },
      ({ group }) => {
        const target = assign({ ...group, owners: free })
        const table = group.members.map(({ memberId }) => memberId).sort()
        const dealt = [...group.shards].sort((a, b) => a.stream < b.stream ? -1 : a.stream > b.stream ? 1 : 0)
          .map(({ stream }, i) => `${stream} ${table[i % table.length]}`)
        assert.deepStrictEqual(
          group.shards.map(({ key, stream }) => `${stream} ${target.get(key)}`).sort(),
          dealt.sort()
        )
      }
    )

    it("results of version 1 stay what they are", () => {
      const members = ["a", "b", "c"].map((memberId) => ({
        memberId,
        streams: new Set(memberId === "c" ? ["stream-0", "stream-2", "stream-3"] : ["stream-0", "stream-1", "stream-3"])
      }))
      const target = assign({
        members,
        shards: shardsOf([5, 3, 2, 1]),
        owners: new Map([["stream-0/0", "a"], ["stream-0/1", "a"], ["stream-0/2", "a"], ["stream-3/0", "dead"]])
      })
      assert.strictEqual(version, 1)
      assertSame(
        target,
        new Map([
          ["stream-0/0", "a"],
          ["stream-0/1", "a"],
          ["stream-0/2", "b"],
          ["stream-0/3", "b"],
          ["stream-0/4", "c"],
          ["stream-1/0", "b"],
          ["stream-1/1", "b"],
          ["stream-1/2", "a"],
          ["stream-2/0", "c"],
          ["stream-2/1", "c"],
          ["stream-3/0", "c"]
        ])
      )
    })
  })

  describe("joins and leaves", () => {
    const simple = FastCheck.oneof(evenGroup(oneStream), evenGroup(oneShardStreams))
    const join = (group: AssignInput, memberId: string): AssignInput => ({
      ...group,
      members: [...group.members, { memberId, streams: new Set(group.shards.map(({ stream }) => stream)) }],
      owners: assign(group)
    })
    const leave = (group: AssignInput, memberId: string): AssignInput => ({
      ...group,
      members: group.members.filter((member) => member.memberId !== memberId),
      owners: assign(group)
    })
    const moved = ({ owners, shards }: AssignInput, target: Target): ReadonlyArray<string> =>
      shards.map(({ key }) => key).filter((key) => target.get(key) !== owners.get(key))

    it.prop(
      "a newcomer gets its share, and nothing else moves",
      { group: simple, id: ids(1) },
      ({ group, id: [id] }) => {
        const newcomer = `new ${id}`
        const joined = join(group, newcomer)
        const target = assign(joined)
        assert.strictEqual(moved(joined, target).length, Math.floor(group.shards.length / joined.members.length))
        assert.isTrue(moved(joined, target).every((key) => target.get(key) === newcomer))
      }
    )

    it.prop("what a member leaves moves, and nothing else", { group: simple, n: FastCheck.nat() }, ({ group, n }) => {
      const leaver = group.members[n % group.members.length]?.memberId ?? ""
      const left = leave(group, leaver)
      const target = assign(left)
      assert.deepStrictEqual(
        moved(left, target),
        group.shards.map(({ key }) => key).filter((key) => left.owners.get(key) === leaver)
      )
    })

    it.prop(
      "no more moves than balance needs, whatever the streams",
      { group: anyGroup, id: ids(1) },
      ({ group, id: [id] }) => {
        for (const changed of [join(group, `new ${id}`), leave(group, group.members[0]?.memberId ?? "")]) {
          assert.isFalse(canBeImproved(changed, assign(changed)))
        }
      }
    )
  })

  describe("cases", () => {
    const shards = shardsOf([32])
    const eight = Array.from({ length: 8 }, (_, i) => `${i}8f${i}`)
    const spread = (ids: ReadonlyArray<string>, owners: Target, of = shards) =>
      assign({ members: membersOf(ids, of), shards: of, owners })
    const difference = (before: Target, after: Target) => [...before].filter(([key, owner]) => after.get(key) !== owner)

    it("members-ranked-by-random-id: a ninth member takes three of 32 shards, wherever its id stands", () => {
      const before = spread(eight, free)
      const random = Array.from({ length: 98 }, (_, i) => ((i * 40_503) % 65_536).toString(16).padStart(5, "0"))
      for (const newcomer of ["", ...random, "~"]) {
        const joined = spread([...eight, newcomer], before)
        const moves = difference(before, joined)
        assert.strictEqual(moves.length, 3)
        assert.isTrue(moves.every(([key]) => joined.get(key) === newcomer))
        const left = spread(eight, joined)
        assert.strictEqual(difference(joined, left).length, 3)
      }
    })

    it("members-ranked-by-random-id: one that restarts again and again does not make the others move", () => {
      const others = eight.slice(1)
      let target = spread(eight, free)
      for (let i = 0; i < 10; i++) {
        const without = spread(others, target)
        const again = spread([...others, `restart ${(i * 7) % 10}`], without)
        assert.strictEqual(difference(target, without).length, 4)
        assert.strictEqual(difference(without, again).length, 4)
        assertWithinOne([...count(again.values()).values()])
        target = again
      }
    })

    it("members-ranked-by-random-id: with more members than shards, a newcomer stays idle", () => {
      for (const three of [shardsOf([3]), shardsOf([1, 1, 1])]) {
        const before = spread(eight, free, three)
        assert.strictEqual(new Set(before.values()).size, 3)
        for (const newcomer of ["", "4", "~"]) {
          assertSame(spread([...eight, newcomer], before, three), before)
        }
      }
    })

    it("more one-shard streams than members are spread", () => {
      const streams = shardsOf(Array.from({ length: 10 }, () => 1))
      const members = membersOf(["a", "b", "c", "d"], streams)
      const target = assign({ members, shards: streams, owners: free })
      assert.deepStrictEqual([...count(target.values()).values()].sort(), [2, 2, 3, 3])
    })

    it("ended-shards-are-not-free: members that come late get their part of what can be read now", () => {
      const eightShards = shardsOf([8])
      const target = spread(["a", "b", "c", "d"], new Map(eightShards.map(({ key }) => [key, "a"])), eightShards)
      assert.deepStrictEqual([...count(target.values()).values()], [2, 2, 2, 2])
    })

    it("dead owners, and owners without the stream, hold nothing", () => {
      const two = shardsOf([2, 2])
      const members = [
        { memberId: "a", streams: new Set(["stream-0"]) },
        { memberId: "b", streams: new Set(["stream-0", "stream-1"]) }
      ]
      const owners = new Map([["stream-0/0", "dead"], ["stream-0/1", "dead"], ["stream-1/0", "a"], ["stream-1/1", "a"]])
      const target = assign({ members, shards: two, owners })
      assertSame(target, new Map([["stream-0/0", "a"], ["stream-0/1", "a"], ["stream-1/0", "b"], ["stream-1/1", "b"]]))
    })

    const s = { key: "S/0", stream: "S" }
    const t = { key: "T/0", stream: "T" }
    const u = { key: "U/0", stream: "U" }
    const v = { key: "V/0", stream: "V" }

    it("unlisted-stream-still-read (a): who restarts with fewer streams leaves the others to those who have them", () => {
      const target = assign({
        members: [{ memberId: "m1", streams: new Set(["S"]) }, { memberId: "m2", streams: new Set(["S", "T", "U"]) }],
        shards: [s, t, u],
        owners: new Map([[s.key, "m2"], [t.key, "m1"], [u.key, "m1"]])
      })
      assertSame(target, new Map([[s.key, "m1"], [t.key, "m2"], [u.key, "m2"]]))
    })

    it("unlisted-stream-still-read (b): a stream that only the new deployment knows is read by it", () => {
      const target = assign({
        members: [
          { memberId: "m1", streams: new Set(["S", "T", "U", "V"]) },
          { memberId: "m2", streams: new Set(["S", "T", "U"]) }
        ],
        shards: [s, t, u, v],
        owners: new Map([[s.key, "m1"], [t.key, "m1"], [u.key, "m2"]])
      })
      assert.strictEqual(target.get(v.key), "m1")
      assert.strictEqual(target.get(u.key), "m2")
      assert.deepStrictEqual([...count(target.values()).values()], [2, 2])
    })

    it("unlisted-stream-still-read (e): a stream that nobody has is not given to anybody", () => {
      assert.strictEqual(
        assign({ members: membersOf(["m1"], [s]), shards: [t], owners: new Map([[t.key, "m1"]]) }).size,
        0
      )
    })
  })
})
