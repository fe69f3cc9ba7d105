/**
 * What Kinesis was given, and what of it was processed: kept outside of the library, by those who put and who handle.
 *
 * @internal
 */
import type { ShardList } from "@kinesumer/core/StateStore"
import type { ShardState } from "../../TestKinesis.js"

/** @internal */
export interface TruthRecord {
  readonly sequenceNumber: string
  readonly subSequenceNumber: number | undefined
  readonly arrival: number
  processed: boolean
}

/** @internal */
export interface TruthShard {
  readonly key: string
  readonly stream: string
  readonly shardId: string
  readonly parents: ReadonlyArray<string>
  readonly records: Array<TruthRecord>
  readonly places: Map<string, number>
  closed: boolean
  /** Whether Kinesis still lists it. */
  listed: boolean
  /** How many of its records have vanished. */
  trimmed: number
  /** All records before this place are processed, have vanished, or were put before the group's start. */
  done: number
}

/** @internal */
export interface Truth {
  readonly shards: Map<string, TruthShard>
  /** From which moment on each stream is read: once it is known, it does not change. */
  readonly starts: Map<string, number>
}

/** @internal */
export const make = (): Truth => ({ shards: new Map(), starts: new Map() })

/** @internal */
export const keyOf = (stream: string, shardId: string): string => `${stream}/${shardId}`

/** @internal */
export const learnShards = (truth: Truth, stream: string, states: ReadonlyArray<ShardState>): void => {
  const listed = new Set(states.map(({ shardId }) => shardId))
  for (const state of states) {
    const key = keyOf(stream, state.shardId)
    const known = truth.shards.get(key)
    if (known !== undefined) {
      known.closed = state.closed
      continue
    }
    truth.shards.set(key, {
      key,
      stream,
      shardId: state.shardId,
      parents: state.parents,
      records: [],
      places: new Map(),
      closed: state.closed,
      listed: true,
      trimmed: 0,
      done: 0
    })
  }
  for (const shard of truth.shards.values()) {
    if (shard.stream !== stream || listed.has(shard.shardId)) continue
    shard.listed = false
    shard.trimmed = shard.records.length
  }
}

/** @internal */
export const learnRecord = (
  shard: TruthShard,
  sequenceNumber: string,
  subSequenceNumber: number | undefined,
  arrival: number
): void => {
  const place = shard.records.length
  // A number without that of a part stands for the whole, up to its last part.
  shard.places.set(sequenceNumber, place)
  if (subSequenceNumber !== undefined) shard.places.set(partKey(sequenceNumber, subSequenceNumber), place)
  shard.records.push({ sequenceNumber, subSequenceNumber, arrival, processed: false })
}

const partKey = (sequenceNumber: string, subSequenceNumber: number): string => `${sequenceNumber}/${subSequenceNumber}`

/**
 * The place of a record, or of the one that a position stands after.
 *
 * @internal
 */
export const placeOf = (
  shard: TruthShard,
  { sequenceNumber, subSequenceNumber }: Pick<TruthRecord, "sequenceNumber" | "subSequenceNumber">
): number | undefined =>
  shard.places.get(subSequenceNumber === undefined ? sequenceNumber : partKey(sequenceNumber, subSequenceNumber))

/**
 * `oldest` is the first record that the shard still holds.
 *
 * @internal
 */
export const learnTrim = (shard: TruthShard, oldest: string | undefined): void => {
  shard.trimmed = oldest === undefined
    ? shard.records.length
    : shard.places.get(partKey(oldest, 0)) ?? shard.places.get(oldest) ?? shard.trimmed
}

/**
 * Answers `false` if the list says another start than the one before it.
 *
 * @internal
 */
export const learnStart = (truth: Truth, stream: string, { start }: ShardList): boolean => {
  const moment = start._tag === "AtTimestamp" ? start.timestamp.epochMillis : 0
  const known = truth.starts.get(stream)
  if (known === undefined) truth.starts.set(stream, moment)
  return known === undefined || known === moment
}

/**
 * The place of the first record that is still to be processed.
 *
 * @internal
 */
export const firstUnprocessed = (truth: Truth, shard: TruthShard): number => {
  const start = truth.starts.get(shard.stream) ?? 0
  for (;;) {
    const record = shard.records[shard.done]
    if (record === undefined || !(record.processed || shard.done < shard.trimmed || record.arrival < start)) {
      return shard.done
    }
    shard.done++
  }
}

/** @internal */
export const isDone = (truth: Truth, shard: TruthShard): boolean =>
  firstUnprocessed(truth, shard) === shard.records.length

/**
 * Whether nothing between two places is left to be read.
 *
 * @internal
 */
export const isGap = (truth: Truth, shard: TruthShard, from: number, to: number): boolean =>
  to > from && (to <= shard.trimmed ||
    shard.records.slice(Math.max(from, shard.trimmed), to).every(({ arrival }) =>
      arrival < (truth.starts.get(shard.stream) ?? 0)
    ))
