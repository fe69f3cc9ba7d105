/**
 * Which member of the group reads which shard.
 *
 * Say that member `m` gets `y(s, m)` shards of stream `s`. Of all ways to give each shard to a member that has its
 * stream, `assign` takes the best by these four objectives, each of which decides among what those before it leave:
 *
 *   1. the least sum over members of `total(m)²`: members are level, within one shard if all have the same streams;
 *   2. the least sum over streams and members of `y(s, m)²`: each stream is spread as evenly as the first allows;
 *   3. the least sum of `max(0, owned(s, m) - y(s, m))`: the fewest shards are taken away from live owners;
 *   4. the first in an order that is the same whoever owns what: streams are dealt out around one table, each from where
 *      the last one stopped, and the earlier seat has the greater number.
 *
 * Every member computes this for itself while shards change hands, so the target must not depend on how far the others
 * have come. It does not. Let T be the target for some owners, and let each shard that T moves be with its old owner,
 * with nobody, or with its new owner already. What `m` owns of `s` is then something between what it was and what T
 * gives. That can only add to the advantage that T has over any other choice in the third objective, and the rest do not
 * look at owners. So T is the best still, and thanks to the fourth the only one. `deal` says the same of the shards that
 * make up the numbers.
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
 * What a target is computed from. The order of members, shards and owners does not matter.
 *
 * @since 0.1.0
 * @category models
 */
export interface AssignInput {
  /** The live members, with unique ids. */
  readonly members: ReadonlyArray<AssignMember>
  /** The shards of all streams that can be read now: not those that ended, nor children that wait for a parent. */
  readonly shards: ReadonlyArray<AssignShard>
  /** Shard key to present owner. An owner that is not live, or does not have the stream, counts as none. */
  readonly owners: ReadonlyMap<string, string>
}

/**
 * The version of the function. Two of them in one group aim at two targets, so a group uses the lowest that is present,
 * and whatever changes a result needs a new one. Members publish it from the start; as long as there is only this one,
 * nothing reads it.
 *
 * @since 0.1.0
 * @category constants
 */
export const version = 1

/**
 * The member of each shard. A shard whose stream no live member has is absent.
 *
 * @since 0.1.0
 * @category constructors
 */
export const assign = (input: AssignInput): ReadonlyMap<string, string> => {
  const network = makeNetwork(input)
  balance(network)
  settle(network)
  return deal(network, input.owners)
}

// -----------------------------------------------------------------------------
// The network: shards flow from streams to members
// -----------------------------------------------------------------------------

interface Network {
  readonly streams: ReadonlyArray<Stream>
  readonly members: ReadonlyArray<Member>
  /** What the first and the second objective weigh, where a shard taken from its owner weighs 1. */
  readonly levelWeight: number
  readonly spreadWeight: number
}

interface Vertex {
  potential: number
  distance: number
  search: number
}

interface Stream extends Vertex {
  readonly _tag: "Stream"
  readonly keys: ReadonlyArray<string>
  /** The members that have the stream, in the order in which it is dealt out. */
  readonly seats: ReadonlyArray<Member>
  /** What is known to be everybody's in every optimum. */
  readonly least: number
  /** By the index of the member, as is what follows. */
  readonly owned: Int32Array
  readonly given: Int32Array
  /** 1 if another optimum may give one more, -1 if one less. */
  readonly slack: Int8Array
  via: Member | undefined
}

interface Member extends Vertex {
  readonly _tag: "Member"
  readonly id: string
  readonly index: number
  readonly least: number
  total: number
  /** The streams of which it is given more than the least. */
  readonly reads: Set<Stream>
  via: Stream | undefined
}

const compare = (a: string, b: string): number => a < b ? -1 : a > b ? 1 : 0

const makeStream = (
  keys: ReadonlyArray<string>,
  seats: ReadonlyArray<Member>,
  size: number,
  least: number
): Stream => ({
  _tag: "Stream",
  keys,
  seats,
  least,
  owned: new Int32Array(size),
  given: new Int32Array(size).fill(least),
  slack: new Int8Array(size),
  potential: 0,
  distance: Infinity,
  search: 0,
  via: undefined
})

