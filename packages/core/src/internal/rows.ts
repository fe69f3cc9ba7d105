/**
 * What a store that serves one process is built on: rows of one kind, in partitions. `tableStateStore` states once
 * what each operation does to a row; memory and key-value stores differ in where the rows are.
 */
import type * as Effect from "effect/Effect"
import type * as Either from "effect/Either"
import type * as Option from "effect/Option"
import type { StateStoreError } from "../StateStoreError.js"

/** The names that lead to a set of rows: an app, or an app and a stream. */
export type Partition = ReadonlyArray<string>

/** One row and what happens to it. Where `update` returns the very row that it was given, nothing is written. */
export interface Change<A, B> {
  readonly partition: Partition
  readonly key: string
  readonly update: (row: Option.Option<A>) => readonly [answer: B, row: Option.Option<A>]
}

export interface Rows<A> {
  /** Changes rows, each one atomically; answers stand in the order of the changes. */
  readonly modify: <B>(
    operation: string,
    changes: ReadonlyArray<Change<A, B>>
  ) => Effect.Effect<ReadonlyArray<Either.Either<B, StateStoreError>>>

  /** All rows of a partition with their keys, in no particular order. */
  readonly list: (
    operation: string,
    partition: Partition
  ) => Effect.Effect<ReadonlyArray<readonly [key: string, row: A]>, StateStoreError>
}

/** One text for the names of a partition, whatever characters they contain. */
export const partitionId = (partition: Partition): string => JSON.stringify(partition)
