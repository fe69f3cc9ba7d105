/**
 * The bounded buffer's budget, shared by all shards of a member. Room for records is reserved before they are asked for,
 * so a page that has arrived never waits for room, and nothing that stops a shard has to wait for a consumer.
 *
 * The size of a page in bytes is known only when it is there: no page is asked for while the bytes are used up, so they
 * exceed the bound by at most the pages that were asked for before.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as FiberId from "effect/FiberId"

export interface Budget {
  /**
   * Waits its turn and reserves between 1 and `wanted` records. Interruption leaves nothing reserved. The wait can be
   * interrupted even where the caller can't be: then no interruption fits between the reservation and its use.
   */
  readonly reserve: (wanted: number) => Effect.Effect<number>
  /** Turns a reservation into what really came. */
  readonly settle: (reserved: number, records: number, bytes: number) => Effect.Effect<void>
  /** Gives back what left the buffer. */
  readonly release: (records: number, bytes: number) => Effect.Effect<void>
  readonly used: Effect.Effect<Room>
}

/** Room in the buffer. */
export interface Room {
  readonly records: number
  readonly bytes: number
}

interface Waiter {
  readonly wanted: number
  readonly granted: Deferred.Deferred<number>
}

/** A grant takes at most this part of what is free, so that many shards can ask at once. */
const part = 4

export const make = (bounds: Room): Budget => {
  let records = 0
  let bytes = 0
  // A Set keeps the order of arrival and lets an interrupted waiter leave at once.
  const waiters = new Set<Waiter>()

  const hasRoom = () => records < bounds.records && bytes < bounds.bytes
  const grant = (wanted: number): number => {
    const granted = Math.max(1, Math.min(wanted, Math.ceil((bounds.records - records) / part)))
    records += granted
    return granted
  }
  const giveBack = (someRecords: number, someBytes: number) => {
    records -= someRecords
    bytes -= someBytes
    for (const waiter of waiters) {
      if (!hasRoom()) return
      waiters.delete(waiter)
      Deferred.unsafeDone(waiter.granted, Effect.succeed(grant(waiter.wanted)))
    }
  }
  const leave = (waiter: Waiter) =>
    waiters.delete(waiter)
      ? Effect.void
      : Effect.map(Deferred.await(waiter.granted), (granted) => {
        giveBack(granted, 0)
      })

  return {
    reserve: (wanted) =>
      Effect.uninterruptible(
        Effect.suspend(() => {
          if (waiters.size === 0 && hasRoom()) return Effect.succeed(grant(wanted))
          const waiter: Waiter = { wanted, granted: Deferred.unsafeMake(FiberId.none) }
          waiters.add(waiter)
          return Effect.interruptible(Deferred.await(waiter.granted)).pipe(Effect.onInterrupt(() => leave(waiter)))
        })
      ),
    settle: (reserved, someRecords, someBytes) =>
      Effect.sync(() => {
        giveBack(reserved - someRecords, -someBytes)
      }),
    release: (someRecords, someBytes) =>
      Effect.sync(() => {
        giveBack(someRecords, someBytes)
      }),
    used: Effect.sync(() => ({ records, bytes }))
  }
}
