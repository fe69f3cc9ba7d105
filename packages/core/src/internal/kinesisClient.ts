/**
 * `KinesisClient` on the AWS SDK.
 */
import * as Sdk from "@aws-sdk/client-kinesis"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import type { GetRecordsResult, KinesisClientOptions } from "../KinesisClient.js"
import type { KinesisError } from "../KinesisError.js"
import * as Answers from "./answers.js"
import * as Calls from "./kinesisCalls.js"
import * as Cbor from "./kinesisCbor.js"
import * as KinesisErrors from "./kinesisErrors.js"
import * as FanOut from "./kinesisFanOut.js"
import * as KinesisProtocol from "./kinesisProtocol.js"
import * as KinesisSdk from "./kinesisSdk.js"
import type { Answer } from "./recordsCbor.js"

const hasHeaders = Predicate.compose(Predicate.isRecord, Predicate.struct({ headers: Predicate.isRecord }))

/** The `Date` header of an answer. One without a zone would be read in this machine's. */
const dateOf = (response: unknown): Option.Option<DateTime.Utc> => {
  const date = hasHeaders(response) ? response.headers["date"] : undefined
  return typeof date === "string" && date.endsWith(" GMT") ? DateTime.make(new Date(date)) : Option.none()
}

/** Adds to one call what keeps the date of its answer, which the SDK does not pass on. */
const keepDate = (command: Sdk.DescribeStreamSummaryCommand): () => Option.Option<DateTime.Utc> => {
  let date = Option.none<DateTime.Utc>()
  command.middlewareStack.add(
    (next) => async (args) => {
      const result = await next(args)
      date = dateOf(result.response)
      return result
    },
    { step: "deserialize", name: "kinesumerAnswerDate" }
  )
  return () => date
}

/** The calls of the service on a client of the SDK that lives as long as the scope. */
export const make = Effect.fnUntraced(function*(options: KinesisClientOptions) {
  const client = yield* KinesisSdk.acquire(options)
  const protocol = yield* KinesisProtocol.make(options.protocol ?? "auto")

  const region: Calls.Service["region"] = Effect.tryPromise({
    try: () => client.config.region(),
    catch: (cause) => KinesisErrors.fromCause({ operation: "region", action: "kinesis:*", stream: "*" }, cause)
  })

  const describeStream: Calls.Service["describeStream"] = Effect.fnUntraced(function*(stream) {
    const at = Calls.where("describeStream", "DescribeStreamSummary", stream)
    const command = new Sdk.DescribeStreamSummaryCommand(Calls.addressOf(stream))
    const answerDate = keepDate(command)
    const output = yield* Calls.call(at, (abortSignal) => client.send(command, { abortSignal }))
    const answeredAt = answerDate()
    if (Option.isNone(answeredAt)) {
      return yield* Calls.malformed(
        at,
        "no readable Date header, so the time of Kinesis is not known. Does a proxy drop or change it?"
      )
    }
    const {
      StreamARN: arn,
      StreamCreationTimestamp: createdAt,
      StreamName: name,
      StreamStatus: status
    } = output.StreamDescriptionSummary ?? {}
    if (!name || !arn || !status || !createdAt) {
      return yield* Calls.malformed(at, "a stream without its name, ARN, status or time of creation")
    }
    return { name, arn, status, createdAt: DateTime.unsafeFromDate(createdAt), answeredAt: answeredAt.value }
  })

  const listShards: Calls.Service["listShards"] = Effect.fnUntraced(function*(stream, nextToken) {
    const at = Calls.where("listShards", "ListShards", stream)
    // A token stands for the stream: it must not come with its name, and some servers refuse it with its ARN as well.
    const command = new Sdk.ListShardsCommand({
      ...(Option.isSome(nextToken) ? { NextToken: nextToken.value } : Calls.addressOf(stream)),
      MaxResults: 1000
    })
    const output = yield* Calls.call(at, (abortSignal) => client.send(command, { abortSignal }))
    const shards = yield* Calls.read(at, () =>
      Calls.toShards(
        at,
        (output.Shards ?? []).map((shard) => ({
          ShardId: shard.ShardId,
          HashKeyRange: shard.HashKeyRange,
          parents: [shard.ParentShardId, shard.AdjacentParentShardId],
          closed: Option.isSome(Calls.nonEmpty(shard.SequenceNumberRange?.EndingSequenceNumber))
        }))
      ))
    return { shards, nextToken: Calls.nonEmpty(output.NextToken) }
  })

  const getShardIterator: Calls.Service["getShardIterator"] = Effect.fnUntraced(function*(stream, shardId, position) {
    const at = Calls.where("getShardIterator", "GetShardIterator", stream, shardId)
    const start = yield* Calls.startOf(at, position)
    const command = new Sdk.GetShardIteratorCommand({
      ...Calls.addressOf(stream),
      ShardId: shardId,
      ShardIteratorType: start.type,
      StartingSequenceNumber: start.sequenceNumber,
      Timestamp: start.timestamp
    })
    const output = yield* Calls.call(at, (abortSignal) => client.send(command, { abortSignal }))
    return output.ShardIterator ? output.ShardIterator : yield* Calls.malformed(at, "no shard iterator")
  })

  const getRecords: Calls.Service["getRecords"] = (stream, shardId, options) => {
    const at = Calls.where("getRecords", "GetRecords", stream, shardId)
    const input: Sdk.GetRecordsInput = { ...Calls.arnOf(stream), ShardIterator: options.iterator, Limit: options.limit }
    return protocol.ask<Sdk.GetRecordsOutput | Answer>({
      json: Calls.call(at, (abortSignal) => client.send(new Sdk.GetRecordsCommand(input), { abortSignal })),
      cbor: (onCbor) => Calls.call(at, (abortSignal) => Cbor.getRecords({ client, abortSignal, onCbor }, input))
    }).pipe(
      Effect.flatMap((output) => Calls.read(at, () => getRecordsResult(at, output))),
      Effect.withSpan("KinesisClient.getRecords", {
        kind: "client",
        captureStackTrace: false,
        attributes: { stream: at.stream, shardId }
      })
    )
  }

  return {
    region,
    describeStream,
    listShards,
    getShardIterator,
    getRecords,
    ...FanOut.make(client, protocol),
    fallback: protocol.fallback
  } satisfies Calls.Service
})

const getRecordsResult = (
  where: KinesisErrors.Where,
  output: Sdk.GetRecordsOutput | Answer
): Effect.Effect<GetRecordsResult, KinesisError> =>
  Effect.zipWith(
    "records" in output ? Calls.whole(where, output.records) : Calls.toRecords(where, output.Records ?? []),
    Calls.toChildren(where, output.ChildShards),
    (records, childShards) =>
      Answers.make(records, {
        nextIterator: Calls.nonEmpty(output.NextShardIterator),
        millisBehindLatest: Option.fromNullable(output.MillisBehindLatest),
        childShards
      })
  )
