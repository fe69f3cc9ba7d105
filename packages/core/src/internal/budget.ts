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
import type { Slice } from "./lane.js"

export interface Budget {
  /**
   * Waits its turn and reserves between 1 and `wanted` records: all of them, or an eighth of the bound at least, since a
   * page of a few records costs about what a full one does. Interruption leaves nothing reserved. The wait can be
   * interrupted even where the caller can't be: then no interruption fits between the reservation and its use.
   */
  readonly reserve: (wanted: number) => Effect.Effect<number>
  /**
   * Waits its turn until all of this fits; into an empty buffer anything does. It is interrupted like `reserve`, and what
   * was taken is given back with `release`.
   */
  readonly take: (room: Room) => Effect.Effect<void>
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
  readonly hasRoom: () => boolean
  /** Takes the room, and gives what was taken. */
  readonly grant: () => Room
  readonly granted: Deferred.Deferred<Room>
}

/** A grant takes at most this part of what is free, so that many shards can ask at once; */
const part = 4

/** but no less than this part of the bound. */
const least = 8

export const make = (bounds: Room): Budget => {
  let records = 0
  let bytes = 0
  // A Set keeps the order of arrival and lets an interrupted waiter leave at once.
  const waiters = new Set<Waiter>()

  const occupy = (room: Room): Room => {
    records += room.records
    bytes += room.bytes
    return room
  }
  const giveBack = (room: Room) => {
    records -= room.records
    bytes -= room.bytes
    for (const waiter of waiters) {
      if (!waiter.hasRoom()) return
      waiters.delete(waiter)
      Deferred.unsafeDone(waiter.granted, Effect.succeed(waiter.grant()))
    }
  }
  // Whoever comes next may want less.
  const leave = (waiter: Waiter) =>
    waiters.delete(waiter)
      ? Effect.sync(() => giveBack({ records: 0, bytes: 0 }))
      : Effect.map(Deferred.await(waiter.granted), giveBack)

  const wait = (hasRoom: () => boolean, grant: () => Room): Effect.Effect<Room> =>
    Effect.uninterruptible(
      Effect.suspend(() => {
        if (waiters.size === 0 && hasRoom()) return Effect.succeed(grant())
        const waiter: Waiter = { hasRoom, grant, granted: Deferred.unsafeMake(FiberId.none) }
        waiters.add(waiter)
        return Effect.interruptible(Deferred.await(waiter.granted)).pipe(Effect.onInterrupt(() => leave(waiter)))
      })
    )

  return {
    reserve: (wanted) => {
      const enough = Math.max(1, Math.min(wanted, Math.floor(bounds.records / least)))
      return Effect.map(
        wait(
          () => bounds.records - records >= enough && bytes < bounds.bytes,
          () =>
            occupy({
              records: Math.max(enough, Math.min(wanted, Math.ceil((bounds.records - records) / part))),
              bytes: 0
            })
        ),
        (granted) => granted.records
      )
    },
    take: (room) =>
      Effect.asVoid(wait(
        () => records === 0 || (records + room.records <= bounds.records && bytes + room.bytes <= bounds.bytes),
        () => occupy(room)
      )),
    settle: (reserved, someRecords, someBytes) =>
      Effect.sync(() => {
        giveBack({ records: reserved - someRecords, bytes: -someBytes })
      }),
    release: (someRecords, someBytes) =>
      Effect.sync(() => {
        giveBack({ records: someRecords, bytes: someBytes })
      }),
    used: Effect.sync(() => ({ records, bytes }))
  }
}

/** Gives back the room of slices that leave the buffer. */
export const releaseSlices = (budget: Budget, slices: ReadonlyArray<Slice>): Effect.Effect<void> =>
  budget.release(
    slices.reduce((sum, slice) => sum + slice.size, 0),
    slices.reduce((sum, slice) => sum + slice.bytes, 0)
  )
