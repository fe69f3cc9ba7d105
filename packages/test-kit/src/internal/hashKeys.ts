import { createHash } from "node:crypto"

/**
 * Hash keys as Kinesis counts them: from 0 to 2^128 - 1, both ends of a range included.
 *
 * @internal
 */
export interface HashRange {
  readonly start: bigint
  readonly end: bigint
}

/** @internal */
export const count = 2n ** 128n

/** @internal */
export const ofPartitionKey = (partitionKey: string): bigint =>
  BigInt(`0x${createHash("md5").update(partitionKey).digest("hex")}`)

/** @internal */
export const contains = (range: HashRange, key: bigint): boolean => range.start <= key && key <= range.end

/**
 * Cuts the whole space into ranges that differ by one key at most.
 *
 * @internal
 */
export const uniform = (ranges: number): ReadonlyArray<HashRange> => {
  const n = BigInt(ranges)
  return Array.from({ length: ranges }, (_, i) => ({
    start: count * BigInt(i) / n,
    end: count * BigInt(i + 1) / n - 1n
  }))
}
