/** A mutation breaks the library in one place, in the JavaScript that was built of it. */
import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"

export interface Mutation {
  readonly name: string
  /** What is wrong then, in words. */
  readonly breaks: string
  /** The module, below `dist` of the core package. */
  readonly file: string
  readonly changes: ReadonlyArray<Change>
}

export interface Change {
  /** Occurs in the module exactly once. */
  readonly text: string
  readonly replacement: string
}

export const urlOf = ({ file }: Pick<Mutation, "file">): string =>
  new URL(file, import.meta.resolve("@kinesumer/core")).href

/** Fails where a text does not occur exactly once: the mutation would not be what it says any more. */
export const apply = ({ changes, file, name }: Mutation, source: string): string =>
  changes.reduce((before, { replacement, text }) => {
    const [head, tail, ...more] = before.split(text)
    if (head === undefined || tail === undefined || more.length > 0) {
      throw new Error(
        `the mutation "${name}" changes a text that must occur in ${file} exactly once, and ${
          tail === undefined ? "does not" : "does more often"
        }:\n${text}`
      )
    }
    return head + replacement + tail
  }, source)

export const checkBuilt = (mutation: Mutation): void => {
  apply(mutation, readFileSync(fileURLToPath(urlOf(mutation)), "utf8"))
}
