import type { StoredRecord } from "../recordLog.js"

/**
 * What an answer is made of. Members that are undefined are left out.
 *
 * @internal
 */
export type Value = string | number | boolean | Date | undefined | ReadonlyArray<Value> | Members

/** @internal */
export interface Members {
  readonly [name: string]: Value
}

/**
 * A form in which requests and answers travel. They differ in the form of times and of binary data, and in what stands
 * around an answer.
 *
 * @internal
 */
export interface Format {
  readonly contentType: string
  /** What an answer carries besides. */
  readonly headers: Readonly<Record<string, string>>
  /** Throws what the parser throws. */
  readonly decode: (body: Uint8Array) => unknown
  /** Binary data of a request; `undefined` if it is none. */
  readonly bytes: (value: unknown) => Uint8Array | undefined
  /** A time of a request in milliseconds; `undefined` if it is none. */
  readonly time: (value: unknown) => number | undefined
  readonly encode: (members: Members) => Uint8Array
  /** A record, and what stands between it and the next one. */
  readonly encodeRecord: (record: StoredRecord) => Uint8Array
  /** The parts of an answer with `Records`, whose bytes are there already, and at least one further member. */
  readonly withRecords: (
    records: ReadonlyArray<Uint8Array>,
    count: number,
    rest: Members
  ) => ReadonlyArray<Uint8Array>
}

/**
 * Members without those that are undefined, and with times in the form of a format.
 *
 * @internal
 */
export const plain = (members: Members, ofTime: (time: Date) => unknown): Readonly<Record<string, unknown>> => {
  const plainValue = (value: Value): unknown => {
    if (value instanceof Date) return ofTime(value)
    if (Array.isArray(value)) return value.map(plainValue)
    // What is left of objects are members; `isArray` does not see that of a readonly array.
    return typeof value === "object" ? plain(value as Members, ofTime) : value
  }
  return Object.fromEntries(
    Object.entries(members).flatMap(([name, value]) => value === undefined ? [] : [[name, plainValue(value)]])
  )
}

/** @internal */
export const recordMembers = (record: StoredRecord): Members => ({
  ApproximateArrivalTimestamp: new Date(record.arrival),
  EncryptionType: "NONE",
  PartitionKey: record.partitionKey,
  SequenceNumber: record.sequenceNumber
})
