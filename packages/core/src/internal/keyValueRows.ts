/**
 * Rows in a key-value store that belongs to this process alone.
 *
 * A key-value store can neither list its keys nor write several of them at once. So the rows of a partition are spread
 * over a fixed number of values, its buckets, by a hash of their keys: they are found without an index, each row stands
 * in one value, and no two values must agree. Of a small stream a value holds about one row; of 10,000 shards, some
 * hundred and fifty, in 35 KB.
 *
 * A crash may tear a write (a file is cut short). So a bucket has two slots, written in turn: while one is written, the
 * other holds the generation before. What was torn was never answered.
 *
 * What was read or written is remembered, since nobody else writes. A write that failed may have happened all the same:
 * its bucket is forgotten, and read again.
 */
import type * as KeyValueStore from "@effect/platform/KeyValueStore"
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import { createHash } from "node:crypto"
import { StateStoreError } from "../StateStoreError.js"
import { onFreshTurn } from "./freshTurn.js"
import { fromPlatform } from "./platformErrors.js"
import { type Change, type Partition, partitionId, type Rows } from "./rows.js"
import { isTorn, type StoredRows } from "./storedRows.js"

export interface Options<A> {
  /** What the rows are: the beginning of every key. */
  readonly kind: string
  /** How many values hold the rows of a partition. It belongs to the format: with another number rows are not found. */
  readonly buckets: number
  readonly schema: Schema.Schema<StoredRows<A>, string>
}

/** Names a bucket; `id` is the beginning of its keys. */
interface Address {
  readonly partition: Partition
  readonly id: string
}

interface Bucket<A> {
  readonly rows: ReadonlyMap<string, A>
  readonly generation: number
}

const empty: Bucket<never> = { rows: new Map<string, never>(), generation: 0 }

