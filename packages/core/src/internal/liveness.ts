/**
 * Who is alive, judged by this member's own monotonic clock alone: a heartbeat counter that stands still for the
 * liveness timeout is a dead member's. Counters are compared, never times of two machines.
 */
import type { Member, Owner } from "../StateStore.js"

export interface Sighting {
  readonly heartbeat: number
  /** When the counter was first seen at this value. */
  readonly since: number
}

export type Liveness = ReadonlyMap<string, Sighting>

export const ownerKey = (owner: Owner): string => `${owner.memberId}\u0000${owner.incarnation}`

/** A lease can name an owner whose row is gone. It has no heartbeat, and may be alive all the same. */
const noHeartbeat = -1

/** Takes in the rows of the members. */
export const observeMembers = (liveness: Liveness, members: ReadonlyArray<Member>, now: number): Liveness => {
  const next = new Map(liveness)
  for (const member of members) {
    const key = ownerKey(member)
    const before = liveness.get(key)
    next.set(key, before?.heartbeat === member.heartbeat ? before : { heartbeat: member.heartbeat, since: now })
  }
  return next
}

/**
 * Takes in the owners of all leases, among whom some may have no row: the counter of a row that has vanished stands
 * still since it was last seen to move. Whoever has neither a row nor a lease is forgotten.
 */
export const observeOwners = (
  liveness: Liveness,
  members: ReadonlyArray<Member>,
  owners: Iterable<Owner>,
  now: number
): Liveness => {
  const next = new Map<string, Sighting>()
  for (const owner of [...members, ...owners]) {
    const key = ownerKey(owner)
    next.set(key, liveness.get(key) ?? { heartbeat: noHeartbeat, since: now })
  }
  return next
}

export const isDead = (liveness: Liveness, owner: Owner, now: number, timeout: number): boolean => {
  const sighting = liveness.get(ownerKey(owner))
  return sighting !== undefined && now - sighting.since >= timeout
}
