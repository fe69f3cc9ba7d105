/** Hooks of Node.js that change one module when it is loaded. */
import type { InitializeHook, LoadHook } from "node:module"
import * as Applied from "./applied.js"
import { apply, type Mutation, urlOf } from "./mutation.js"

let mutation: Mutation | undefined

export const initialize: InitializeHook<Mutation> = (data) => {
  mutation = data
}

export const load: LoadHook = async (url, context, nextLoad) => {
  const loaded = await nextLoad(url, context)
  if (mutation === undefined || url !== urlOf(mutation)) return loaded
  const source = typeof loaded.source === "string" ? loaded.source : new TextDecoder().decode(loaded.source)
  return { ...loaded, source: apply(mutation, source) + Applied.statement(mutation.name) }
}
