/**
 * Which of the records in hand are to be handled next. Each shard has a line of its own, in which records that must keep
 * their order form chains; a chain has records in at most one batch at a time. Shards take turns, and so do the chains of a
 * shard, so a chain that does not get on keeps nobody waiting.
 *
 * Plain state, changed between two steps of a fiber. Each operation takes as long as the records that it moves.
 */
import * as MutableList from "effect/MutableList"
import type { KinesumerRecord } from "../KinesumerRecord.js"
import type { Ordering } from "../Processing.js"
import type { Run } from "./run.js"

export interface Entry {
  readonly record: KinesumerRecord
  /** The how-manieth of its shard. */
  readonly number: number
  readonly chain: Chain
  /** The one after it in its chain. */
  next: Entry | undefined
}

interface Chain {
  readonly key: string
  /** Those that wait: the first and the last one, and how many. */
  first: Entry | undefined
  last: Entry | undefined
  waiting: number
  /** Those that were given out and are not finished. */
  taken: number
}

export interface Line {
  readonly run: Run
  readonly chains: Map<string, Chain>
  /** Chains that something can be taken from, in turn. */
  turn: MutableList.MutableList<Chain>
  /** How many records these have. */
  ready: number
  /** Records that are not finished. */
  inFlight: number
  taken: number
  arrived: number
  /** What is ready has waited for long enough. */
  due: boolean
  timing: boolean
  queued: boolean
  over: boolean
}

export interface Batch {
  readonly line: Line
  readonly entries: ReadonlyArray<Entry>
}

export interface Scheduler {
  readonly admit: (run: Run, records: ReadonlyArray<KinesumerRecord>) => void
  readonly lineOf: (run: Run) => Line | undefined
  /** The next batch that is full or due. */
  readonly take: () => Batch | undefined
  /** A line that has something to wait for, once each time. */
  readonly toTime: () => Line | undefined
  readonly timeIsUp: (line: Line) => void
  /** Entries that were given out leave: handled, or not to be. */
  readonly finish: (line: Line, entries: ReadonlyArray<Entry>) => void
  /** What waits leaves, and nothing more comes. */
  readonly close: (line: Line) => void
  /** How many more records may come in. */
  readonly free: () => number
  /** How many more records of a run may come in, when so many runs share the places. */
  readonly roomOf: (run: Run, runs: number) => number
  readonly inFlight: () => number
}

export const make = ({ maxInFlight, ordering, size }: {
  readonly ordering: Ordering
  readonly size: number
  readonly maxInFlight: number
}): Scheduler => {
  const lines = new Map<Run, Line>()
  const turn = MutableList.empty<Line>()
  const untimed = MutableList.empty<Line>()
  const isOrdered = ordering !== "none"
  let inFlight = 0

  const keyOf = (record: KinesumerRecord): string => ordering === "partitionKey" ? record.partitionKey : ""

  const open = (run: Run): Line => {
    const line: Line = {
      run,
      chains: new Map(),
      turn: MutableList.empty(),
      ready: 0,
      inFlight: 0,
      taken: 0,
      arrived: 0,
      due: false,
      timing: false,
      queued: false,
      over: false
    }
    lines.set(run, line)
    return line
  }

  const chainOf = (line: Line, key: string): Chain => {
    const known = line.chains.get(key)
    if (known !== undefined) return known
    const chain: Chain = { key, first: undefined, last: undefined, waiting: 0, taken: 0 }
    line.chains.set(key, chain)
    return chain
  }

  const isReady = (line: Line): boolean => line.ready >= size || (line.due && line.ready > 0)

  /** Called whenever something of the line became ready, or was taken. */
  const look = (line: Line): void => {
    if (isReady(line)) {
      if (line.queued) return
      line.queued = true
      MutableList.append(turn, line)
    } else if (line.ready > 0 && !line.timing) {
      line.timing = true
      MutableList.append(untimed, line)
    }
  }

  const add = (line: Line, record: KinesumerRecord): void => {
    const chain = chainOf(line, keyOf(record))
    const entry: Entry = { record, number: line.arrived++, chain, next: undefined }
    if (chain.last === undefined) chain.first = entry
    else chain.last.next = entry
    chain.last = entry
    chain.waiting++
    if (isOrdered && chain.taken > 0) return
    line.ready++
    if (chain.waiting === 1) MutableList.append(line.turn, chain)
  }

  const cut = (line: Line): ReadonlyArray<Entry> => {
    const entries: Array<Entry> = []
    while (entries.length < size) {
      const chain = MutableList.head(line.turn)
      if (chain === undefined) break
      const before = chain.waiting
      while (chain.first !== undefined && entries.length < size) {
        entries.push(chain.first)
        chain.first = chain.first.next
        chain.waiting--
        chain.taken++
      }
      if (chain.first === undefined) chain.last = undefined
      // What is left of an ordered chain has to wait for what was taken.
      line.ready -= isOrdered ? before : before - chain.waiting
      if (isOrdered || chain.waiting === 0) MutableList.shift(line.turn)
    }
    return entries.length > 1 ? entries.sort((self, that) => self.number - that.number) : entries
  }

  const release = (line: Line, chain: Chain): void => {
    chain.taken--
    if (!isOrdered || chain.taken > 0) return
    if (chain.waiting === 0) {
      line.chains.delete(chain.key)
    } else {
      line.ready += chain.waiting
      MutableList.append(line.turn, chain)
    }
  }

  const free = (): number => maxInFlight - inFlight

  return {
    admit: (run, records) => {
      const line = lines.get(run) ?? open(run)
      for (const record of records) add(line, record)
      line.inFlight += records.length
      inFlight += records.length
      look(line)
    },
    lineOf: (run) => lines.get(run),
    take: () => {
      for (let line = MutableList.shift(turn); line !== undefined; line = MutableList.shift(turn)) {
        line.queued = false
        // It was closed since.
        if (!isReady(line)) continue
        const entries = cut(line)
        line.taken += entries.length
        line.due = false
        look(line)
        return { line, entries }
      }
      return undefined
    },
    toTime: () => MutableList.shift(untimed),
    timeIsUp: (line) => {
      line.timing = false
      line.due = line.ready > 0
      look(line)
    },
    finish: (line, entries) => {
      inFlight -= entries.length
      line.inFlight -= entries.length
      line.taken -= entries.length
      if (line.over) return
      for (const { chain } of entries) release(line, chain)
      look(line)
    },
    close: (line) => {
      inFlight -= line.inFlight - line.taken
      line.inFlight = line.taken
      line.over = true
      line.ready = 0
      line.turn = MutableList.empty()
      line.chains.clear()
      lines.delete(line.run)
    },
    free,
    roomOf: (run, runs) => runs <= 1 ? free() : Math.ceil((free() - (lines.get(run)?.inFlight ?? 0)) / 2),
    inFlight: () => inFlight
  }
}
