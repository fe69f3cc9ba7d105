/**
 * What a failed call of the AWS SDK means.
 */
import { KinesisError, type KinesisErrorReason } from "../KinesisError.js"

/** Which call failed; `stream` is a name, an ARN or `*`. */
export interface Where {
  readonly operation: string
  /** What the call is named in an IAM policy, for example `kinesis:GetRecords`. */
  readonly action: string
  readonly stream: string
  readonly shardId?: string | undefined
}

/** The names of exceptions, with the many that other services and older answers have for the same thing. */
const names = new Map<string, KinesisErrorReason>([
  ...reasonOf("Throttled", [
    "ProvisionedThroughputExceededException",
    "LimitExceededException",
    "KMSThrottlingException",
    "ThrottlingException",
    "Throttling",
    "ThrottledException",
    "RequestLimitExceeded",
    "RequestThrottled",
    "RequestThrottledException",
    "TooManyRequestsException",
    "BandwidthLimitExceeded",
    "SlowDown"
  ]),
  ...reasonOf("Timeout", ["TimeoutError", "RequestTimeout", "RequestTimeoutException"]),
  ...reasonOf("Unavailable", [
    "InternalFailure",
    "InternalFailureException",
    "InternalServerError",
    "InternalServerException",
    "ServiceUnavailable",
    "ServiceUnavailableException",
    // The SDK could not get credentials, or those it has ran out: the next call asks its providers again.
    "CredentialsProviderError",
    "ProviderError",
    "TokenProviderError",
    "ExpiredToken",
    "ExpiredTokenException",
    // The clock is off. The SDK learns by how much from this very answer and signs the next call with the right time.
    "RequestExpired",
    "RequestInTheFuture",
    "RequestTimeTooSkewed",
    // The engine aborts a call by interruption, which no error can follow: any other end is a connection that broke.
    "AbortError"
  ]),
  ...reasonOf("ExpiredIterator", ["ExpiredIteratorException"]),
  ...reasonOf("ExpiredToken", ["ExpiredNextTokenException"]),
  ...reasonOf("InvalidArgument", [
    "InvalidArgumentException",
    "ValidationException",
    "ValidationError",
    // The SDK finds no endpoint for what it was given, such as an ARN that is none.
    "EndpointError"
  ]),
  ...reasonOf("NotFound", ["ResourceNotFoundException"]),
  ...reasonOf("ResourceInUse", ["ResourceInUseException"]),
  ...reasonOf("AccessDenied", [
    "AccessDeniedException",
    "AccessDenied",
    "AuthFailure",
    "IncompleteSignature",
    "IncompleteSignatureException",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "MissingAuthenticationToken",
    "MissingAuthenticationTokenException",
    "NotAuthorized",
    "OptInRequired",
    "RegionDisabledException",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
    "KMSAccessDeniedException",
    "KMSDisabledException",
    "KMSInvalidStateException",
    "KMSNotFoundException",
    "KMSOptInRequired",
    "KMSOptInRequiredException"
  ]),
  ...reasonOf("Unsupported", [
    "UnknownOperation",
    "UnknownOperationException",
    "InvalidAction",
    "NotImplemented",
    "NotImplementedException"
  ])
])

/** The codes that Node.js gives to network faults. They count before names: the SDK names some of them a time-out. */
const codes = new Map<string, KinesisErrorReason>([
  ...reasonOf("Timeout", ["ETIMEDOUT", "ESOCKETTIMEDOUT"]),
  ...reasonOf("Unavailable", [
    "ECONNABORTED",
    "ECONNREFUSED",
    "ECONNRESET",
    "EAI_AGAIN",
    "EHOSTDOWN",
    "EHOSTUNREACH",
    "ENETDOWN",
    "ENETUNREACH",
    "ENOTFOUND",
    "EPIPE",
    "EPROTO",
    "ERR_STREAM_PREMATURE_CLOSE"
  ])
])

function reasonOf(reason: KinesisErrorReason, keys: ReadonlyArray<string>) {
  return keys.map((key) => [key, reason] as const)
}

/** Faults of a connection for which the SDK has nothing but words. */
const brokenConnection =
  /^(HTTP\/2 stream is abnormally aborted|Unexpected error: http2 request|Frame type id |Truncated event message)/

const missingRegion = /^Region is missing/

const isObject = (value: unknown): value is object => typeof value === "object" && value !== null

const property = (value: unknown, key: string): unknown =>
  isObject(value) && key in value ? Reflect.get(value, key) : undefined

const text = (value: unknown, key: string): string => {
  const found = property(value, key)
  return typeof found === "string" ? found : ""
}

/** The status of the answer; one that could not be read as an error of the service still has its raw answer. */
const statusOf = (cause: unknown): number | undefined => {
  const status = property(property(cause, "$metadata"), "httpStatusCode") ??
    property(property(cause, "$response"), "statusCode")
  return typeof status === "number" ? status : undefined
}

/** An answer told the SDK that its clock is off; it has set it right for the next call. */
const isClockCorrected = (cause: unknown): boolean =>
  property(property(cause, "$metadata"), "clockSkewCorrected") === true ||
  (text(cause, "name") === "InvalidSignatureException" && text(cause, "message").includes("Signature expired"))

