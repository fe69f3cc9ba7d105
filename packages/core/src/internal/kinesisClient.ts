/**
 * `KinesisClient` on the AWS SDK.
 */
import * as Sdk from "@aws-sdk/client-kinesis"
import { NodeHttpHandler } from "@smithy/node-http-handler"
import type * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import type { GetRecordsResult, KinesisClient, KinesisClientOptions, RawRecord, StreamId } from "../KinesisClient.js"
import type { KinesisError } from "../KinesisError.js"
import type { Position } from "../Position.js"
import * as SequenceNumber from "../SequenceNumber.js"
import type { Shard } from "../Shard.js"
import * as KinesisErrors from "./kinesisErrors.js"

type Service = Context.Tag.Service<KinesisClient>
type Credentials = NonNullable<Sdk.KinesisClientConfig["credentials"]>

// ---------------------------------------------------------------------------------------------------------------------
// The SDK's client
// ---------------------------------------------------------------------------------------------------------------------

const layerWhere: KinesisErrors.Where = { operation: "layer", action: "kinesis:*", stream: "*" }

const credentialsOf = (options: NonNullable<KinesisClientOptions["credentials"]>): Credentials => {
  if (typeof options === "function") return options
  const plain = (secret: string | Redacted.Redacted): string =>
    Redacted.isRedacted(secret) ? Redacted.value(secret) : secret
  return {
    accessKeyId: options.accessKeyId,
    secretAccessKey: plain(options.secretAccessKey),
    ...(options.sessionToken === undefined ? {} : { sessionToken: plain(options.sessionToken) })
  }
}

/** What is used of `@aws-sdk/credential-providers`; naming its types would make it a must for everybody's compiler. */
type LoadProviders = () => Promise<{
  readonly fromTemporaryCredentials: (options: {
    readonly params: { readonly RoleArn: string }
    readonly masterCredentials?: Credentials
  }) => Credentials
}>

/** Credentials of a role. The package that assumes it is optional, since most groups live in one account. */
export const assumeRole = (
  roleArn: string,
  masterCredentials: Credentials | undefined,
  load: LoadProviders = () => import("@aws-sdk/credential-providers")
): Effect.Effect<Credentials, KinesisError> =>
  Effect.tryPromise({
    try: load,
    catch: (cause) =>
      KinesisErrors.make(
        layerWhere,
        "InvalidArgument",
        `roleArn "${roleArn}" needs the package @aws-sdk/credential-providers, which cannot be loaded: install it`,
        cause
      )
  }).pipe(Effect.map((providers) =>
    providers.fromTemporaryCredentials({
      params: { RoleArn: roleArn },
      ...(masterCredentials === undefined ? {} : { masterCredentials })
    })
  ))

const checkEndpoint = (endpoint: string | undefined): Effect.Effect<void, KinesisError> => {
  const protocol = endpoint === undefined ? "https:" : URL.canParse(endpoint) ? new URL(endpoint).protocol : ""
  return protocol === "http:" || protocol === "https:" ? Effect.void : Effect.fail(KinesisErrors.make(
    layerWhere,
    "InvalidArgument",
    `endpoint "${endpoint}" is not an address with http: or https:, such as http://localhost:4568`
  ))
}

/**
 * Calls go over HTTP/1.1 with connections that are kept alive. The SDK's own choice for Kinesis is HTTP/2, which plain
 * local servers refuse and for which it opens a connection for each call; only a subscription would need it. One call
 * that hangs must not keep the others waiting for its socket.
 */
const requestHandler = () => {
  const agent = { keepAlive: true, maxSockets: Infinity }
  return new NodeHttpHandler({ httpAgent: agent, httpsAgent: agent })
}

const acquire = (options: KinesisClientOptions): Effect.Effect<Sdk.KinesisClient, KinesisError, Scope.Scope> =>
  Effect.gen(function*() {
    yield* checkEndpoint(options.endpoint)
    const given = options.credentials === undefined ? undefined : credentialsOf(options.credentials)
    const credentials = options.roleArn === undefined ? given : yield* assumeRole(options.roleArn, given)
    return yield* Effect.acquireRelease(
      Effect.try({
        try: () =>
          new Sdk.KinesisClient({
            ...(options.region === undefined ? {} : { region: options.region }),
            ...(options.endpoint === undefined ? {} : { endpoint: options.endpoint }),
            ...(credentials === undefined ? {} : { credentials }),
            requestHandler: requestHandler(),
            // The engine paces, backs off and counts, so it must hear of every refusal. (The adaptive mode, which the
            // environment can ask for, would hold calls back as well.)
            maxAttempts: 1,
            retryMode: "standard"
          }),
        catch: (cause) => KinesisErrors.fromCause(layerWhere, cause)
      }),
      (client) => Effect.sync(() => client.destroy())
    )
  })

