/** A mutation breaks one place of the library, in the JavaScript that was built of it. */
import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"

export interface Mutation {
  readonly name: string
  /** What is wrong then, in words. */
  readonly breaks: string
  /** The module, below `dist` of the core package. */
  readonly file: string
  /** Occurs in it exactly once. */
  readonly text: string
  readonly replacement: string
}

export const urlOf = ({ file }: Mutation): string => new URL(file, import.meta.resolve("@kinesumer/core")).href

/** Fails where the text does not occur exactly once: the mutation would not be what it says any more. */
export const apply = ({ file, name, replacement, text }: Mutation, source: string): string => {
  const parts = source.split(text)
  const [before, after] = parts
  if (before === undefined || after === undefined || parts.length > 2) {
    throw new Error(
      `the mutation "${name}" needs a text that occurs once in ${file}, and it occurs ${
        parts.length - 1
      } times:\n${text}`
    )
  }
  return before + replacement + after
}

export const checkBuilt = (mutation: Mutation): void => {
  apply(mutation, readFileSync(fileURLToPath(urlOf(mutation)), "utf8"))
}