const makeNetwork = (input: AssignInput): Network => {
  const table = [...input.members].sort((a, b) => compare(a.memberId, b.memberId))
  const keysOf = new Map<string, Array<string>>()
  for (const { key, stream } of input.shards) {
    const keys = keysOf.get(stream)
    if (keys === undefined) {
      keysOf.set(stream, [key])
    } else {
      keys.push(key)
    }
  }
  const named = [...keysOf]
    .filter(([name]) => table.some(({ streams }) => streams.has(name)))
    .sort(([a], [b]) => compare(a, b))
  const sum = (f: (keys: ReadonlyArray<string>) => number) => named.reduce((total, [, keys]) => total + f(keys), 0)
  const shards = sum((keys) => keys.length)
  // Where all have the same streams, nobody gets less than the whole part of an even share: one need not search for it.
  const isEven = table.every(({ streams }) => named.every(([name]) => streams.has(name)))
  const share = (n: number) => isEven ? Math.floor(n / table.length) : 0

  const members = table.map(({ memberId }, index): Member => ({
    _tag: "Member",
    id: memberId,
    index,
    least: share(shards),
    total: sum((keys) => share(keys.length)),
    reads: new Set(),
    potential: 0,
    distance: Infinity,
    search: 0,
    via: undefined
  }))
  const indexOf = new Map<string | undefined, number>(members.map(({ id, index }) => [id, index]))
  let turn = 0
  const streams = named.map(([name, keys]) => {
    const having = members.filter(({ index }) => table[index]?.streams.has(name))
    const first = turn % having.length
    turn += keys.length
    const seats = [...having.slice(first), ...having.slice(0, first)]
    const stream = makeStream(keys.sort(compare), seats, members.length, share(keys.length))
    for (const key of keys) {
      const owner = indexOf.get(input.owners.get(key))
      if (owner !== undefined) stream.owned[owner] = (stream.owned[owner] ?? 0) + 1
    }
    return stream
  })

  // A cycle of exchanges visits a stream and a member at most once. So it changes the third objective by less than
  // `spreadWeight`, and the second and third together by less than `levelWeight`. All costs are whole numbers, and exact
  // up to a million shards.
  const spreadWeight = Math.min(streams.length, members.length) + 1
  return { streams, members, spreadWeight, levelWeight: spreadWeight * (2 * shards + 2) }
}

const given = (stream: Stream, member: Member): number => stream.given[member.index] ?? 0

const slack = (stream: Stream, member: Member): number => stream.slack[member.index] ?? 0

const give = (stream: Stream, member: Member, n: number): void => {
  const count = given(stream, member) + n
  stream.given[member.index] = count
  if (count > stream.least) {
    member.reads.add(stream)
  } else {
    member.reads.delete(stream)
  }
}

/** What one more shard of the stream costs by the objectives 2 and 3 if the member has `n`. It rises with `n`. */
const shardCost = (network: Network, stream: Stream, member: Member, n: number): number =>
  network.spreadWeight * (2 * n + 1) - (n < (stream.owned[member.index] ?? 0) ? 1 : 0)

/** What one more shard costs by the first objective if the member has `n`, the same for all that it gets anyhow. */
const totalCost = (network: Network, member: Member, n: number): number =>
  network.levelWeight * (2 * Math.max(n, member.least - 1) + 1)

/** Goes back from the end of a way to where it began, through members that get a shard and members that give one up. */
const retrace = (
  source: Stream,
  end: Member,
  f: (stream: Stream, member: Member, change: 1 | -1) => void
): void => {
  let member: Member | undefined = end
  while (member?.via !== undefined) {
    const stream: Stream = member.via
    f(stream, member, 1)
    if (stream === source) return
    member = stream.via
    if (member !== undefined) f(stream, member, -1)
  }
}

// -----------------------------------------------------------------------------
// Objectives 1 to 3: a flow of least cost
// -----------------------------------------------------------------------------

/**
 * Gives out one shard after the other in the cheapest way: to a member, or to one that gives up a shard of another
 * stream for it, which goes on in the same manner. As all costs rise with the number given, what results is optimal.
 *
 * The way is found by Dijkstra's algorithm. For that, potentials are kept with which no step costs less than nothing.
 */
const balance = (network: Network): void => {
  const frontier = new Set<Stream | Member>()
  const closest = (limit: number): Stream | Member | undefined => {
    let found: Stream | Member | undefined
    for (const vertex of frontier) {
      if (vertex.distance >= limit) {
        vertex.distance = Infinity
        frontier.delete(vertex)
      } else if (found === undefined || vertex.distance < found.distance) {
        found = vertex
      }
    }
    return found
  }

  const route = (source: Stream): void => {
    let cost = Infinity
    let end: Member | undefined
    const visited: Array<Stream | Member> = []
    source.distance = 0
    frontier.add(source)
    for (let vertex = closest(cost); vertex !== undefined; vertex = closest(cost)) {
      frontier.delete(vertex)
      visited.push(vertex)
      const base = vertex.distance + vertex.potential
      if (vertex._tag === "Stream") {
        for (const member of vertex.seats) {
          const distance = base + shardCost(network, vertex, member, given(vertex, member)) - member.potential
          if (distance >= Math.min(cost, member.distance)) continue
          member.distance = distance
          member.via = vertex
          frontier.add(member)
          const total = distance + member.potential + totalCost(network, member, member.total)
          if (total < cost) {
            cost = total
            end = member
          }
        }
      } else {
        for (const stream of vertex.reads) {
          const distance = base - shardCost(network, stream, vertex, given(stream, vertex) - 1) - stream.potential
          if (distance >= Math.min(cost, stream.distance)) continue
          stream.distance = distance
          stream.via = vertex
          frontier.add(stream)
        }
      }
    }
    for (const vertex of visited) {
      vertex.potential += vertex.distance - cost
      vertex.distance = Infinity
    }
    if (end === undefined) return
    end.total++
    retrace(source, end, give)
  }

  for (const stream of network.streams) {
    for (let n = stream.least * stream.seats.length; n < stream.keys.length; n++) route(stream)
  }
}

