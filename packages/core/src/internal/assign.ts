/**
 * Which member of the group reads which shard.
 *
 * Let `y(s, m)` be the number of shards of stream `s` that member `m` reads. Among all ways to give every shard to a
 * member that has its stream, `assign` takes the one that minimises, each objective deciding only among the optima of
 * those before it,
 *
 *   1. the sum over members of total(m)²: members are level. Where all have the same streams, that is within one shard;
 *   2. the sum over streams and members of y(s, m)²: each stream is spread as evenly as (1) allows;
 *   3. the number of shards taken away from live owners: the sum of max(0, owned(s, m) - y(s, m));
 *   4. the sum of weight(s, m) · y(s, m), with fixed weights that no two different optima of (1) to (3) share.
 *
 * Every member computes this for itself while shards are changing hands, so the result must not depend on how far the
 * others have come. It does not: let T be the target for some owners O, and let any of the shards that T moves be still
 * with its old owner, free, or already with its new one. Then each cell (s, m) owns a number between what it owned in O
 * and T(s, m). Against any other Y, the advantage of T in (3) can only have grown by that, cell by cell, and (1), (2)
 * and (4) do not look at owners. So T is still the optimum, and because of (4) the only one. The shards that make up
 * the numbers are chosen alike in every such state, see `deal`.
 *
 * The optimum is a minimum-cost flow from streams to members, and each objective is convex in each y(s, m). So it is
 * found by adding one shard at a time along the cheapest path, which may move shards dealt before (successive shortest
 * paths with potentials, as in the Hungarian method).
 *
 * @since 0.1.0
 */

/**
 * A live member of the group, with the streams that it can read.
 *
 * @since 0.1.0
 * @category models
 */
export interface AssignMember {
  readonly memberId: string
  readonly streams: ReadonlySet<string>
}

/**
 * A shard that can be read now. Its key is unique over all streams.
 *
 * @since 0.1.0
 * @category models
 */
export interface AssignShard {
  readonly key: string
  readonly stream: string
}

/**
 * All that a target is computed from. The order of members, shards and owners is of no importance.
 *
 * @since 0.1.0
 * @category models
 */
export interface AssignInput {
  /** The live members, with unique ids. */
  readonly members: ReadonlyArray<AssignMember>
  /** The shards of all streams that can be read now: no ended ones, no children that wait for a parent. */
  readonly shards: ReadonlyArray<AssignShard>
  /** Shard key to present owner. An owner that is not live, or does not have the stream, counts as none. */
  readonly owners: ReadonlyMap<string, string>
}

/**
 * The version of the function. Two versions in one group give two targets, so a group uses the lowest that is present;
 * whatever changes a result, the weights included, needs a new one.
 *
 * @since 0.1.0
 * @category constants
 */
export const version = 1

/**
 * Computes the member of each shard. A shard whose stream no live member has is absent from the result.
 *
 * @since 0.1.0
 * @category constructors
 */
export const assign = (input: AssignInput): ReadonlyMap<string, string> => {
  const streams = makeNetwork(input)
  if (isLarge(streams)) return dealPool(streams, input.owners)
  balance(streams)
  return deal(streams, input.owners)
}

// -----------------------------------------------------------------------------
// The network
// -----------------------------------------------------------------------------

interface Vertex {
  /** Subtracted from costs so that no step is cheaper than nothing, as Dijkstra's algorithm needs it. */
  majorPotential: number
  minorPotential: number
  /** The cheapest way here from the stream that is being served, and its last step. */
  majorDistance: number
  minorDistance: number
  via: Cell | undefined
}

interface Stream extends Vertex {
  readonly _tag: "Stream"
  readonly keys: ReadonlyArray<string>
  readonly cells: Array<Cell>
}

interface Member extends Vertex {
  readonly _tag: "Member"
  readonly id: string
  readonly streams: ReadonlySet<string>
  readonly filled: Set<Cell>
  total: number
}

interface Cell {
  readonly stream: Stream
  readonly member: Member
  readonly weight: number
  owned: number
  count: number
}

const vertex = (): Vertex => ({
  majorPotential: 0,
  minorPotential: 0,
  majorDistance: Infinity,
  minorDistance: Infinity,
  via: undefined
})

const compare = (a: string, b: string): number => a < b ? -1 : a > b ? 1 : 0

