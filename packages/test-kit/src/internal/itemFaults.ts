import * as Effect from "effect/Effect"
import type { Items } from "./faultModel.js"

/**
 * Sends the items that no fault keeps back, and puts the answers together in the order of the items.
 *
 * @internal
 */
export const send = <I extends { readonly shardId: string }, A, E>(
  items: ReadonlyArray<I>,
  faults: ReadonlyArray<Items<I, A>>,
  operation: string,
  call: (items: ReadonlyArray<I>) => Effect.Effect<ReadonlyArray<A>, E>
): Effect.Effect<ReadonlyArray<A>, E> => {
  if (faults.length === 0) return call(items)
  const planned = items.map((item) => {
    const fault = faults.find((fault) => fault.shardIds === undefined || fault.shardIds.includes(item.shardId))
    return { item, fault, sent: fault === undefined || fault.applied }
  })
  const sent = planned.flatMap(({ item, sent }) => sent ? [item] : [])
  return Effect.map(sent.length === 0 ? Effect.succeed([]) : call(sent), (answers) => {
    const rest = answers.values()
    return planned.flatMap(({ fault, item, sent }) => {
      const answer = sent ? rest.next() : undefined
      if (fault !== undefined) return [fault.answer(item, operation)]
      return answer === undefined || answer.done === true ? [] : [answer.value]
    })
  })
}
