/**
 * Counts what was let through in the last second.
 *
 * @internal
 */
export interface Window {
  readonly entries: Array<{ readonly at: number; readonly amount: number }>
}

/** @internal */
export const window = (): Window => ({ entries: [] })

/** @internal */
export const total = (window: Window, now: number): number => {
  while (window.entries[0] !== undefined && window.entries[0].at <= now - 1000) window.entries.shift()
  return window.entries.reduce((sum, entry) => sum + entry.amount, 0)
}

/** @internal */
export const add = (window: Window, now: number, amount: number): void => {
  window.entries.push({ at: now, amount })
}
