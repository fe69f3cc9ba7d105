import * as Hash from "effect/Hash"
import { PCGRandom } from "effect/Utils"

/**
 * What is left to chance, drawn from a seed. Each purpose has a sequence of its own, so that a scenario that is cut
 * short draws the same for what is left of it.
 *
 * @internal
 */
export interface Chance {
  /** A whole number from `least` to `most`, both included. */
  readonly between: (least: number, most: number) => number
  readonly happens: (probability: number) => boolean
  readonly pick: <A>(items: readonly [A, ...ReadonlyArray<A>]) => A
}

/** @internal */
export const make = (seed: number, purpose: string): Chance => {
  const random = new PCGRandom(Hash.hash(`${purpose}/${seed}`))
  return {
    between: (least, most) => least + random.integer(most - least + 1),
    happens: (probability) => random.number() < probability,
    pick: (items) => items[random.integer(items.length)] ?? items[0]
  }
}