export const make = <A>(store: KeyValueStore.KeyValueStore, options: Options<A>): Effect.Effect<Rows<A>> =>
  Effect.map(Effect.makeSemaphore(1), (semaphore): Rows<A> => {
    // Read and written in turns, by the semaphore.
    const known = new Map<string, Bucket<A>>()
    const decode = Schema.decode(options.schema)
    const encode = Schema.encode(options.schema)

    const addressesOf = (partition: Partition): (bucket: number) => Address => {
      const id = `kinesumer-${options.kind}-${digest(partitionId(partition))}`
      return (bucket) => ({ partition, id: `${id}-${`${bucket}`.padStart(2, "0")}` })
    }

    const readSlot = Effect.fnUntraced(function*(operation: string, address: Address, slot: string) {
      const key = `${address.id}-${slot}`
      const text = yield* retryPassing(
        Effect.mapError(store.get(key), fromPlatform(operation, `The value of "${key}"`))
      )
      if (Option.isNone(text)) return "absent"
      if (isTorn(text.value)) return "torn"
      const stored = yield* Effect.mapError(
        decode(text.value),
        (cause) => malformed(operation, key, cause.message, cause)
      )
      return partitionId(stored.partition) === partitionId(address.partition)
        ? stored
        : yield* malformed(operation, key, `it belongs to ${partitionId(stored.partition)}`)
    })

    const read = Effect.fnUntraced(function*(operation: string, address: Address) {
      const remembered = known.get(address.id)
      if (remembered !== undefined) return remembered
      const slots = yield* Effect.all([readSlot(operation, address, "0"), readSlot(operation, address, "1")])
      const whole = slots.filter((slot) => typeof slot !== "string")
      if (slots.every((slot) => slot === "torn")) {
        // One crash tears one slot.
        return yield* malformed(operation, `${address.id}-0`, "it and the one before it are cut short")
      }
      if (slots.includes("torn")) {
        yield* Effect.logWarning(`A write of "${address.id}" was cut short by a crash. Going on from the one before it`)
      }
      const latest = whole.reduce<Bucket<A>>((self, that) => self.generation > that.generation ? self : that, empty)
      known.set(address.id, latest)
      return latest
    })

    const write = (operation: string, address: Address, bucket: Bucket<A>) => {
      const key = `${address.id}-${bucket.generation % 2}`
      return encode({ format: 1, generation: bucket.generation, partition: address.partition, rows: bucket.rows }).pipe(
        Effect.mapError((cause) => malformed(operation, key, cause.message, cause)),
        Effect.flatMap((text) => {
          known.delete(address.id)
          // A write goes on after it was interrupted: it is waited for, or the next one would meet it.
          const set = Effect.uninterruptible(
            Effect.mapError(store.set(key, text), fromPlatform(operation, `The value of "${key}"`))
          )
          return retryPassing(set)
        }),
        Effect.tap(() => Effect.sync(() => known.set(address.id, bucket)))
      )
    }

    const changeBucket = Effect.fnUntraced(
      function*<B>(operation: string, address: Address, changes: ReadonlyArray<Change<A, B>>) {
        const before = yield* read(operation, address)
        const rows = new Map(before.rows)
        const answers: Array<B> = []
        let changed = false
        for (const { key, update } of changes) {
          const row = Option.fromNullable(rows.get(key))
          const [answer, after] = update(row)
          answers.push(answer)
          if (after === row) continue
          changed = true
          if (Option.isSome(after)) rows.set(key, after.value)
          else rows.delete(key)
        }
        if (changed) {
          yield* write(operation, address, { rows, generation: before.generation + 1 })
        }
        return answers
      }
    )

    return {
      modify: <B>(operation: string, changes: ReadonlyArray<Change<A, B>>) => {
        const numbered = changes.map((change, index) => ({ ...change, index }))
        const groups = Arr.groupBy(
          numbered,
          ({ key, partition }) => `${bucketOf(key, options.buckets)} ${partitionId(partition)}`
        )
        return Effect.forEach(
          Object.values(groups),
          (group) => {
            const [{ key, partition }] = group
            const address = addressesOf(partition)(bucketOf(key, options.buckets))
            return Effect.match(changeBucket(operation, address, group), {
              onFailure: (error) => group.map(({ index }) => ({ index, answer: Either.left(error) })),
              onSuccess: (answers) =>
                Arr.zipWith(group, answers, ({ index }, answer) => ({ index, answer: Either.right(answer) }))
            })
          },
          { concurrency: parallel }
        ).pipe(
          onFreshTurn,
          semaphore.withPermits(1),
          Effect.map((answers) =>
            answers.flat().sort((self, that) => self.index - that.index).map(({ answer }) => answer)
          )
        )
      },

      list: (operation, partition) =>
        Effect.forEach(
          Arr.makeBy(options.buckets, addressesOf(partition)),
          (address) => Effect.map(read(operation, address), ({ rows }) => [...rows]),
          { concurrency: parallel }
        ).pipe(onFreshTurn, semaphore.withPermits(1), Effect.map(Arr.flatten))
    }
  })

/** How many values are read or written at the same time. */
const parallel = 8

/** Names are of any length and any characters; keys become the names of files. */
const digest = (text: string): string => createHash("sha256").update(text).digest("hex").slice(0, 32)

/** FNV-1a. Part of the format: a row must be found again in the bucket where it was put. */
const bucketOf = (key: string, buckets: number): number => {
  let hash = 0x811c9dc5
  for (let index = 0; index < key.length; index++) {
    hash = Math.imul(hash ^ key.charCodeAt(index), 0x01000193)
  }
  return (hash >>> 0) % buckets
}

/** Tries again for about a second and a half. */
const retryPassing = <A>(self: Effect.Effect<A, StateStoreError>): Effect.Effect<A, StateStoreError> =>
  Effect.retry(self, {
    while: (error) => error.retryable,
    schedule: Schedule.exponential("50 millis").pipe(Schedule.jittered, Schedule.intersect(Schedule.recurs(5)))
  })

const malformed = (operation: string, key: string, what: string, cause?: unknown): StateStoreError =>
  new StateStoreError({
    reason: "MalformedRow",
    operation,
    detail: `The value of "${key}" is not what this version of the store writes: ${what}. ` +
      `Restore it from a backup, or remove it to forget the rows in it`,
    cause
  })