// -----------------------------------------------------------------------------
// Objective 4: the first of the optima
// -----------------------------------------------------------------------------

/**
 * The optima differ by cycles of steps that cost nothing. Stream by stream and seat by seat, one more is given where
 * such a cycle allows it, and what a seat has then got is final.
 */
const settle = (network: Network): void => {
  const { members, streams } = network
  for (const stream of streams) {
    for (const member of stream.seats) {
      const n = given(stream, member)
      const price = member.potential - stream.potential
      stream.slack[member.index] = shardCost(network, stream, member, n) === price
        ? 1
        : n > stream.least && shardCost(network, stream, member, n - 1) === price
        ? -1
        : 0
    }
  }
  // A stream of idle places lets totals change too: who may get one shard more in all has a place to give up.
  const idle = makeStream([], members, members.length, 0)
  for (const member of members) {
    if (totalCost(network, member, member.total) === -member.potential) {
      give(idle, member, 1)
      idle.slack[member.index] = -1
    } else if (totalCost(network, member, member.total - 1) === -member.potential) {
      idle.slack[member.index] = 1
    }
  }

  const exchange = (stream: Stream, member: Member, change: 1 | -1): void => {
    give(stream, member, change)
    stream.slack[member.index] = -change
  }

  let search = 0
  const canGetOneMore = (source: Stream, first: Member): boolean => {
    search++
    first.search = search
    first.via = source
    const seen: Array<Stream | Member> = [first]
    const reach = (vertex: Stream | Member) => {
      vertex.search = search
      seen.push(vertex)
    }
    for (const vertex of seen) {
      if (vertex._tag === "Member") {
        for (const stream of vertex.reads) {
          if (stream.search === search || slack(stream, vertex) >= 0) continue
          stream.via = vertex
          reach(stream)
        }
      } else {
        for (const member of vertex.seats) {
          if (member.search === search || slack(vertex, member) <= 0) continue
          member.via = vertex
          reach(member)
          if (slack(source, member) < 0) {
            exchange(source, member, -1)
            retrace(source, member, exchange)
            return true
          }
        }
      }
    }
    // No step leads out of what was seen, so no cycle leads into it: nothing at its rim can change any more.
    for (const vertex of seen) {
      if (vertex._tag === "Member") {
        for (const stream of streams) if (stream.search !== search) stream.slack[vertex.index] = 0
        if (idle.search !== search) idle.slack[vertex.index] = 0
      } else {
        for (const member of vertex.seats) if (member.search !== search) vertex.slack[member.index] = 0
      }
    }
    return false
  }

  for (const stream of streams) {
    let givers = stream.slack.reduce((n, slack) => slack < 0 ? n + 1 : n, 0)
    for (const member of stream.seats) {
      const own = slack(stream, member)
      if (own < 0 || (own > 0 && givers > 0 && canGetOneMore(stream, member))) givers--
      stream.slack[member.index] = 0
    }
  }
}

// -----------------------------------------------------------------------------
// The shards that make up the numbers
// -----------------------------------------------------------------------------

/**
 * Owners keep their first shards, up to what they are given. All others are dealt in order to the members that still
 * lack some, in the order of seats. Those that have changed hands already are out of both orders, which changes neither.
 */
const deal = ({ streams }: Network, owners: ReadonlyMap<string, string>): ReadonlyMap<string, string> => {
  const target = new Map<string, string>()
  for (const stream of streams) {
    const lacking = new Map(stream.seats.map((member) => [member.id, given(stream, member)]))
    const moving = stream.keys.filter((key) => {
      const owner = owners.get(key)
      const n = owner === undefined ? 0 : lacking.get(owner) ?? 0
      if (owner === undefined || n === 0) return true
      target.set(key, owner)
      lacking.set(owner, n - 1)
      return false
    })
    const takers = [...lacking].flatMap(([id, n]) => Array.from({ length: n }, () => id))
    moving.forEach((key, i) => {
      const id = takers[i]
      if (id !== undefined) target.set(key, id)
    })
  }
  return target
}
