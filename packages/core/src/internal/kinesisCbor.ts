/**
 * Lets the SDK ask for records in CBOR, in which they need no base64. All that the SDK does around a call stays as it is:
 * the request has another body when it is signed, and of the answer the SDK gets what it can read, such as errors, in
 * JSON.
 */
import * as Sdk from "@aws-sdk/client-kinesis"
import { cbor, tag } from "@smithy/core/cbor"
import { eventStreamSerdeProvider } from "@smithy/core/event-streams"
import { constTrue } from "effect/Function"
import * as Predicate from "effect/Predicate"
import { MalformedCbor, Reader } from "./cborReader.js"
import type { Answer } from "./recordsCbor.js"
import * as RecordsCbor from "./recordsCbor.js"

const contentType = "application/x-amz-cbor-1.1"

/** A request or an answer, as far as it matters here. */
interface Message {
  body: unknown
  readonly headers: Record<string, unknown>
}

interface Response extends Message {
  readonly statusCode: number
}

const isMessage = (value: unknown): value is Message =>
  Predicate.isObject(value) && "body" in value && "headers" in value && Predicate.isRecord(value.headers)

const isResponse = (value: unknown): value is Response =>
  isMessage(value) && "statusCode" in value && typeof value.statusCode === "number"

const header = ({ headers }: Message, name: string): string => {
  const value = headers[name]
  return typeof value === "string" ? value : ""
}

// ---------------------------------------------------------------------------------------------------------------------
// Requests
// ---------------------------------------------------------------------------------------------------------------------

/** A time in milliseconds, with the tag for times. */
const ofTime = (time: Date) => tag({ tag: 1, value: time.getTime() })

const plain = (value: unknown): unknown =>
  value instanceof Date
    ? ofTime(value)
    : Predicate.isRecord(value)
    ? Object.fromEntries(
      Object.entries(value).flatMap(([name, member]) => member === undefined ? [] : [[name, plain(member)]])
    )
    : value

/** Behind what makes the request, before what signs it. */
const askStep = { step: "serialize", priority: "low", name: "kinesumerCborRequest" } as const

const ask = <Args extends { readonly input: unknown; readonly request?: unknown }, Result>(
  next: (args: Args) => Promise<Result>
) =>
(args: Args): Promise<Result> => {
  const { input, request } = args
  if (isMessage(request)) {
    request.body = cbor.serialize(plain(input))
    request.headers["content-type"] = contentType
  }
  return next(args)
}

// ---------------------------------------------------------------------------------------------------------------------
// Answers
// ---------------------------------------------------------------------------------------------------------------------

/** No text in JSON begins with what a map in CBOR begins with, so what an answer says of its form need not be believed. */
const isMap = (bytes: Uint8Array): boolean => bytes[0] !== undefined && bytes[0] >> 5 === 5

/** What can't be read is left to the SDK, which tells it like any other answer that it can't read. */
const toJson = (bytes: Uint8Array): Uint8Array => {
  try {
    return Buffer.from(JSON.stringify(new Reader(bytes).value()))
  } catch {
    return bytes
  }
}

const decode = (bytes: Uint8Array, metadata: object): Answer => {
  try {
    return RecordsCbor.decode(bytes)
  } catch (cause) {
    throw Object.assign(new MalformedCbor(cause instanceof Error ? cause.message : String(cause)), {
      $metadata: metadata
    })
  }
}

/** The most that Kinesis answers is 10 MiB of data; what says that it is more must come before it gets the memory. */
const mostBytes = 16 * 1024 * 1024

const isReadable = (body: unknown): body is AsyncIterable<Uint8Array> =>
  Predicate.isObject(body) && Symbol.asyncIterator in body

/** The body, each part of which goes to its place when it comes: it is in the caches of the processor then. */
const collect = async (client: Sdk.KinesisClient, response: Response): Promise<Uint8Array> => {
  const { body } = response
  const length = Number(header(response, "content-length"))
  if (!isReadable(body) || !(length > 0 && length <= mostBytes)) return client.config.streamCollector(body)
  const bytes = Buffer.allocUnsafeSlow(length)
  let at = 0
  for await (const part of body) {
    bytes.set(part, at)
    at += part.byteLength
  }
  return bytes.subarray(0, at)
}

