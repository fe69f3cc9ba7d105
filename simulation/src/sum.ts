/** What became of all scenarios so far. Of those that broke nothing no more is kept, since there can be very many. */
import type { Result } from "./task.js"

export interface Sum extends Pick<Result, "elapsed" | "tally"> {
  readonly carriedOut: number
  readonly failed: ReadonlyArray<Result>
}

export const empty: Sum = {
  carriedOut: 0,
  failed: [],
  elapsed: 0,
  tally: { records: 0, crashes: 0, rebalances: 0, reshards: 0, faults: 0 }
}

export const add = (result: Result) => ({ carriedOut, elapsed, failed, tally }: Sum): Sum => ({
  carriedOut: carriedOut + 1,
  failed: result.violations.length === 0 ? failed : [...failed, { ...result, journal: [] }],
  elapsed: elapsed + result.elapsed,
  tally: {
    records: tally.records + result.tally.records,
    crashes: tally.crashes + result.tally.crashes,
    rebalances: tally.rebalances + result.tally.rebalances,
    reshards: tally.reshards + result.tally.reshards,
    faults: tally.faults + result.tally.faults
  }
})