// ---------------------------------------------------------------------------------------------------------------------
// Requests
// ---------------------------------------------------------------------------------------------------------------------

const where = (operation: keyof Service, action: string, stream: StreamId, shardId?: string): KinesisErrors.Where => ({
  operation,
  action: `kinesis:${action}`,
  stream: Option.getOrElse(stream.arn, () => stream.name),
  shardId
})

const call = <A>(
  where: KinesisErrors.Where,
  send: (abortSignal: AbortSignal) => Promise<A>
): Effect.Effect<A, KinesisError> =>
  Effect.tryPromise({
    try: (abortSignal) => send(abortSignal),
    catch: (cause) => KinesisErrors.fromCause(where, cause)
  })

const addressOf = (stream: StreamId): { readonly StreamARN: string } | { readonly StreamName: string } =>
  Option.isSome(stream.arn) ? { StreamARN: stream.arn.value } : { StreamName: stream.name }

const arnOf = (stream: StreamId): { readonly StreamARN?: string } =>
  Option.isSome(stream.arn) ? { StreamARN: stream.arn.value } : {}

type IteratorStart = Pick<Sdk.GetShardIteratorInput, "ShardIteratorType" | "StartingSequenceNumber" | "Timestamp">

/** `undefined` where there is nothing to read. */
const iteratorStart = (position: Position): IteratorStart | undefined => {
  switch (position._tag) {
    case "TrimHorizon":
      return { ShardIteratorType: "TRIM_HORIZON" }
    case "AtTimestamp":
      return { ShardIteratorType: "AT_TIMESTAMP", Timestamp: DateTime.toDateUtc(position.timestamp) }
    case "AfterSequence":
      return {
        ShardIteratorType: position.subSequenceNumber === undefined ? "AFTER_SEQUENCE_NUMBER" : "AT_SEQUENCE_NUMBER",
        StartingSequenceNumber: position.sequenceNumber
      }
    case "ShardEnd":
      return undefined
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Answers
// ---------------------------------------------------------------------------------------------------------------------

/** The SDK types every field as possibly absent. A stream, shard or record without its identity is of no use. */
const malformed = (where: KinesisErrors.Where, what: string): Effect.Effect<never, KinesisError> =>
  Effect.fail(KinesisErrors.make(where, "Unknown", `The answer of Kinesis holds ${what}`))

const nonEmpty = (text: string | null | undefined): Option.Option<string> =>
  text === undefined || text === null || text === "" ? Option.none() : Option.some(text)

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

interface SdkShard extends Pick<Sdk.Shard, "ShardId" | "HashKeyRange"> {
  readonly parents: ReadonlyArray<string | null | undefined>
  readonly closed: boolean
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

const toShards = (
  where: KinesisErrors.Where,
  shards: ReadonlyArray<SdkShard>
): Effect.Effect<ReadonlyArray<Shard>, KinesisError> => {
  const known = shards.map(toShard).filter((shard) => shard !== undefined)
  return known.length === shards.length
    ? Effect.succeed(known)
    : malformed(where, "a shard without an id or a range of hash keys")
}

const noData = new Uint8Array(0)

const toRecords = (
  where: KinesisErrors.Where,
  records: ReadonlyArray<Sdk._Record>
): Effect.Effect<ReadonlyArray<RawRecord>, KinesisError> => {
  const raw: Array<RawRecord> = []
  for (const record of records) {
    if (!record.SequenceNumber) return malformed(where, "a record without a sequence number")
    raw.push({
      sequenceNumber: record.SequenceNumber,
      partitionKey: record.PartitionKey ?? "",
      data: record.Data ?? noData,
      arrivalTime: record.ApproximateArrivalTimestamp
    })
  }
  return Effect.succeed(raw)
}

// ---------------------------------------------------------------------------------------------------------------------
// The service
// ---------------------------------------------------------------------------------------------------------------------

/** The calls of the service on a client of the SDK that lives as long as the scope. */
export const make = Effect.fnUntraced(function*(options: KinesisClientOptions) {
  const client = yield* acquire(options)

  const region: Service["region"] = Effect.tryPromise({
    try: () => client.config.region(),
    catch: (cause) => KinesisErrors.fromCause({ operation: "region", action: "kinesis:*", stream: "*" }, cause)
  })

  const describeStream: Service["describeStream"] = Effect.fnUntraced(function*(stream) {
    const at = where("describeStream", "DescribeStreamSummary", stream)
    const command = new Sdk.DescribeStreamSummaryCommand(addressOf(stream))
    const answerDate = keepDate(command)
    const output = yield* call(at, (abortSignal) => client.send(command, { abortSignal }))
    const answeredAt = answerDate()
    if (Option.isNone(answeredAt)) {
      return yield* malformed(
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
      return yield* malformed(at, "a stream without its name, ARN, status or time of creation")
    }
    return { name, arn, status, createdAt: DateTime.unsafeFromDate(createdAt), answeredAt: answeredAt.value }
  })

  const listShards: Service["listShards"] = Effect.fnUntraced(function*(stream, nextToken) {
    const at = where("listShards", "ListShards", stream)
    // A token stands for the stream: it must not come with its name, and some servers refuse it with its ARN as well.
    const command = new Sdk.ListShardsCommand({
      ...(Option.isSome(nextToken) ? { NextToken: nextToken.value } : addressOf(stream)),
      MaxResults: 1000
    })
    const output = yield* call(at, (abortSignal) => client.send(command, { abortSignal }))
    const shards = yield* toShards(
      at,
      (output.Shards ?? []).map((shard) => ({
        ShardId: shard.ShardId,
        HashKeyRange: shard.HashKeyRange,
        parents: [shard.ParentShardId, shard.AdjacentParentShardId],
        closed: Option.isSome(nonEmpty(shard.SequenceNumberRange?.EndingSequenceNumber))
      }))
    )
    return { shards, nextToken: nonEmpty(output.NextToken) }
  })

  const getShardIterator: Service["getShardIterator"] = Effect.fnUntraced(function*(stream, shardId, position) {
    const at = where("getShardIterator", "GetShardIterator", stream, shardId)
    const start = iteratorStart(position)
    if (start === undefined) {
      return yield* Effect.fail(KinesisErrors.make(
        at,
        "InvalidArgument",
        "A shard that is read to its end (ShardEnd) has no iterator"
      ))
    }
    if (position._tag === "AfterSequence" && !SequenceNumber.isSequenceNumber(position.sequenceNumber)) {
      return yield* Effect.fail(KinesisErrors.make(
        at,
        "InvalidArgument",
        `"${position.sequenceNumber}" is not a sequence number. Has its checkpoint been written by hand?`
      ))
    }
    const command = new Sdk.GetShardIteratorCommand({ ...addressOf(stream), ShardId: shardId, ...start })
    const output = yield* call(at, (abortSignal) => client.send(command, { abortSignal }))
    return output.ShardIterator ? output.ShardIterator : yield* malformed(at, "no shard iterator")
  })

  const getRecords: Service["getRecords"] = (stream, shardId, options) => {
    const at = where("getRecords", "GetRecords", stream, shardId)
    const input: Sdk.GetRecordsInput = { ...arnOf(stream), ShardIterator: options.iterator, Limit: options.limit }
    return call(at, (abortSignal) => client.send(new Sdk.GetRecordsCommand(input), { abortSignal })).pipe(
      Effect.flatMap((output) => getRecordsResult(at, output)),
      Effect.withSpan("KinesisClient.getRecords", {
        kind: "client",
        captureStackTrace: false,
        attributes: { stream: at.stream, shardId }
      })
    )
  }

  return { region, describeStream, listShards, getShardIterator, getRecords } satisfies Service
})

const getRecordsResult = (
  where: KinesisErrors.Where,
  output: Sdk.GetRecordsOutput
): Effect.Effect<GetRecordsResult, KinesisError> =>
  Effect.zipWith(
    toRecords(where, output.Records ?? []),
    toShards(
      where,
      (output.ChildShards ?? []).map((shard) => ({
        ShardId: shard.ShardId,
        HashKeyRange: shard.HashKeyRange,
        parents: shard.ParentShards ?? [],
        // Nothing tells here; a child that is closed by now shows it when it is read.
        closed: false
      }))
    ),
    (records, childShards) => ({
      records,
      nextIterator: nonEmpty(output.NextShardIterator),
      millisBehindLatest: Option.fromNullable(output.MillisBehindLatest),
      childShards
    })
  )
