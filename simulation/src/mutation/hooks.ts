/** Hooks of Node.js that change one module when it is loaded. They run in a thread of their own. */
import type { InitializeHook, LoadHook } from "node:module"
import * as Applied from "./applied.js"
import { apply, type Mutation } from "./mutation.js"

export interface Mutated {
  readonly mutation: Mutation
  readonly url: string
}

let mutated: Mutated | undefined

export const initialize: InitializeHook<Mutated> = (data) => {
  mutated = data
}

export const load: LoadHook = async (url, context, nextLoad) => {
  const loaded = await nextLoad(url, context)
  if (mutated === undefined || url !== mutated.url) return loaded
  const source = typeof loaded.source === "string" ? loaded.source : new TextDecoder().decode(loaded.source)
  return { ...loaded, source: apply(mutated.mutation, source) + Applied.statement(mutated.mutation.name) }
}
