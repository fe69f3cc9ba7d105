import * as Sdk from "@aws-sdk/client-kinesis"
import { assert, describe, it } from "@effect/vitest"
import type { KinesisErrorReason } from "@kinesumer/core/KinesisError"
import * as KinesisErrors from "../../src/internal/kinesisErrors.js"

const named = (name: string, extra: object = {}) => Object.assign(new Error("the message"), { name }, extra)
const coded = (code: string, name = "Error") => named(name, { code })
const answered = (name: string, httpStatusCode: number) =>
  named(name, { $metadata: { httpStatusCode, requestId: "the-request" } })

const byName: Readonly<Partial<Record<KinesisErrorReason, ReadonlyArray<string>>>> = {
  Throttled: [
    "ProvisionedThroughputExceededException",
    "LimitExceededException",
    "KMSThrottlingException",
    "ThrottlingException",
    "Throttling",
    "RequestLimitExceeded"
  ],
  Timeout: ["TimeoutError", "RequestTimeout"],
  Unavailable: [
    "InternalFailureException",
    "InternalFailure",
    "InternalServerError",
    "ServiceUnavailable",
    "ServiceUnavailableException",
    "CredentialsProviderError",
    "ExpiredTokenException",
    "ExpiredToken",
    "RequestTimeTooSkewed",
    "AbortError"
  ],
  ExpiredIterator: ["ExpiredIteratorException"],
  ExpiredToken: ["ExpiredNextTokenException"],
  InvalidArgument: ["InvalidArgumentException", "ValidationException", "EndpointError"],
  NotFound: ["ResourceNotFoundException"],
  ResourceInUse: ["ResourceInUseException"],
  AccessDenied: [
    "AccessDeniedException",
    "AccessDenied",
    "UnrecognizedClientException",
    "InvalidSignatureException",
    "InvalidClientTokenId",
    "MissingAuthenticationTokenException",
    "KMSAccessDeniedException",
    "KMSDisabledException",
    "KMSInvalidStateException",
    "KMSNotFoundException",
    "KMSOptInRequired"
  ],
  Unsupported: ["UnknownOperationException", "InvalidAction"],
  Unknown: ["Error", "TypeError", "DryRunOperationException", "SerializationException"]
}

const causes: ReadonlyArray<readonly [what: string, cause: unknown, reason: KinesisErrorReason]> = [
  ...Object.entries(byName).flatMap(([reason, names]) =>
    names.map((name) => [name, named(name), reason as KinesisErrorReason] as const)
  ),
  ["ECONNRESET", coded("ECONNRESET"), "Unavailable"],
  ["ECONNREFUSED", coded("ECONNREFUSED"), "Unavailable"],
  ["ENOTFOUND", coded("ENOTFOUND"), "Unavailable"],
  ["EPIPE", coded("EPIPE"), "Unavailable"],
  ["EAI_AGAIN", coded("EAI_AGAIN"), "Unavailable"],
  ["ETIMEDOUT", coded("ETIMEDOUT"), "Timeout"],
  ["a reset that the SDK names a time-out", coded("ECONNRESET", "TimeoutError"), "Unavailable"],
  ["a fault of an HTTP/2 session", coded("ERR_HTTP2_GOAWAY_SESSION"), "Unavailable"],
  [
    "an HTTP/2 stream without an answer",
    new Error("Unexpected error: http2 request did not get a response"),
    "Unavailable"
  ],
  [
    "an HTTP/2 stream that was cut",
    new Error("HTTP/2 stream is abnormally aborted in mid-communication with result code 2."),
    "Unavailable"
  ],
  ["an unknown name with status 500", answered("UnknownError", 500), "Unavailable"],
  ["an unknown name with status 503", answered("UnknownError", 503), "Unavailable"],
  ["an unknown name with status 429", answered("UnknownError", 429), "Throttled"],
  ["an unknown name with status 403", answered("UnknownError", 403), "AccessDenied"],
  ["an unknown name with status 400", answered("UnknownError", 400), "Unknown"],
  ["an unknown name with status 404", answered("UnknownError", 404), "Unknown"],
  ["what is not built yet", answered("InternalFailure", 501), "Unsupported"],
  ["a name counts more than a status", answered("ValidationException", 500), "InvalidArgument"],
  ["an error marked as throttling", named("Other", { $retryable: { throttling: true } }), "Throttled"],
  ["a gateway's page", named("SyntaxError", { $response: { statusCode: 502 } }), "Unavailable"],
  [
    "a signature of a clock that is off, which the SDK has set right",
    named("InvalidSignatureException", { $metadata: { httpStatusCode: 403, clockSkewCorrected: true } }),
    "Unavailable"
  ],
  [
    "a signature of a clock that is a little off",
    Object.assign(new Error("Signature expired: 20250101T000000Z is now earlier than 20250101T000500Z"), {
      name: "InvalidSignatureException"
    }),
    "Unavailable"
  ],
  ["a region that is nowhere", new Error("Region is missing"), "InvalidArgument"],
  ["a cause inside", new Error("wrapped", { cause: coded("ECONNREFUSED") }), "Unavailable"],
  [
    "a throttling inside",
    new Error("outer", { cause: new Error("inner", { cause: named("Throttling") }) }),
    "Throttled"
  ],
  ["a string", "ThrottlingException", "Unknown"],
  ["nothing", undefined, "Unknown"],
  ["null", null, "Unknown"]
]

