/** What the SDK throws, read once. */
import * as StateStoreError from "@kinesumer/core/StateStoreError"
import * as Predicate from "effect/Predicate"
import type { Malformed } from "./attributes.js"

/**
 * Which table, and where, for messages.
 *
 * @internal
 */
export interface Place {
  readonly tableName: string
  /** For example `region eu-west-1, endpoint http://127.0.0.1:8000`. */
  readonly where: string
}

const throttles = new Set([
  "ProvisionedThroughputExceededException",
  "ThrottlingException",
  "Throttling",
  "ThrottledException",
  "RequestLimitExceeded",
  "TooManyRequestsException",
  "LimitExceededException"
])

const denials = new Set([
  "AccessDeniedException",
  "AccessDenied",
  "UnrecognizedClientException",
  "InvalidSignatureException",
  "SignatureDoesNotMatch",
  "IncompleteSignatureException",
  "IncompleteSignature",
  "MissingAuthenticationTokenException",
  "MissingAuthenticationToken",
  "InvalidClientTokenId"
])

const passing = new Set([
  // A write of another region of a global table, or a transaction, was in the way.
  "ReplicatedWriteConflictException",
  "TransactionConflictException",
  // The SDK could not get credentials just now, or those it has ran out: the next call asks its providers again.
  "CredentialsProviderError",
  "ProviderError",
  "TokenProviderError",
  "ExpiredTokenException",
  "ExpiredToken",
  // The clock is off. The SDK learns by how much from this very answer, and signs the next call with the right time.
  "RequestExpired",
  "RequestInTheFuture",
  "RequestTimeTooSkewed",
  // Calls are aborted by interruption alone, which no error follows: any other end is a connection that broke.
  "AbortError"
])

const networkFaults = new Set([
  "ECONNRESET",
  "ECONNREFUSED",
  "ECONNABORTED",
  "EPIPE",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENETDOWN",
  "ERR_STREAM_PREMATURE_CLOSE"
])

const property = (value: unknown, name: string): unknown => Predicate.hasProperty(value, name) ? value[name] : undefined

/** @internal */
export const nameOf = (cause: unknown): string => {
  const name = property(cause, "name")
  return typeof name === "string" ? name : "Error"
}

/** @internal */
export const messageOf = (cause: unknown): string => {
  const message = property(cause, "message")
  return typeof message === "string" && message !== "" ? message : nameOf(cause)
}

const reasonOf = (cause: unknown): StateStoreError.StateStoreErrorReason => {
  const name = nameOf(cause)
  const code = property(cause, "code")
  const metadata = property(cause, "$metadata")
  const status = property(metadata, "httpStatusCode")
  if (throttles.has(name)) return "Throttled"
  // A signature with the wrong time, as above.
  if (property(metadata, "clockSkewCorrected") === true) return "Unavailable"
  if (denials.has(name)) return "AccessDenied"
  if (name === "ResourceNotFoundException") return "TableMissing"
  if (passing.has(name) || (typeof code === "string" && networkFaults.has(code))) return "Unavailable"
  // The SDK's name for a broken connection too, so the code was asked first.
  if (name === "TimeoutError" || code === "ETIMEDOUT") return "Timeout"
  return typeof status === "number" && status >= 500 ? "Unavailable" : "Unknown"
}

/**
 * The permissions that the store needs, for messages.
 *
 * @internal
 */
export const actions = "dynamodb:DescribeTable, GetItem, Query, PutItem, UpdateItem and DeleteItem"

const advice = (reason: StateStoreError.StateStoreErrorReason): string => {
  switch (reason) {
    case "AccessDenied":
      return `. The credentials need the permissions ${actions} on the table (and CreateTable with createTable: true)`
    case "TableMissing":
      return ". It was there when the layer was built: create it again, or start anew with createTable: true"
    case "Throttled":
      return ". Raise the table's capacity or make it on-demand"
    default:
      return ""
  }
}

/** @internal */
export const fromSdk = (cause: unknown, operation: string, place: Place): StateStoreError.StateStoreError => {
  const reason = reasonOf(cause)
  return new StateStoreError.StateStoreError({
    reason,
    operation,
    detail: `table "${place.tableName}" (${place.where}): ${nameOf(cause)}: ${messageOf(cause)}${advice(reason)}`,
    cause
  })
}

/** @internal */
export const fromMalformed = (
  { attribute, expected, item }: Malformed,
  operation: string,
  place: Place
): StateStoreError.StateStoreError => {
  const found = item[attribute]
  return new StateStoreError.StateStoreError({
    reason: "MalformedRow",
    operation,
    detail: `table "${place.tableName}" (${place.where}): in the row with pk "${item["pk"]?.S ?? ""}" and sk "${
      item["sk"]?.S ?? ""
    }" the attribute "${attribute}" ${
      found === undefined ? "is missing" : `is ${JSON.stringify(found).slice(0, 120)}`
    }; it must be ${expected}. Correct the row, or remove it if its shard may start anew`
  })
}
