/**
 * Who is alive, judged by this member's own monotonic clock alone: a heartbeat counter that stands still for the
 * liveness timeout is a dead member's. Counters are compared, never times of two machines.
 */
import type { Member, Owner } from "../StateStore.js"

export interface Sighting {
  readonly heartbeat: number
  /** When the counter was first seen at this value, or the row was first missed. */
  readonly since: number
  /** When the row was last asked for and was there. */
  readonly seenAt: number
}

export type Liveness = ReadonlyMap<string, Sighting>

export const ownerKey = (owner: Owner): string => `${owner.memberId}\u0000${owner.incarnation}`

/** A lease can name an owner whose row is gone. It has no heartbeat, and may be alive all the same. */
const noHeartbeat = -1

/**
 * Takes in the rows of the members, asked for at `askedAt` and seen at `now`. A row that vanished before its owner was dead
 * by then may have beaten once more, unseen: its owner is given the whole timeout again.
 */
export const observeMembers = (
  liveness: Liveness,
  members: ReadonlyArray<Member>,
  times: { readonly askedAt: number; readonly now: number; readonly timeout: number }
): Liveness => {
  const { askedAt, now, timeout } = times
  const next = new Map<string, Sighting>()
  for (const [key, sighting] of liveness) {
    const isKnown = sighting.heartbeat === noHeartbeat || sighting.seenAt - sighting.since >= timeout
    next.set(key, isKnown ? sighting : { heartbeat: noHeartbeat, since: now, seenAt: sighting.seenAt })
  }
  for (const member of members) {
    const key = ownerKey(member)
    const before = liveness.get(key)
    const since = before?.heartbeat === member.heartbeat ? before.since : now
    next.set(key, { heartbeat: member.heartbeat, since, seenAt: askedAt })
  }
  return next
}

/**
 * Takes in the owners of all leases, among whom some may have no row. Whoever has neither a row nor a lease is forgotten.
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
    next.set(key, liveness.get(key) ?? { heartbeat: noHeartbeat, since: now, seenAt: now })
  }
  return next
}

export const isDead = (liveness: Liveness, owner: Owner, now: number, timeout: number): boolean => {
  const sighting = liveness.get(ownerKey(owner))
  return sighting !== undefined && now - sighting.since >= timeout
}
