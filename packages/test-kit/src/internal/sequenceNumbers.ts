/**
 * The sequence numbers of one stream. Each is larger than the last one of the whole stream, so children stand above
 * their parents. The gaps are irregular. Eight digits at the end name the stream and the shard, as AWS's own do.
 *
 * A stream begins just below a power of ten, and so do the children of a reshard: after some records on each shard the
 * numbers grow by a digit. Code that compares them as text fails early.
 *
 * @internal
 */
export interface SequenceNumbers {
  /** The place of the stream among all streams that ever were. */
  readonly streamIndex: number
  /** The number of a new record, or of the end of a shard. */
  readonly next: (shardIndex: number) => string
  /** The number below all of a new shard. */
  readonly start: (shardIndex: number) => string
  /** Goes on just below the next power of ten, if this one has been passed. */
  readonly approach: (shards: number) => void
  /** Whether a number could have been given to the shard, by its last digits. */
  readonly belongs: (sequenceNumber: string, shardIndex: number) => boolean
  readonly last: () => bigint
}

const suffixDigits = 8
const suffix = 10n ** BigInt(suffixDigits)

/** The exponents of the powers of ten that are crossed. AWS's numbers have 56 digits today, and may have 129. */
const firstPower = 56
const lastPower = 110

/** Gaps have half of this on average, so that about three records of each shard come before the power of ten. */
const widestGap = 4_000_000_000_000
const approachOfShard = 6_000_000_000_000n

/** @internal */
export const make = (options: {
  readonly streamIndex: number
  /** All numbers are above this one. */
  readonly above?: bigint | undefined
  /** The first number is just above this one, and no power of ten is sought. */
  readonly from?: bigint | undefined
}): SequenceNumbers => {
  const tag = `${options.streamIndex % 1000}`.padStart(3, "0")
  const suffixOf = (shardIndex: number) => BigInt(`${tag}${`${shardIndex % 100_000}`.padStart(5, "0")}`)
  let seed = 20_130_915 + options.streamIndex
  let power = firstPower
  let unit = (options.from ?? options.above ?? 0n) / suffix
  let last = unit * suffix

  const gap = () => {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0
    return 1n + BigInt(Math.floor(seed / 2 ** 32 * widestGap))
  }
  const give = (shardIndex: number) => {
    last = unit * suffix + suffixOf(shardIndex)
    return `${last}`
  }

  return {
    streamIndex: options.streamIndex,
    next: (shardIndex) => {
      unit += gap()
      return give(shardIndex)
    },
    start: (shardIndex) => {
      unit += 1n
      return give(shardIndex)
    },
    approach: (shards) => {
      if (options.from !== undefined) return
      const begin = () => 10n ** BigInt(power - suffixDigits) - approachOfShard * BigInt(shards)
      const passed = 10n ** BigInt(power - suffixDigits) <= unit
      if (!passed && unit >= begin()) return
      while (power < lastPower && begin() <= unit) power++
      if (begin() > unit) unit = begin()
    },
    belongs: (sequenceNumber, shardIndex) => BigInt(sequenceNumber) % suffix === suffixOf(shardIndex),
    last: () => last
  }
}
