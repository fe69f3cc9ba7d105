/** Loaded before everything else in a child process that is to be mutated. */
import { register } from "node:module"
import * as Applied from "./applied.js"
import type { Mutated } from "./hooks.js"
import { urlOf } from "./mutation.js"

const name = Applied.wanted()
if (name !== undefined) {
  const mutation = Applied.find(name)
  register<Mutated>("./hooks.js", import.meta.url, { data: { mutation, url: urlOf(mutation) } })
}
