/**
 * The operations on records.
 */
import type { KinesisError } from "@kinesumer/core/KinesisError"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as HashKeys from "../hashKeys.js"
import type { Where } from "../refusal.js"
import * as Server from "../testServer.js"
import * as TestStream from "../testStream.js"
import type { Leaves } from "./input.js"
import * as Input from "./input.js"
import type { Operation } from "./operation.js"
import * as Operations from "./operation.js"
import * as PutLimit from "./putLimit.js"
import { childMembers } from "./shardMembers.js"
import { findActive } from "./streams.js"
import * as Tokens from "./tokens.js"
import * as Wire from "./wireError.js"

/** The most that a record and that a call can hold. */
const mostBytes = 10 * 1024 * 1024

const entry = ({ bytes }: Leaves) => ({
  Data: bytes.pipe(
    Schema.filter(({ byteLength }) => byteLength <= mostBytes || `has ${byteLength} bytes, more than ${mostBytes}`)
  ),
  PartitionKey: Schema.String.pipe(Schema.minLength(1), Schema.maxLength(256)),
  ExplicitHashKey: Input.maybe(Schema.String.pipe(Schema.pattern(/^(0|[1-9]\d{0,38})$/)))
})

const put = (
  server: Server.Server,
  stream: TestStream.TestStream,
  record: {
    readonly Data: Uint8Array
    readonly PartitionKey: string
    readonly ExplicitHashKey?: string | undefined
  },
  where: Where
): Either.Either<{ readonly shardId: string; readonly sequenceNumber: string }, KinesisError> => {
  const { Data: data, ExplicitHashKey, PartitionKey: partitionKey } = record
  const hashKey = ExplicitHashKey === undefined ? HashKeys.ofPartitionKey(partitionKey) : BigInt(ExplicitHashKey)
  const shard = TestStream.shardOf(stream, hashKey)
  const admitted = shard === undefined
    ? Either.right(undefined)
    : PutLimit.admit(server, shard, data.byteLength, where)
  return Either.flatMap(
    admitted,
    () => TestStream.put(stream, { data, partitionKey, hashKey }, server.now(), where)
  )
}

const putRecord = Operations.make(
  (leaves) =>
    Schema.Struct({
      ...Input.address,
      ...entry(leaves),
      SequenceNumberForOrdering: Input.maybe(Schema.String)
    }),
  (server, input) =>
    Either.gen(function*() {
      const [stream, where] = yield* findActive(server, input, "PutRecord")
      const { sequenceNumber, shardId } = yield* put(server, stream, input, where)
      return { members: { ShardId: shardId, SequenceNumber: sequenceNumber, EncryptionType: "NONE" } }
    })
)

const mostEntries = 500

/** Some records may be taken and others refused; what is wrong with the request itself refuses all. */
const putRecords = Operations.make(
  (leaves) =>
    Schema.Struct({
      ...Input.address,
      Records: Schema.Array(Schema.Struct(entry(leaves))).pipe(Schema.minItems(1), Schema.maxItems(mostEntries))
    }),
  (server, { Records: records, ...input }) =>
    Either.gen(function*() {
      const [stream, where] = yield* findActive(server, input, "PutRecords")
      const bytes = records.reduce(
        (sum, { Data, PartitionKey }) => sum + Data.byteLength + Buffer.byteLength(PartitionKey),
        0
      )
      if (bytes > mostBytes) {
        return yield* Either.left(Wire.invalidArgument(`Records hold ${bytes} bytes, more than ${mostBytes}`))
      }
      const results = records.map((record) =>
        Either.match(put(server, stream, record, where), {
          onRight: ({ sequenceNumber, shardId }) => ({ SequenceNumber: sequenceNumber, ShardId: shardId }),
          onLeft: (error) => {
            const { code, message } = Wire.ofKinesisError(error)
            return { ErrorCode: code, ErrorMessage: message }
          }
        })
      )
      return {
        members: {
          FailedRecordCount: results.filter((result) => "ErrorCode" in result).length,
          Records: results,
          EncryptionType: "NONE"
        }
      }
    })
)

const mostRecords = 10_000

const getRecords = Operations.make(
  () =>
    Schema.Struct({
      ShardIterator: Schema.String,
      Limit: Input.maybe(Input.within(1, mostRecords)),
      StreamARN: Input.maybe(Input.streamArn)
    }),
  (server, { Limit: limit = mostRecords, ShardIterator: iterator, StreamARN }) =>
    Either.gen(function*() {
      const place = Tokens.placeOf(server, iterator)
      if (place === undefined) {
        return yield* Either.left(Wire.invalidArgument("Invalid ShardIterator: it is none of GetShardIterator"))
      }
      if (place.stream === undefined) {
        return yield* Either.left(Wire.make("ResourceNotFoundException", "The stream of the iterator exists no more"))
      }
      if (StreamARN !== undefined && StreamARN !== place.stream.arn) {
        return yield* Either.left(Wire.invalidArgument(`The iterator is not one of ${StreamARN}`))
      }
      const { shardId, stream: { arn: stream } } = place
      const page = yield* Server.readPage(server, shardId, { iterator, limit }, {
        operation: "GetRecords",
        stream,
        shardId
      })
      return {
        page,
        members: {
          NextShardIterator: page.nextIterator,
          MillisBehindLatest: page.millisBehindLatest,
          ChildShards: page.nextIterator === undefined ? page.children.map(childMembers) : undefined
        }
      }
    })
)

/** @internal */
export const operations: Readonly<Record<string, Operation>> = {
  PutRecord: putRecord,
  PutRecords: putRecords,
  GetRecords: getRecords
}