/** The reason in what was thrown itself, without what caused it. */
const ownReason = (cause: unknown): KinesisErrorReason | undefined => {
  if (isClockCorrected(cause)) return "Unavailable"
  const status = statusOf(cause)
  // Some servers name what they have not built like a fault that passes.
  if (status === 501) return "Unsupported"
  const code = text(cause, "code")
  const known = codes.get(code) ?? names.get(text(cause, "name"))
  if (known !== undefined) return known
  if (status === 429 || property(property(cause, "$retryable"), "throttling") === true) return "Throttled"
  if (status !== undefined && status >= 500) return "Unavailable"
  if (status === 401 || status === 403) return "AccessDenied"
  const message = text(cause, "message")
  if (missingRegion.test(message)) return "InvalidArgument"
  return code.startsWith("ERR_HTTP2_") || brokenConnection.test(message) ? "Unavailable" : undefined
}

/**
 * One name stands for what a second may have and for what a stream may have. Only here can it be the latter, which does
 * not pass by itself; consumers that are still being created do.
 */
const hasAllConsumers = (where: Where, cause: unknown): boolean =>
  where.operation === "registerConsumer" && text(cause, "name") === "LimitExceededException" &&
  !/\brate\b|creating/i.test(text(cause, "message"))

const fanOut: ReadonlySet<string> = new Set([
  "registerConsumer",
  "describeConsumer",
  "listConsumers",
  "deregisterConsumer",
  "subscribeToShard"
])

const maxDepth = 5

/** Why a call failed, whatever was thrown. */
export const reasonFor = (cause: unknown): KinesisErrorReason => {
  let current = cause
  for (let depth = 0; depth < maxDepth && isObject(current); depth++) {
    const reason = ownReason(current)
    if (reason !== undefined) return reason
    current = property(current, "cause")
  }
  return "Unknown"
}

/**
 * A page that is not there says nothing of a stream or consumer: Kinesis gives these an answer with a name and status 400.
 */
const isUnknownOperation = (where: Where, cause: unknown): boolean =>
  fanOut.has(where.operation) && statusOf(cause) === 404

/** Who answered has judged what was asked, with a name that Kinesis has for it. */
export const isUnderstood = ({ cause }: KinesisError): boolean => {
  const reason = names.get(text(cause, "name"))
  return statusOf(cause) !== undefined && reason !== undefined && reason !== "Unsupported"
}

/** These say nothing of the form: who asks, how long it took, and how often. */
const passing: ReadonlySet<number> = new Set([401, 407, 408, 429])

/** Who answered could make nothing of the request. Its own faults, and those of what is between, are no such sign. */
export const isNotUnderstood = (error: KinesisError): boolean => {
  const status = statusOf(error.cause)
  return status !== undefined && status >= 400 && (status < 500 || status === 501) && !passing.has(status) &&
    !isUnderstood(error)
}

const reasonAt = (where: Where, cause: unknown): KinesisErrorReason => {
  if (hasAllConsumers(where, cause)) return "LimitExceeded"
  const reason = reasonFor(cause)
  return reason === "Unknown" && isUnknownOperation(where, cause) ? "Unsupported" : reason
}

/** What only a person can mend, and how. */
const advice = (where: Where, reason: KinesisErrorReason, cause: unknown): string => {
  const name = text(cause, "name")
  if (missingRegion.test(text(cause, "message"))) {
    return ". Give KinesisClient.layer a region, or set AWS_REGION or the region of the profile"
  }
  if (name === "CredentialsProviderError") {
    return ". Give KinesisClient.layer credentials, or set those of the environment, the profile or the role"
  }
  switch (reason) {
    case "AccessDenied":
      return name.startsWith("KMS")
        ? ". Enable the KMS key of the stream, and allow kms:Decrypt on it"
        : `. Check the credentials, and allow ${where.action}`
    case "NotFound":
      return ". Check the name or ARN, the region and the account"
    case "LimitExceeded":
      return ". Deregister consumers that nobody uses, or ask AWS for a higher limit"
    case "Unsupported":
      return fanOut.has(where.operation)
        ? ". This endpoint has no enhanced fan-out: read with mode \"polling\""
        : ". Check the endpoint: it does not know this operation of Kinesis"
    default:
      return ""
  }
}

const describe = (cause: unknown): string => {
  const name = text(cause, "name") || "Error"
  const message = isObject(cause) ? text(cause, "message") : String(cause)
  const status = statusOf(cause)
  const requestId = text(property(cause, "$metadata"), "requestId")
  const answer = [
    ...(status === undefined ? [] : [`status ${status}`]),
    ...(requestId === "" ? [] : [`request ${requestId}`])
  ]
  const what = message === "" ? text(cause, "code") || "no message" : message.replace(/[\s.]+$/, "")
  return `${name}: ${what}${answer.length === 0 ? "" : ` (${answer.join(", ")})`}`
}

/** The typed error of a failed call. */
export const fromCause = (where: Where, cause: unknown): KinesisError => {
  const reason = reasonAt(where, cause)
  return make(where, reason, describe(cause) + advice(where, reason, cause), cause)
}

/** A typed error with words of our own. */
export const make = (where: Where, reason: KinesisErrorReason, detail: string, cause?: unknown): KinesisError =>
  new KinesisError({
    reason,
    operation: where.operation,
    stream: where.stream,
    shardId: where.shardId,
    detail,
    ...(cause === undefined ? {} : { cause })
  })
