/** Who reads, and what it tells. */
import type { Queue } from "effect"

/** A record is with user code. */
export interface Arrival {
  readonly text: string
  /** In nanoseconds of a clock without a date. */
  readonly at: bigint
}

export interface Rival {
  readonly name: string
  readonly stream: string
  readonly arrivals: Queue.Dequeue<Arrival>
}
