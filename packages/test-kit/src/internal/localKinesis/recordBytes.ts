import type { Block, RecordLog } from "../recordLog.js"
import { isFull, parts } from "../recordLog.js"
import type { Format } from "./format.js"

/**
 * The encoded records of a block, one after another.
 */
interface Encoded {
  bytes: Uint8Array
  /** Where each record ends. */
  readonly ends: Array<number>
}

/**
 * The records of a log in a form of the wire. Each is encoded when it is read for the first time, and its bytes are kept
 * for as long as its block.
 *
 * @internal
 */
export const make = (format: Format): (log: RecordLog, from: number, to: number) => ReadonlyArray<Uint8Array> => {
  const blocks = new WeakMap<Block, Encoded>()

  const encoded = (block: Block): Encoded => {
    const known = blocks.get(block) ?? { bytes: new Uint8Array(0), ends: [] }
    if (known.ends.length < block.records.length) {
      const added = block.records.slice(known.ends.length).map(format.encodeRecord)
      let end = known.ends.at(-1) ?? 0
      for (const record of added) known.ends.push(end += record.byteLength)
      known.bytes = append(known.bytes, known.ends.at(-added.length - 1) ?? 0, added, end, isFull(block))
    }
    blocks.set(block, known)
    return known
  }

  return (log, from, to) =>
    parts(log, from, to).map((part) => {
      const { bytes, ends } = encoded(part.block)
      return bytes.subarray(ends[part.from - 1] ?? 0, ends[part.to - 1])
    })
}

/** Leaves room for more, unless no more will come. */
const append = (
  before: Uint8Array,
  length: number,
  added: ReadonlyArray<Uint8Array>,
  end: number,
  isLast: boolean
): Uint8Array => {
  const bytes = end <= before.byteLength ? before : new Uint8Array(isLast ? end : end * 2)
  if (bytes !== before) bytes.set(before.subarray(0, length))
  let at = length
  for (const record of added) {
    bytes.set(record, at)
    at += record.byteLength
  }
  return isLast && bytes.byteLength > end ? bytes.slice(0, end) : bytes
}
