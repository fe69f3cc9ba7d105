/** An answer with records in CBOR: a page of `GetRecords`, or an event of a subscription. */
import * as Schema from "effect/Schema"
import { markAsUntransferable } from "node:worker_threads"
import type { RawRecord } from "../KinesisClient.js"
import * as Aggregate from "./aggregate.js"
import * as Cbor from "./cborReader.js"

/** What Kinesis does not tell it leaves out; some servers say `null`. */
const maybe = <A, I>(schema: Schema.Schema<A, I>) => Schema.optionalWith(schema, { nullable: true })

const Members = Schema.Struct({
  NextShardIterator: maybe(Schema.String),
  ContinuationSequenceNumber: maybe(Schema.String),
  MillisBehindLatest: maybe(Schema.Number),
  ChildShards: maybe(Schema.Array(Schema.Struct({
    ShardId: maybe(Schema.String),
    ParentShards: maybe(Schema.Array(Schema.String)),
    HashKeyRange: maybe(Schema.Struct({ StartingHashKey: maybe(Schema.String), EndingHashKey: maybe(Schema.String) }))
  })))
})

const decodeMembers = Schema.decodeUnknownSync(Members)

/**
 * Records that are not made before they are wanted: where they are is known, and what makes a page of them. What waits in
 * the buffer is then a few numbers a record, which the garbage collector does not have to move about.
 */
export interface Packed {
  readonly count: number
  /** Of all of them. */
  readonly bytes: number
  /** In order, each after the one before it. */
  readonly isAscending: boolean
  /** One of them begins like an aggregate of the Kinesis Producer Library. */
  readonly isAggregated: boolean
  readonly get: (index: number) => RawRecord
  /** The bytes of the data and of the key. */
  readonly sizeOf: (index: number) => number
}

export interface Answer extends Schema.Schema.Type<typeof Members> {
  /** One without a sequence number has an empty one. */
  readonly records: ReadonlyArray<RawRecord> | Packed
}

const recordsKey = Cbor.key("Records")
const dataKey = Cbor.key("Data")
const partitionKey = Cbor.key("PartitionKey")
const sequenceNumberKey = Cbor.key("SequenceNumber")
const arrivalKey = Cbor.key("ApproximateArrivalTimestamp")

const noData = new Uint8Array(0)

/** Data are views of the answer: nothing is copied. Throws what is wrong. An answer without a byte has no members. */
export const decode = (bytes: Uint8Array): Answer => {
  let records: Answer["records"] = []
  const members: Array<readonly [string, unknown]> = []
  if (bytes.byteLength > 0) {
    // Whoever sends one record to another thread must not take the others away with it.
    markAsUntransferable(bytes.buffer)
    const reader = new Cbor.Reader(bytes)
    const count = reader.map()
    for (let index = 0; !reader.isOver(index, count); index++) {
      const length = reader.key()
      if (reader.isKey(length, recordsKey)) {
        const from = reader.at
        const packed = pack(reader)
        if (packed === undefined) {
          reader.at = from
          records = readRecords(reader)
        } else records = packed
      } else members.push([reader.keyText(length), reader.value()])
    }
  }
  return { ...decodeMembers(Object.fromEntries(members)), records }
}

const magic = Aggregate.magic.reduce((word, byte) => word * 256 + byte, 0)

/** Goes over records of the usual form; gives nothing where one has another. */
const pack = (reader: Cbor.Reader): Packed | undefined => {
  // Where each record begins, and its size.
  const places: Array<number> = []
  let isAscending = true
  let isAggregated = false
  let bytes = 0
  let lastEnd = 0
  let lastLength = 0
  const count = reader.array()
  for (let index = 0; !reader.isOver(index, count); index++) {
    const from = reader.at
    let size = 0
    let end = 0
    let length = 0
    const members = reader.map()
    for (let member = 0; !reader.isOver(member, members); member++) {
      const key = reader.key()
      if (reader.isKey(key, dataKey)) {
        const bytes = reader.skip(false)
        if (bytes === -1) return undefined
        size += bytes
        isAggregated ||= bytes > 0 && reader.hasWord(reader.at - bytes, magic)
      } else if (reader.isKey(key, partitionKey)) {
        const bytes = reader.skip(true)
        if (bytes === -1) return undefined
        size += bytes
      } else if (reader.isKey(key, sequenceNumberKey)) {
        length = reader.skip(true)
        if (length <= 0) return undefined
        end = reader.at
      } else if (reader.isKey(key, arrivalKey)) reader.number()
      else if (reader.skip(true) === -1) reader.value()
    }
    if (length === 0) return undefined
    isAscending &&= length > lastLength || (length === lastLength && reader.isBefore(lastEnd, end, length))
    lastEnd = end
    lastLength = length
    places.push(from, size)
    bytes += size
  }
  return {
    count: places.length / 2,
    bytes,
    isAscending,
    isAggregated,
    get: (index) => {
      reader.at = places[index * 2] ?? NaN
      return readRecord(reader)
    },
    sizeOf: (index) => places[index * 2 + 1] ?? 0
  }
}

export const unpack = (records: Answer["records"]): ReadonlyArray<RawRecord> =>
  "get" in records ? Array.from({ length: records.count }, (_, index) => records.get(index)) : records

const readRecords = (reader: Cbor.Reader): ReadonlyArray<RawRecord> => {
  const records: Array<RawRecord> = []
  const count = reader.array()
  while (!reader.isOver(records.length, count)) records.push(readRecord(reader))
  return records
}

const readRecord = (reader: Cbor.Reader): RawRecord => {
  let sequenceNumber: string | undefined
  let key: string | undefined
  let data: Uint8Array | undefined
  let arrival: number | undefined
  const count = reader.map()
  for (let index = 0; !reader.isOver(index, count); index++) {
    const length = reader.key()
    if (reader.isKey(length, dataKey)) data = reader.blob()
    else if (reader.isKey(length, partitionKey)) key = reader.text()
    else if (reader.isKey(length, sequenceNumberKey)) sequenceNumber = reader.ascii()
    else if (reader.isKey(length, arrivalKey)) arrival = reader.number()
    else reader.value()
  }
  return {
    sequenceNumber: sequenceNumber ?? "",
    partitionKey: key ?? "",
    data: data ?? noData,
    arrivalTime: arrival === undefined ? undefined : new Date(Math.round(arrival))
  }
}
