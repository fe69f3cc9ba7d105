/**
 * Errors as Kinesis names them.
 */
import type { KinesisError, KinesisErrorReason } from "@kinesumer/core/KinesisError"
import * as Data from "effect/Data"

/**
 * A refusal that only the wire knows: the request itself is wrong, or about what no client of ours asks for.
 *
 * @internal
 */
export class WireError extends Data.TaggedError("WireError")<{
  readonly code: string
  readonly status: number
  readonly message: string
}> {}

/** A message can show what was wrong, which can be as large as a request. */
const mostCharacters = 1000

/** @internal */
export const make = (code: string, message: string, status = 400): WireError =>
  new WireError({
    code,
    status,
    message: message.length > mostCharacters ? `${message.slice(0, mostCharacters)}...` : message
  })

/** @internal */
export const invalidArgument = (message: string): WireError => make("InvalidArgumentException", message)

/** @internal */
export const validation = (message: string): WireError => make("ValidationException", message)

/** @internal */
export const serialization = (message: string): WireError => make("SerializationException", message)

const codes: Readonly<Record<KinesisErrorReason, string>> = {
  Throttled: "ProvisionedThroughputExceededException",
  LimitExceeded: "LimitExceededException",
  ExpiredIterator: "ExpiredIteratorException",
  ExpiredToken: "ExpiredNextTokenException",
  InvalidArgument: "InvalidArgumentException",
  NotFound: "ResourceNotFoundException",
  ResourceInUse: "ResourceInUseException",
  AccessDenied: "AccessDeniedException",
  Unsupported: "UnknownOperationException",
  Timeout: "InternalFailureException",
  Unavailable: "InternalFailureException",
  Unknown: "InternalFailureException"
}

/** @internal */
export const ofKinesisError = (error: KinesisError): WireError => {
  const code = codes[error.reason]
  return make(code, error.detail, code === "InternalFailureException" ? 500 : 400)
}
