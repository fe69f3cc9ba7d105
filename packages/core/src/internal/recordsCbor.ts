/** An answer with records in CBOR: a page of `GetRecords`, or an event of a subscription. */
import * as Schema from "effect/Schema"
import type { RawRecord } from "../KinesisClient.js"
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

export interface Answer extends Schema.Schema.Type<typeof Members> {
  /** One without a sequence number has an empty one. */
  readonly records: ReadonlyArray<RawRecord>
}

const recordsKey = Cbor.key("Records")
const dataKey = Cbor.key("Data")
const partitionKey = Cbor.key("PartitionKey")
const sequenceNumberKey = Cbor.key("SequenceNumber")
const arrivalKey = Cbor.key("ApproximateArrivalTimestamp")

const noData = new Uint8Array(0)

/** Data are views of the answer: nothing is copied. Throws what is wrong. An answer without a byte has no members. */
export const decode = (bytes: Uint8Array): Answer => {
  let records: ReadonlyArray<RawRecord> = []
  const members: Array<readonly [string, unknown]> = []
  if (bytes.byteLength > 0) {
    const reader = new Cbor.Reader(bytes)
    const count = reader.map()
    for (let index = 0; !reader.isOver(index, count); index++) {
      const length = reader.key()
      if (reader.isKey(length, recordsKey)) records = readRecords(reader)
      else members.push([reader.keyText(length), reader.value()])
    }
  }
  return { ...decodeMembers(Object.fromEntries(members)), records }
}

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
