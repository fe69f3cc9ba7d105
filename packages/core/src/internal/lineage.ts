/**
 * What the shard list says about order: which shards may be read now, and how one answer of Kinesis changes what is
 * known. Lists are not snapshots: an answer may show a closed shard without its children, a child while its parent still
 * looks open, or lack a shard that was there before. Each is used for what it shows, and nothing waits for consistency.
 */
import type { Shard } from "../Shard.js"

/** Shards that may be read now: not read to their end, and every parent that still exists is. */
export const eligible = (
  shards: ReadonlyArray<Shard>,
  ended: ReadonlySet<string>
): ReadonlyArray<Shard> => {
  const listed = new Set(shards.map((shard) => shard.shardId))
  return shards.filter((shard) =>
    !ended.has(shard.shardId) &&
    shard.parents.every((parent) => ended.has(parent) || !listed.has(parent))
  )
}

/**
 * Of the shards that follow another one, those whose parents are all known. The other parent of a merged shard can be
 * younger than the list; it must not look like one that is no more.
 */
export const complete = (known: ReadonlyArray<Shard>, children: ReadonlyArray<Shard>): ReadonlyArray<Shard> =>
  children.filter(({ parents }) => parents.every((parent) => known.some(({ shardId }) => shardId === parent)))

export const hasChild = (shards: ReadonlyArray<Shard>, shardId: string): boolean =>
  shards.some((shard) => shard.parents.includes(shardId))

/**
 * Whether the list agrees that a shard has ended: it shows the shard closed, a child of it, or the shard no more.
 */
export const agreesWithEnd = (shards: ReadonlyArray<Shard>, shardId: string): boolean => {
  const shard = shards.find((one) => one.shardId === shardId)
  return shard === undefined || shard.closed || hasChild(shards, shardId)
}

/** A shard that was read to its end is closed, whatever the list has shown of it. */
export const close = (shards: ReadonlyArray<Shard>, shardId: string): ReadonlyArray<Shard> =>
  shards.map((shard) => shard.shardId === shardId ? { ...shard, closed: true } : shard)

/** Adds what an answer shows. A known end or a known shard is never forgotten because a later answer lacks it. */
export const merge = (known: ReadonlyArray<Shard>, shown: ReadonlyArray<Shard>): ReadonlyArray<Shard> => {
  const byId = new Map(known.map((shard) => [shard.shardId, shard]))
  for (const shard of shown) {
    const before = byId.get(shard.shardId)
    byId.set(
      shard.shardId,
      before === undefined ? shard : {
        ...shard,
        parents: shard.parents.length >= before.parents.length ? shard.parents : before.parents,
        closed: shard.closed || before.closed
      }
    )
  }
  return [...byId.values()].sort((self, that) => self.shardId < that.shardId ? -1 : 1)
}

/**
 * Whether an answer is older than what is known. The youngest shard, whose id is the highest, is open, and an open shard
 * cannot age out: an answer without it proves nothing of the others that it lacks either.
 */
const isOlder = (known: ReadonlyArray<Shard>, shown: ReadonlyArray<Shard>): boolean => highest(shown) < highest(known)

const highest = (shards: ReadonlyArray<Shard>): string =>
  shards.reduce((id, { shardId }) => shardId > id ? shardId : id, "")

/** Shards that Kinesis has removed: closed ones that a complete answer lacks, unless it is an older one. */
export const removed = (known: ReadonlyArray<Shard>, shown: ReadonlyArray<Shard>): ReadonlyArray<Shard> => {
  if (isOlder(known, shown)) return []
  const listed = new Set(shown.map((shard) => shard.shardId))
  return known.filter((shard) => !listed.has(shard.shardId) && (shard.closed || hasChild(known, shard.shardId)))
}

/** Whether the answer shows that a shard is no more, closed or not as far as is known. */
export const isGone = (known: ReadonlyArray<Shard>, shown: ReadonlyArray<Shard>, shardId: string): boolean =>
  shown.every((shard) => shard.shardId !== shardId) && !isOlder(known, shown)

const sameShard = (self: Shard, that: Shard): boolean =>
  self.shardId === that.shardId && self.closed === that.closed && self.parents.join() === that.parents.join() &&
  self.hashKeyRange.start === that.hashKeyRange.start && self.hashKeyRange.end === that.hashKeyRange.end

export const same = (self: ReadonlyArray<Shard>, that: ReadonlyArray<Shard>): boolean =>
  self.length === that.length && self.every((shard, index) => {
    const other = that[index]
    return other !== undefined && sameShard(shard, other)
  })
