/**
 * Records that a producer has put together: one record of Kinesis that holds many of its own (the format of the KPL).
 *
 * ```
 *   magic number (4 bytes) | AggregatedRecord (protobuf) | MD5 of the protobuf (16 bytes)
 * ```
 */
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire"
import { markAsUntransferable } from "node:worker_threads"
import type { RawRecord } from "../KinesisClient.js"
import * as SequenceNumber from "../SequenceNumber.js"
import type { Shard } from "../Shard.js"
import { md5 } from "./md5.js"

/** A record as it is delivered: one of Kinesis as it is, or a part of an aggregate. */
export interface UserRecord extends RawRecord {
  readonly part?: Part | undefined
}

export interface Part {
  readonly subSequenceNumber: number
  readonly explicitHashKey: string | undefined
  /** Nothing of the aggregate that is delivered comes after it. */
  readonly isLast: boolean
}

/** What an aggregate holds that names no key of its table goes by the key of the aggregate. */
interface Entry {
  readonly partitionKey: string | undefined
  readonly explicitHashKey: string | undefined
  readonly data: Uint8Array
}

/** How an aggregate begins. */
export const magic = [0xf3, 0x89, 0x9a, 0xc2] as const
const digestBytes = 16

/** The parts of a record that is a valid aggregate, in order; nothing for any other. */
export const expand = (record: RawRecord): ReadonlyArray<UserRecord> | undefined => {
  const { data } = record
  if (!hasMagic(data) || !hasDigest(data)) return undefined
  const entries = parse(data.subarray(magic.length, -digestBytes))
  if (entries === undefined || !entries.some(({ partitionKey }) => partitionKey !== undefined)) return undefined
  // Whoever sends one part to another thread must not take the others away with it.
  markAsUntransferable(data.buffer)
  return entries.map(({ data, explicitHashKey, partitionKey }, index) => ({
    sequenceNumber: record.sequenceNumber,
    partitionKey: partitionKey ?? record.partitionKey,
    data,
    arrivalTime: record.arrivalTime,
    part: { subSequenceNumber: index, explicitHashKey, isLast: index === entries.length - 1 }
  }))
}

/** What of an aggregate is in the range of a shard. The places of what stays are those that they had. */
export const within = (
  parts: ReadonlyArray<UserRecord>,
  { hashKeyRange: { end, start } }: Shard
): ReadonlyArray<UserRecord> => {
  const inRange = parts.filter((record) => {
    const hashKey = record.part?.explicitHashKey ?? hashKeyOf(record.partitionKey)
    return SequenceNumber.compare(start, hashKey) <= 0 && SequenceNumber.compare(hashKey, end) <= 0
  })
  const last = inRange.at(-1)
  return last?.part === undefined || last.part.isLast
    ? inRange
    : [...inRange.slice(0, -1), { ...last, part: { ...last.part, isLast: true } }]
}

const hashKeyOf = (partitionKey: string): string =>
  `${BigInt(`0x${Buffer.from(md5(Buffer.from(partitionKey))).toString("hex")}`)}`

const hasMagic = (data: Uint8Array): boolean =>
  data[0] === magic[0] && data[1] === magic[1] && data[2] === magic[2] && data[3] === magic[3] &&
  data.length > magic.length + digestBytes

const hasDigest = (data: Uint8Array): boolean =>
  Buffer.compare(md5(data.subarray(magic.length, -digestBytes)), data.subarray(-digestBytes)) === 0

/** The fields of the messages `AggregatedRecord` and `Record`; tags, which nobody uses, are passed over. */
const aggregateField = { partitionKeys: 1, explicitHashKeys: 2, records: 3 } as const
const recordField = { partitionKey: 1, explicitHashKey: 2, data: 3 } as const

const parse = (bytes: Uint8Array): ReadonlyArray<Entry> | undefined => {
  try {
    return parseAggregate(bytes)
  } catch {
    // The reader throws at whatever is no protobuf.
    return undefined
  }
}

const parseAggregate = (bytes: Uint8Array): ReadonlyArray<Entry> => {
  const partitionKeys: Array<string> = []
  const explicitHashKeys: Array<string> = []
  const records: Array<IndexedEntry> = []
  const reader = new BinaryReader(bytes)
  while (reader.pos < reader.len) {
    const [field, type] = reader.tag()
    if (type !== WireType.LengthDelimited) reader.skip(type, field)
    else if (field === aggregateField.partitionKeys) partitionKeys.push(reader.string())
    else if (field === aggregateField.explicitHashKeys) explicitHashKeys.push(reader.string())
    else if (field === aggregateField.records) records.push(parseRecord(reader))
    else reader.skip(type, field)
  }
  // The tables may come after the records.
  return records.map(({ data, explicitHashKey, partitionKey }) => {
    const hashKey = explicitHashKeys[explicitHashKey]
    return {
      partitionKey: partitionKeys[partitionKey],
      explicitHashKey: hashKey !== undefined && isHashKey(hashKey) ? hashKey : undefined,
      data
    }
  })
}

/** An entry with the places of its keys in the tables. */
interface IndexedEntry {
  readonly partitionKey: number
  readonly explicitHashKey: number
  readonly data: Uint8Array
}

const noIndex = -1

/** Reads on with the same reader: one for each record would cost more than all the rest. */
const parseRecord = (reader: BinaryReader): IndexedEntry => {
  let partitionKey: number | undefined
  let explicitHashKey = noIndex
  let data: Uint8Array | undefined
  const length = reader.uint32()
  const end = reader.pos + length
  while (reader.pos < end) {
    const [field, type] = reader.tag()
    if (field === recordField.data && type === WireType.LengthDelimited) data = reader.bytes()
    else if (field === recordField.partitionKey && type === WireType.Varint) partitionKey = index(reader)
    else if (field === recordField.explicitHashKey && type === WireType.Varint) explicitHashKey = index(reader)
    else reader.skip(type, field)
  }
  if (reader.pos !== end) throw new RangeError("a field reaches beyond its record")
  // Every packer writes both. Without them a few bytes would make a record, and a payload millions.
  if (partitionKey === undefined || data === undefined) throw new RangeError("a record lacks a field that it must have")
  return { partitionKey, explicitHashKey, data }
}

/** The reader cuts a number to 32 bits; one of more than 28 is in no table. */
const index = (reader: BinaryReader): number => {
  const start = reader.pos
  const value = reader.uint32()
  return reader.pos - start > 4 ? noIndex : value
}

const maxHashKey = `${2n ** 128n - 1n}`

/** Some packers write the text `undefined` for a key that was not given. */
const isHashKey = (text: string): boolean =>
  SequenceNumber.isSequenceNumber(text) && SequenceNumber.compare(text, maxHashKey) <= 0