const makeNetwork = (input: AssignInput): Array<Stream> => {
  const members = input.members
    .map(({ memberId, streams }): Member => ({
      ...vertex(),
      _tag: "Member",
      id: memberId,
      streams,
      filled: new Set(),
      total: 0
    }))
    .sort((a, b) => compare(a.id, b.id))
  const keysOf = new Map<string, Array<string>>()
  for (const { key, stream } of input.shards) {
    const keys = keysOf.get(stream)
    if (keys === undefined) {
      keysOf.set(stream, [key])
    } else {
      keys.push(key)
    }
  }
  const size = Math.min(members.length, keysOf.size) + 1
  const scale = Math.floor(2 ** 50 / (size * size))
  const random = makeRandom(version)
  const streams: Array<Stream> = []
  let turn = 0
  for (const [name, keys] of [...keysOf].sort(([a], [b]) => compare(a, b))) {
    const eligible = members.filter((member) => member.streams.has(name))
    if (eligible.length === 0) continue
    const stream: Stream = { ...vertex(), _tag: "Stream", keys: keys.sort(compare), cells: [] }
    streams.push(stream)
    const extra = keys.length % eligible.length
    const owned = new Map<string, number>()
    for (const key of keys) {
      const owner = input.owners.get(key)
      if (owner !== undefined) owned.set(owner, (owned.get(owner) ?? 0) + 1)
    }
    eligible.forEach((member, i) => {
      const seat = (i + eligible.length - turn % eligible.length) % eligible.length
      const weight = Math.floor(random() * scale) + (seat < extra ? 0 : size * scale)
      stream.cells.push({ stream, member, weight, owned: owned.get(member.id) ?? 0, count: 0 })
    })
    turn += extra
  }
  return streams
}

/** Mulberry32, two draws a number: the weights must be the same in every process and release. */
const makeRandom = (seed: number) => {
  let state = seed
  const next = () => {
    state = (state + 0x6d2b79f5) | 0
    let z = Math.imul(state ^ (state >>> 15), state | 1)
    z ^= z + Math.imul(z ^ (z >>> 7), z | 61)
    return (z ^ (z >>> 14)) >>> 0
  }
  return () => (next() * 2 ** 21 + (next() >>> 11)) / 2 ** 53
}

// -----------------------------------------------------------------------------
// The counts
// -----------------------------------------------------------------------------

const balance = (streams: ReadonlyArray<Stream>): void => {
  const members = new Set(streams.flatMap((stream) => stream.cells.map((cell) => cell.member)))
  const shards = streams.reduce((n, stream) => n + stream.keys.length, 0)
  const spread = Math.min(members.size, streams.length) + 1
  const level = spread * (2 * shards + 2)

  let frontier: Array<Stream | Member> = []
  let reached: Array<Stream | Member> = []
  let end: Member | undefined
  let endMajor = Infinity
  let endMinor = Infinity

  const reach = (node: Stream | Member, via: Cell | undefined, major: number, minor: number): boolean => {
    if (major > endMajor || (major === endMajor && minor >= endMinor)) return false
    if (major > node.majorDistance || (major === node.majorDistance && minor >= node.minorDistance)) return false
    if (node.majorDistance === Infinity) {
      frontier.push(node)
      reached.push(node)
    }
    node.majorDistance = major
    node.minorDistance = minor
    node.via = via
    return true
  }

  const closest = () => {
    let at = -1
    let best: Stream | Member | undefined
    for (let i = 0; i < frontier.length; i++) {
      const node = frontier[i]
      if (
        node !== undefined &&
        (best === undefined || node.majorDistance < best.majorDistance ||
          (node.majorDistance === best.majorDistance && node.minorDistance < best.minorDistance))
      ) {
        best = node
        at = i
      }
    }
    const last = frontier.pop()
    if (last !== undefined && last !== best) frontier[at] = last
    return best
  }

  const route = (source: Stream) => {
    reach(source, undefined, 0, 0)
    for (let node = closest(); node !== undefined; node = closest()) {
      const major = node.majorDistance + node.majorPotential
      const minor = node.minorDistance + node.minorPotential
      if (node.majorDistance > endMajor || (node.majorDistance === endMajor && node.minorDistance >= endMinor)) break
      if (node._tag === "Stream") {
        for (const cell of node.cells) {
          const { count, member, owned, weight } = cell
          const major1 = major + spread * (2 * count + 1) - (count < owned ? 1 : 0) - member.majorPotential
          const minor1 = minor + weight - member.minorPotential
          if (reach(member, cell, major1, minor1)) {
            const major2 = major1 + level * (2 * member.total + 1) + member.majorPotential
            const minor2 = minor1 + member.minorPotential
            if (major2 < endMajor || (major2 === endMajor && minor2 < endMinor)) {
              end = member
              endMajor = major2
              endMinor = minor2
            }
          }
        }
      } else {
        for (const cell of node.filled) {
          const { count, owned, stream, weight } = cell
          reach(
            stream,
            cell,
            major - spread * (2 * count - 1) + (count <= owned ? 1 : 0) - stream.majorPotential,
            minor - weight - stream.minorPotential
          )
        }
      }
    }
    let node: Stream | Member | undefined = end
    if (end) end.total++
    while (node !== undefined && node.via !== undefined) {
      const cell: Cell = node.via
      if (node._tag === "Member") {
        if (cell.count++ === 0) cell.member.filled.add(cell)
        node = cell.stream
      } else {
        if (--cell.count === 0) cell.member.filled.delete(cell)
        node = cell.member
      }
    }
    for (const node of reached) {
      if (node.majorDistance < endMajor || (node.majorDistance === endMajor && node.minorDistance < endMinor)) {
        node.majorPotential += node.majorDistance - endMajor
        node.minorPotential += node.minorDistance - endMinor
      }
      node.majorDistance = Infinity
      node.minorDistance = Infinity
      node.via = undefined
    }
    frontier = []
    reached = []
    end = undefined
    endMajor = Infinity
    endMinor = Infinity
  }

  if (isEven(streams)) { for (const stream of streams) startEven(stream, spread) }
  for (const stream of streams) {
    for (let n = dealt(stream); n < stream.keys.length; n++) route(stream)
  }
}

