/**
 * The records of a shard, in blocks, so that a million of them can grow at one end and vanish at the other without any
 * large array being moved. Places are counted from the first record ever, so that an iterator keeps its place while
 * older records vanish.
 *
 * @internal
 */
export interface RecordLog {
  readonly blocks: Array<Block>
  /** The place of the oldest record that is left: how many have vanished. */
  first: number
  /** The place of the next record. */
  next: number
}

/** @internal */
export interface Block {
  /** The place of the first record. */
  readonly first: number
  readonly records: Array<StoredRecord>
  /** How large the records are up to and including each one. */
  readonly sizes: Array<number>
}

/** @internal */
export interface StoredRecord {
  readonly sequenceNumber: string
  readonly partitionKey: string
  readonly data: Uint8Array
  readonly arrival: number
}

const blockRecords = 512

/** A block is full as well when it has this many bytes: whoever encodes blocks as a whole has an end of it. */
const blockBytes = 256 * 1024

/** @internal */
export const make = (): RecordLog => ({ blocks: [], first: 0, next: 0 })

/** @internal */
export const isFull = ({ records, sizes }: Block): boolean =>
  records.length >= blockRecords || (sizes.at(-1) ?? 0) >= blockBytes

/** What counts against the limits. */
const sizeOf = ({ data, partitionKey }: StoredRecord): number => data.byteLength + Buffer.byteLength(partitionKey)

/** @internal */
export const append = (log: RecordLog, record: StoredRecord): void => {
  let block = log.blocks.at(-1)
  if (block === undefined || isFull(block)) {
    block = { first: log.next, records: [], sizes: [] }
    log.blocks.push(block)
  }
  block.sizes.push((block.sizes.at(-1) ?? 0) + sizeOf(record))
  block.records.push(record)
  log.next++
}

/** The index of the block that has a place, or would have it if it had vanished or not come yet. */
const blockOf = (log: RecordLog, place: number): number => {
  let low = 0
  let high = log.blocks.length
  while (low < high) {
    const middle = (low + high) >>> 1
    const block = log.blocks[middle]
    if (block !== undefined && block.first > place) high = middle
    else low = middle + 1
  }
  return Math.max(0, low - 1)
}

/** @internal */
export const at = (log: RecordLog, place: number): StoredRecord | undefined => {
  if (place < log.first) return undefined
  const block = log.blocks[blockOf(log, place)]
  return block?.records[place - block.first]
}

/**
 * The parts of the blocks that hold the places from `start` up to `end`, not included.
 *
 * @internal
 */
export const parts = (
  log: RecordLog,
  start: number,
  end: number
): ReadonlyArray<{ readonly block: Block; readonly from: number; readonly to: number }> => {
  const found: Array<{ readonly block: Block; readonly from: number; readonly to: number }> = []
  for (let index = blockOf(log, start); index < log.blocks.length; index++) {
    const block = log.blocks[index]
    if (block === undefined || block.first >= end) break
    const from = Math.max(0, start - block.first)
    const to = Math.min(block.records.length, end - block.first)
    if (from < to) found.push({ block, from, to })
  }
  return found
}

/**
 * How many records from a place on have at most `maxBytes` together, or are a single one; and their bytes.
 *
 * @internal
 */
export const fit = (
  log: RecordLog,
  start: number,
  limit: number,
  maxBytes: number
): { readonly count: number; readonly bytes: number } => {
  let count = 0
  let bytes = 0
  for (const { block: { sizes }, from, to } of parts(log, start, start + limit)) {
    const before = sizes[from - 1] ?? 0
    const sizeTo = (end: number) => (sizes[end - 1] ?? 0) - before
    let end = to
    while (end > from && bytes + sizeTo(end) > maxBytes) end--
    if (count === 0 && end === from) end = from + 1
    count += end - from
    bytes += sizeTo(end)
    if (end < to) break
  }
  return { count, bytes }
}

/** @internal */
export const slice = (log: RecordLog, start: number, end: number): ReadonlyArray<StoredRecord> =>
  parts(log, Math.max(start, log.first), end).flatMap(({ block, from, to }) => block.records.slice(from, to))

/**
 * The place of the first record of which `isAfter` holds, if it holds of all that follow.
 *
 * @internal
 */
export const lowerBound = (log: RecordLog, isAfter: (record: StoredRecord) => boolean): number => {
  let low = log.first
  let high = log.next
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    const record = at(log, middle)
    if (record !== undefined && isAfter(record)) high = middle
    else low = middle + 1
  }
  return low
}

/**
 * Lets vanish what comes before a place.
 *
 * @internal
 */
export const trim = (log: RecordLog, place: number): void => {
  log.first = Math.min(Math.max(log.first, place), log.next)
  const gone = log.blocks.findIndex((block) => block.first + block.records.length > log.first)
  log.blocks.splice(0, gone === -1 ? log.blocks.length : gone)
}
