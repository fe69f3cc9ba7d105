import type { Violation } from "./model.js"

/**
 * What has happened, in words, and which promises were broken. Nobody looks at it while the scenario runs, but it ends
 * with the first violation.
 *
 * @internal
 */
export interface Journal {
  readonly note: (line: () => string) => void
  readonly violation: (promise: string, detail: string) => void
  readonly violations: () => ReadonlyArray<Violation>
  readonly lines: () => ReadonlyArray<string>
}

/** @internal */
export const make = (elapsed: () => number, options: { readonly keepsLines: boolean }): Journal => {
  const violations: Array<Violation> = []
  const lines: Array<string> = []
  const note = (line: () => string) => {
    if (options.keepsLines) lines.push(`${(elapsed() / 1000).toFixed(3).padStart(9)} ${line()}`)
  }
  return {
    note,
    violation: (promise, detail) => {
      violations.push({ promise, at: elapsed(), detail })
      note(() => `BROKEN ${promise}: ${detail}`)
    },
    violations: () => violations,
    lines: () => lines
  }
}