const isEven = (streams: ReadonlyArray<Stream>): boolean => {
  const members = new Set(streams.flatMap((stream) => stream.cells.map((cell) => cell.member)))
  return streams.every((stream) => stream.cells.length === members.size)
}

const dealt = (stream: Stream): number => stream.cells.reduce((sum, cell) => sum + cell.count, 0)

/**
 * Where all members have the same streams, each of them has at least the rounded-down share of each stream in every
 * optimum, so only the rest has to find its way. With this potential no step is cheaper than nothing, as before.
 */
const startEven = (stream: Stream, spread: number): void => {
  const share = Math.floor(stream.keys.length / stream.cells.length)
  stream.majorPotential = -2 * spread * share
  for (const cell of stream.cells) {
    cell.count = share
    cell.member.total += share
    if (share > 0) cell.member.filled.add(cell)
  }
}

// -----------------------------------------------------------------------------
// Large groups of many small streams
// -----------------------------------------------------------------------------

/** How many steps the optimum may cost: about a tenth of a second, since nothing else runs meanwhile. */
const maxSteps = 2_000_000

const isLarge = (streams: ReadonlyArray<Stream>): boolean => {
  const cells = streams.reduce((sum, stream) => sum + stream.cells.length, 0)
  const even = isEven(streams)
  const routes = streams.reduce(
    (sum, stream) => sum + (even ? stream.keys.length % stream.cells.length : stream.keys.length),
    0
  )
  return routes * cells > maxSteps
}

/**
 * All shards as one pool: level members and the fewest moves, found in one pass; only the spread of each single stream
 * is left to the order of the keys. It is stable for the same reason: who gets one more than the rounded-down share is
 * whoever has more already, then the first by id, and a member that owns more than its share keeps the first ones.
 */
const dealPool = (streams: ReadonlyArray<Stream>, owners: ReadonlyMap<string, string>): ReadonlyMap<string, string> => {
  const members = [...new Set(streams.flatMap((stream) => stream.cells.map((cell) => cell.member)))]
    .sort((a, b) => compare(a.id, b.id))
  const byId = new Map(members.map((member) => [member.id, member]))
  const shards = streams.flatMap((stream) => {
    const readers = new Set(stream.cells.map((cell) => cell.member))
    return stream.keys.map((key) => {
      const owner = byId.get(owners.get(key) ?? "")
      return { key, readers, owner: owner !== undefined && readers.has(owner) ? owner : undefined }
    })
  })
  const owned = new Map<Member, number>()
  for (const { owner } of shards) if (owner !== undefined) owned.set(owner, (owned.get(owner) ?? 0) + 1)
  const share = Math.floor(shards.length / members.length)
  const hasMore = (member: Member) => (owned.get(member) ?? 0) > share
  const withOneMore = new Set(
    [...members.filter(hasMore), ...members.filter((member) => !hasMore(member))].slice(
      0,
      shards.length % members.length
    )
  )
  const hasRoom = (member: Member) => member.total < share + (withOneMore.has(member) ? 1 : 0)

  const target = new Map<string, string>()
  const give = (key: string, member: Member) => {
    member.total++
    target.set(key, member.id)
  }
  const pool: Array<typeof shards[number]> = []
  for (const shard of shards) {
    if (shard.owner !== undefined && hasRoom(shard.owner)) {
      give(shard.key, shard.owner)
    } else {
      pool.push(shard)
    }
  }
  for (const { key, readers } of pool) {
    const member = members.find((one) => readers.has(one) && hasRoom(one)) ??
      [...readers].reduce((least, one) => one.total < least.total ? one : least)
    give(key, member)
  }
  return target
}

// -----------------------------------------------------------------------------
// The shards
// -----------------------------------------------------------------------------

const deal = (streams: ReadonlyArray<Stream>, owners: ReadonlyMap<string, string>): ReadonlyMap<string, string> => {
  const target = new Map<string, string>()
  for (const { cells, keys } of streams) {
    const left = new Map(cells.map((cell) => [cell.member.id, cell.count]))
    const pool: Array<string> = []
    for (const key of keys) {
      const owner = owners.get(key)
      const n = owner === undefined ? 0 : left.get(owner) ?? 0
      if (owner !== undefined && n > 0) {
        left.set(owner, n - 1)
        target.set(key, owner)
      } else {
        pool.push(key)
      }
    }
    let at = 0
    for (const [id, n] of left) {
      for (let i = 0; i < n; i++) {
        const key = pool[at++]
        if (key !== undefined) target.set(key, id)
      }
    }
  }
  return target
}