const where: KinesisErrors.Where = {
  operation: "getRecords",
  action: "kinesis:GetRecords",
  stream: "orders",
  shardId: "shardId-000000000001"
}

describe("the reason of a failed call", () => {
  for (const [what, cause, reason] of causes) {
    it(`${what}: ${reason}`, () => assert.strictEqual(KinesisErrors.reasonFor(cause), reason))
  }

  it("every exception of the SDK's own client has one", () => {
    const unknown = Object.entries(Sdk).flatMap(([name, value]) =>
      typeof value === "function" && value.prototype instanceof Sdk.KinesisServiceException &&
        KinesisErrors.reasonFor(named(name)) === "Unknown"
        ? [name]
        : []
    )
    // A dry run is nothing that the engine asks for.
    assert.deepStrictEqual(unknown, ["DryRunOperationException"])
  })

  it("a circle of causes has an end", () => {
    const circle = new Error("round and round")
    circle.cause = circle
    assert.strictEqual(KinesisErrors.reasonFor(circle), "Unknown")
  })
})

describe("the error of a failed call", () => {
  it("tells the operation, the place, the answer and what to do, and keeps the cause", () => {
    const cause = answered("AccessDeniedException", 400)
    const error = KinesisErrors.fromCause(where, cause)
    assert.strictEqual(
      error.message,
      "getRecords orders/shardId-000000000001: AccessDenied: AccessDeniedException: the message " +
        "(status 400, request the-request). Check the credentials, and allow kinesis:GetRecords"
    )
    assert.strictEqual(error.cause, cause)
    assert.isFalse(error.retryable)
  })

  it("tells about keys, regions and credentials what is to be done there", () => {
    const detail = (cause: unknown) => KinesisErrors.fromCause(where, cause).detail
    assert.include(detail(named("KMSDisabledException")), "kms:Decrypt")
    assert.include(detail(new Error("Region is missing")), "AWS_REGION")
    assert.include(detail(named("CredentialsProviderError")), "Give KinesisClient.layer credentials")
    assert.include(detail(named("ResourceNotFoundException")), "Check the name or ARN, the region and the account")
  })

  const fanOut = ["registerConsumer", "describeConsumer", "listConsumers", "deregisterConsumer", "subscribeToShard"]
  for (const operation of fanOut) {
    it(`${operation} is not there: an endpoint without enhanced fan-out`, () => {
      const causes = [
        answered("UnknownOperationException", 400),
        answered("UnknownError", 404),
        named("SyntaxError", { $response: { statusCode: 404 } }),
        answered("InternalFailure", 501)
      ]
      for (const cause of causes) {
        const error = KinesisErrors.fromCause({ ...where, operation }, cause)
        assert.strictEqual(error.reason, "Unsupported")
        assert.isFalse(error.retryable)
        assert.include(error.detail, "read with mode \"polling\"")
      }
      const missing = answered("ResourceNotFoundException", 404)
      assert.strictEqual(KinesisErrors.fromCause({ ...where, operation }, missing).reason, "NotFound")
    })
  }

  it("another operation that is not there does not send anybody to polling", () => {
    const error = KinesisErrors.fromCause(where, answered("UnknownOperationException", 400))
    assert.strictEqual(error.reason, "Unsupported")
    assert.include(error.detail, "Check the endpoint")
    assert.notInclude(error.detail, "polling")
  })

  it("makes the best of what is no error", () => {
    assert.strictEqual(KinesisErrors.fromCause(where, "odd").detail, "Error: odd")
    assert.strictEqual(KinesisErrors.fromCause(where, undefined).detail, "Error: undefined")
    assert.strictEqual(KinesisErrors.fromCause(where, { code: "ECONNREFUSED" }).detail, "Error: ECONNREFUSED")
  })
})
