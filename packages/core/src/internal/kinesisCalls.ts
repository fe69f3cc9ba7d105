/** What the calls of the SDK are made of, and how their answers are read. */
import type * as Sdk from "@aws-sdk/client-kinesis"
import type * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { KinesisClient, RawRecord, StreamId } from "../KinesisClient.js"
import type { KinesisError } from "../KinesisError.js"
import type { Position } from "../Position.js"
import * as SequenceNumber from "../SequenceNumber.js"
import type { Shard } from "../Shard.js"
import * as KinesisErrors from "./kinesisErrors.js"
import type { Packed } from "./recordsCbor.js"

export type Service = Context.Tag.Service<KinesisClient>

// ---------------------------------------------------------------------------------------------------------------------
// Requests
// ---------------------------------------------------------------------------------------------------------------------

export const where = (
  operation: keyof Service,
  action: string,
  stream: StreamId | string,
  shardId?: string
): KinesisErrors.Where => ({
  operation,
  action: `kinesis:${action}`,
  stream: typeof stream === "string" ? stream : Option.getOrElse(stream.arn, () => stream.name),
  shardId
})

export const call = <A>(
  where: KinesisErrors.Where,
  send: (abortSignal: AbortSignal) => Promise<A>
): Effect.Effect<A, KinesisError> =>
  Effect.tryPromise({
    try: (abortSignal) => send(abortSignal),
    catch: (cause) => KinesisErrors.fromCause(where, cause)
  })

export const addressOf = (stream: StreamId): { readonly StreamARN: string } | { readonly StreamName: string } =>
  Option.isSome(stream.arn) ? { StreamARN: stream.arn.value } : { StreamName: stream.name }

export const arnOf = (stream: StreamId): { readonly StreamARN?: string } =>
  Option.isSome(stream.arn) ? { StreamARN: stream.arn.value } : {}

/** Where reading begins, in the words of Kinesis. */
export interface Start {
  readonly type: Sdk.ShardIteratorType
  readonly sequenceNumber?: string
  readonly timestamp?: Date
}

/** A position as Kinesis has to be asked for it; refused where Kinesis could make nothing of it. */
export const startOf = (where: KinesisErrors.Where, position: Position): Effect.Effect<Start, KinesisError> => {
  switch (position._tag) {
    case "TrimHorizon":
      return Effect.succeed({ type: "TRIM_HORIZON" })
    case "AtTimestamp":
      return Effect.succeed({ type: "AT_TIMESTAMP", timestamp: DateTime.toDateUtc(position.timestamp) })
    case "AfterSequence": {
      const { sequenceNumber, subSequenceNumber } = position
      return SequenceNumber.isSequenceNumber(sequenceNumber)
        ? Effect.succeed({
          type: subSequenceNumber === undefined ? "AFTER_SEQUENCE_NUMBER" : "AT_SEQUENCE_NUMBER",
          sequenceNumber
        })
        : Effect.fail(KinesisErrors.make(
          where,
          "InvalidArgument",
          `"${sequenceNumber}" is not a sequence number. Has its checkpoint been written by hand?`
        ))
    }
    case "ShardEnd":
      return Effect.fail(KinesisErrors.make(
        where,
        "InvalidArgument",
        "Nothing comes after the end of a shard (ShardEnd): there is no reading from there"
      ))
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Answers
// ---------------------------------------------------------------------------------------------------------------------

/** The SDK types every field as possibly absent. A stream, shard or record without its identity is of no use. */
export const malformed = (where: KinesisErrors.Where, what: string): Effect.Effect<never, KinesisError> =>
  Effect.fail(KinesisErrors.make(where, "Unknown", `The answer of Kinesis holds ${what}`))

/** Reads an answer. One that is not made as it should be is an error of the call like any other that can't be read. */
export const read = <A>(
  where: KinesisErrors.Where,
  toResult: () => Effect.Effect<A, KinesisError>
): Effect.Effect<A, KinesisError> =>
  Effect.flatten(Effect.try({ try: toResult, catch: (cause) => KinesisErrors.fromCause(where, cause) }))

export const nonEmpty = (text: string | null | undefined): Option.Option<string> =>
  text === undefined || text === null || text === "" ? Option.none() : Option.some(text)

interface KinesisShard {
  readonly ShardId?: string | undefined
  readonly HashKeyRange?: {
    readonly StartingHashKey?: string | undefined
    readonly EndingHashKey?: string | undefined
  } | undefined
}

interface SdkShard extends KinesisShard {
  readonly parents: ReadonlyArray<string | null | undefined>
  readonly closed: boolean
}

export interface KinesisChild extends KinesisShard {
  readonly ParentShards?: ReadonlyArray<string> | undefined
}

const toShard = (shard: SdkShard): Shard | undefined => {
  const { EndingHashKey: end, StartingHashKey: start } = shard.HashKeyRange ?? {}
  if (!shard.ShardId || !start || !end) return undefined
  return {
    shardId: shard.ShardId,
    parents: shard.parents.flatMap((parent) => Option.toArray(nonEmpty(parent))),
    hashKeyRange: { start, end },
    closed: shard.closed
  }
}

export const toShards = (
  where: KinesisErrors.Where,
  shards: ReadonlyArray<SdkShard>
): Effect.Effect<ReadonlyArray<Shard>, KinesisError> => {
  const known = shards.map(toShard).filter((shard) => shard !== undefined)
  return known.length === shards.length
    ? Effect.succeed(known)
    : malformed(where, "a shard without an id or a range of hash keys")
}

/** Shards that follow another one. Nothing tells whether one is closed by now; that shows when it is read. */
export const toChildren = (
  where: KinesisErrors.Where,
  children: ReadonlyArray<KinesisChild> | undefined
): Effect.Effect<ReadonlyArray<Shard>, KinesisError> =>
  toShards(
    where,
    (children ?? []).map((shard) => ({
      ShardId: shard.ShardId,
      HashKeyRange: shard.HashKeyRange,
      parents: shard.ParentShards ?? [],
      closed: false
    }))
  )

const noData = new Uint8Array(0)

export const toRecords = (
  where: KinesisErrors.Where,
  records: ReadonlyArray<Sdk._Record>
): Effect.Effect<ReadonlyArray<RawRecord>, KinesisError> =>
  whole(
    where,
    records.map((record) => ({
      sequenceNumber: record.SequenceNumber ?? "",
      partitionKey: record.PartitionKey ?? "",
      data: record.Data ?? noData,
      arrivalTime: record.ApproximateArrivalTimestamp
    }))
  )

/** Records, if each has a sequence number. Those that are packed have. */
export const whole = <Records extends ReadonlyArray<RawRecord> | Packed>(
  where: KinesisErrors.Where,
  records: Records
): Effect.Effect<Records, KinesisError> =>
  "get" in records || records.every(({ sequenceNumber }) => sequenceNumber !== "")
    ? Effect.succeed(records)
    : malformed(where, "a record without a sequence number")
