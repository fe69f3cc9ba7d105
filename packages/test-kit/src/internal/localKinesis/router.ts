/**
 * From a request to its answer.
 */
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import type { KinesisError } from "@kinesumer/core/KinesisError"
import * as Chunk from "effect/Chunk"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Stream from "effect/Stream"
import { randomUUID } from "node:crypto"
import type { Page, Server } from "../testServer.js"
import type { Event } from "../testSubscription.js"
import * as Body from "./body.js"
import * as CborFormat from "./cborFormat.js"
import * as Consumers from "./consumers.js"
import * as EventStream from "./eventStream.js"
import type { Format, Members } from "./format.js"
import * as Input from "./input.js"
import * as JsonFormat from "./jsonFormat.js"
import type { Answer, Operation, Result } from "./operation.js"
import { nothing } from "./operation.js"
import * as RecordBytes from "./recordBytes.js"
import * as Records from "./records.js"
import { childMembers } from "./shardMembers.js"
import * as Shards from "./shards.js"
import * as Streams from "./streams.js"
import type { WireError } from "./wireError.js"
import * as Wire from "./wireError.js"

const operations: Readonly<Record<string, Operation>> = {
  ...Streams.operations,
  ...Shards.operations,
  ...Records.operations,
  ...Consumers.operations
}

/** A form, with what it takes to answer in it. */
interface Dialect {
  readonly format: Format
  readonly operations: ReadonlyMap<string, (server: Server, input: unknown) => Result<Answer>>
  readonly recordBytes: ReturnType<typeof RecordBytes.make>
}

const dialectOf = (format: Format): Dialect => {
  const leaves = Input.leavesOf(format)
  return {
    format,
    operations: new Map(Object.entries(operations).map(([name, operation]) => [name, operation(leaves)])),
    recordBytes: RecordBytes.make(format)
  }
}

interface Asked {
  readonly dialect: Dialect
  readonly operation: string
}

const target = /^Kinesis_20131202\.(\w+)$/
const rpcPath = /^\/service\/Kinesis_20131202\/operation\/(\w+)$/

/** @internal */
export const make = (server: Server, latency: Duration.Duration) => {
  const json = dialectOf(JsonFormat.json)
  const amzCbor = dialectOf(CborFormat.amzCbor)
  const rpcV2Cbor = dialectOf(CborFormat.rpcV2Cbor)
  const byContentType = new Map([
    ["application/x-amz-json-1.1", json],
    ["application/json", json],
    ["application/x-amz-cbor-1.1", amzCbor]
  ])

  /** The form and the operation; where they cannot be known, the error is told in the form that is the likeliest. */
  const askedOf = (
    request: HttpServerRequest.HttpServerRequest
  ): Either.Either<Asked, readonly [Dialect, WireError]> => {
    const rpc = rpcPath.exec(request.url)?.[1]
    const contentType = request.headers["content-type"]?.split(";")[0]?.trim().toLowerCase() ?? ""
    const dialect = rpc === undefined ? byContentType.get(contentType) : rpcV2Cbor
    const operation = rpc ?? target.exec(request.headers["x-amz-target"] ?? "")?.[1]
    if (request.method !== "POST" || dialect === undefined || operation === undefined) {
      return Either.left([
        dialect ?? json,
        Wire.make(
          "UnknownOperationException",
          "Kinesis is asked with POST, x-amz-target and a content type of JSON or CBOR, or by Smithy RPC v2 CBOR",
          404
        )
      ])
    }
    return dialect.operations.has(operation)
      ? Either.right({ dialect, operation })
      : Either.left([dialect, Wire.make("UnknownOperationException", `There is no ${operation} here`)])
  }

  const headersOf = ({ format }: Dialect) => ({
    ...format.headers,
    date: new Date(server.now()).toUTCString(),
    "x-amzn-requestid": randomUUID()
  })

  const respond = (dialect: Dialect, status: number, body: Uint8Array) =>
    HttpServerResponse.uint8Array(body, {
      status,
      contentType: dialect.format.contentType,
      headers: headersOf(dialect)
    })

  /** The kept bytes go out as they are: joining them would cost more than all else. */
  const respondParts = (dialect: Dialect, parts: ReadonlyArray<Uint8Array>) =>
    HttpServerResponse.stream(Stream.fromChunk(Chunk.unsafeFromArray(parts)), {
      contentType: dialect.format.contentType,
      contentLength: parts.reduce((sum, { byteLength }) => sum + byteLength, 0),
      headers: headersOf(dialect)
    })

  const respondError = (dialect: Dialect, { code, message, status }: WireError) =>
    respond(dialect, status, dialect.format.encode({ __type: code, message }))

  const withRecords = ({ format, recordBytes }: Dialect, page: Page | Event, members: Members) =>
    format.withRecords(recordBytes(page.shard.log, page.first, page.next), page.next - page.first, members)

  /** The first frame comes at once, as clients wait for it. A failure is the last one. */
  const respondEvents = (dialect: Dialect, events: Stream.Stream<Event, KinesisError>) => {
    const { format } = dialect
    const frames = Stream.map(events, (event) =>
      EventStream.event(
        format,
        "SubscribeToShardEvent",
        Buffer.concat(withRecords(dialect, event, {
          ContinuationSequenceNumber: event.continuation,
          MillisBehindLatest: event.millisBehindLatest,
          ChildShards: event.continuation === undefined ? event.children.map(childMembers) : undefined
        }))
      ))
    return HttpServerResponse.stream(
      Stream.succeed(EventStream.event(format, "initial-response", format.encode({}))).pipe(
        Stream.concat(frames),
        Stream.catchAll((error) => Stream.succeed(EventStream.exception(format, Wire.ofKinesisError(error))))
      ),
      { contentType: EventStream.contentType, headers: headersOf(dialect) }
    )
  }

  const handle = ({ dialect, operation }: Asked, body: Uint8Array) =>
    Effect.gen(function*() {
      const { decode, encode } = dialect.format
      const input = yield* Either.try({
        try: () => body.byteLength === 0 ? {} : decode(body),
        catch: () => Wire.serialization(`The body is no ${dialect.format.contentType}`)
      })
      const { events, members, page } = yield* dialect.operations.get(operation)?.(server, input) ??
        Either.right(nothing)
      if (events !== undefined) return respondEvents(dialect, yield* events)
      if (page !== undefined) return respondParts(dialect, withRecords(dialect, page, members ?? {}))
      return respond(dialect, 200, members === undefined ? new Uint8Array(0) : encode(members))
    })

  return Effect.gen(function*() {
    const request = yield* HttpServerRequest.HttpServerRequest
    const asked = askedOf(request)
    if (Either.isLeft(asked)) return respondError(...asked.left)
    const { dialect } = asked.right
    return yield* Body.read(request).pipe(
      Effect.zipLeft(Effect.interruptible(Effect.sleep(latency))),
      Effect.flatMap((body) => handle(asked.right, body)),
      Effect.catchTag("KinesisError", (error) => Effect.fail(Wire.ofKinesisError(error))),
      Effect.catchAll((error) => Effect.succeed(respondError(dialect, error))),
      Effect.catchAllDefect((defect) =>
        Effect.succeed(respondError(dialect, Wire.make("InternalFailureException", String(defect), 500)))
      )
    )
  })
}