/** Before the SDK reads the answer. */
const hearStep = { step: "deserialize", priority: "low", name: "kinesumerCborAnswer" } as const

/**
 * `onAnswer` gets the answers in CBOR that it wants before the SDK does, and gives what the SDK is to read. All others go
 * by: they are the SDK's.
 */
const hear = (
  client: Sdk.KinesisClient,
  isWanted: Predicate.Predicate<Response>,
  onAnswer: (response: Response, bytes: Uint8Array) => Uint8Array
) =>
<Args, Result extends { readonly response: unknown }>(next: (args: Args) => Promise<Result>) =>
async (args: Args): Promise<Result> => {
  const result = await next(args)
  const { response } = result
  if (isResponse(response) && header(response, "content-type").includes("cbor") && isWanted(response)) {
    response.body = onAnswer(response, await collect(client, response))
  }
  return result
}

/** Whether it is one of success. */
const isGood = ({ statusCode }: Response): boolean => statusCode < 300

const nothing = new Uint8Array(0)

export interface Call {
  readonly client: Sdk.KinesisClient
  readonly abortSignal: AbortSignal
  /** There is a refusal in CBOR. */
  readonly onCbor: () => void
}

/** What is refused in CBOR was asked in a form that the server speaks. Some tell the type of the request for their own. */
const refusal = ({ onCbor }: Call, bytes: Uint8Array): Uint8Array => {
  if (isMap(bytes)) onCbor()
  return toJson(bytes)
}

/** A page, from CBOR or, where the answer has another form, from the SDK. */
export const getRecords = async (
  call: Call,
  input: Sdk.GetRecordsInput
): Promise<Answer | Sdk.GetRecordsOutput> => {
  const { abortSignal, client } = call
  const command = new Sdk.GetRecordsCommand(input)
  let answer: Answer | undefined
  command.middlewareStack.add(ask, askStep)
  command.middlewareStack.add(
    hear(client, constTrue, (response, bytes) => {
      if (!isGood(response)) return refusal(call, bytes)
      const { statusCode: httpStatusCode } = response
      answer = decode(bytes, { httpStatusCode, requestId: header(response, "x-amzn-requestid") })
      return nothing
    }),
    hearStep
  )
  const output = await client.send(command, { abortSignal })
  return answer ?? output
}

export const subscribeToShard = (
  call: Call,
  input: Sdk.SubscribeToShardInput
): Promise<Sdk.SubscribeToShardOutput> => {
  const { abortSignal, client } = call
  const command = new Sdk.SubscribeToShardCommand(input)
  command.middlewareStack.add(ask, askStep)
  command.middlewareStack.add(
    // A good one is a stream that does not end, whatever it says of its form.
    hear(client, Predicate.not(isGood), (_, bytes) => refusal(call, bytes)),
    hearStep
  )
  return client.send(command, { abortSignal })
}

// ---------------------------------------------------------------------------------------------------------------------
// Events
// ---------------------------------------------------------------------------------------------------------------------

/** What was read of an event, beside what the SDK made of it. */
const answers = new WeakMap<object, Answer>()

/** An event's records, where they came in CBOR. */
export const answerOf = (event: Sdk.SubscribeToShardEventStream): Answer | undefined => answers.get(event)

const eventType = "SubscribeToShardEvent"

const emptyJson = Buffer.from("{}")

/** The SDK's own reading of event streams, which sees the bodies in CBOR as JSON, and those of records as empty. */
export const eventStreams: NonNullable<Sdk.KinesisClientConfig["eventStreamSerdeProvider"]> = (options) => {
  const marshaller = eventStreamSerdeProvider(options)
  return {
    serialize: marshaller.serialize.bind(marshaller),
    deserialize: (body, read) =>
      marshaller.deserialize(body, async (messages) => {
        const [type, message] = Object.entries(messages)[0] ?? []
        if (type === undefined || message === undefined || !isMap(message.body)) return read(messages)
        if (type !== eventType) return read({ [type]: { ...message, body: toJson(message.body) } })
        const answer = decode(message.body, {})
        const event = await read({ [type]: { ...message, body: emptyJson } })
        if (Predicate.isObject(event)) answers.set(event, answer)
        return event
      })
  }
}
