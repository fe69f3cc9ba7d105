/** Rows in a `Ref`: a change copies the path to the rows that it touches, and nothing else. */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as HashMap from "effect/HashMap"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import { type Change, type Partition, partitionId, type Rows } from "./rows.js"

type Table<A> = HashMap.HashMap<string, HashMap.HashMap<string, A>>

export const make = <A>(): Effect.Effect<Rows<A>> =>
  Effect.map(Ref.make<Table<A>>(HashMap.empty()), (ref): Rows<A> => ({
    modify: (_operation, changes) => Ref.modify(ref, (table) => applyAll(table, changes)),
    list: (_operation, partition) => Effect.map(Ref.get(ref), (table) => HashMap.toEntries(rowsOf(table, partition)))
  }))

const rowsOf = <A>(table: Table<A>, partition: Partition): HashMap.HashMap<string, A> =>
  Option.getOrElse(HashMap.get(table, partitionId(partition)), () => HashMap.empty<string, A>())

const applyAll = <A, B>(
  table: Table<A>,
  changes: ReadonlyArray<Change<A, B>>
): [ReadonlyArray<Either.Either<B>>, Table<A>] => {
  const answers: Array<Either.Either<B>> = []
  const after = HashMap.mutate(table, (draft) => {
    for (const { key, partition, update } of changes) {
      const rows = rowsOf(draft, partition)
      const before = HashMap.get(rows, key)
      const [answer, row] = update(before)
      answers.push(Either.right(answer))
      if (row !== before) {
        HashMap.set(draft, partitionId(partition), HashMap.modifyAt(rows, key, () => row))
      }
    }
  })
  return [answers, after]
}
