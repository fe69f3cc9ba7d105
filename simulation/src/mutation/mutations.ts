/** The mutations, each true to its name. */
import type { Mutation } from "./mutation.js"

export const mutations: ReadonlyArray<Mutation> = [
  {
    name: "mark at enqueue",
    breaks: "What waits in the buffer counts as processed.",
    file: "internal/lane.js",
    text: "        read: last.to\n",
    replacement: "        read: last.to,\n        processed: last.to\n"
  }
]
