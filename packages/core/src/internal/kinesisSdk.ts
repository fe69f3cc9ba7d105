/** The client of the AWS SDK that all calls go through. */
import * as Sdk from "@aws-sdk/client-kinesis"
import { NodeHttp2Handler, NodeHttpHandler } from "@smithy/node-http-handler"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import type { KinesisClientOptions } from "../KinesisClient.js"
import type { KinesisError } from "../KinesisError.js"
import { eventStreams } from "./kinesisCbor.js"
import * as KinesisErrors from "./kinesisErrors.js"

type Credentials = NonNullable<Sdk.KinesisClientConfig["credentials"]>

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

/** A configuration has whatever text somebody wrote. */
const checkProtocol = (protocol: string | undefined): Effect.Effect<void, KinesisError> =>
  protocol === undefined || protocol === "auto" || protocol === "cbor" || protocol === "json"
    ? Effect.void
    : Effect.fail(KinesisErrors.make(
      layerWhere,
      "InvalidArgument",
      `protocol "${protocol}" is none of "auto", "cbor" and "json"`
    ))

/**
 * Calls go over HTTP/1.1 with connections that are kept alive. The SDK's own choice for Kinesis is HTTP/2, which plain
 * local servers refuse and for which it opens a connection for each call. One call that hangs must not keep the others
 * waiting for its socket.
 *
 * AWS gives subscriptions over HTTP/2 only. Each has a connection of its own, so that what one consumer leaves unread
 * takes no room from the others.
 */
const requestHandler = (): NonNullable<Sdk.KinesisClientConfig["requestHandler"]> => {
  const agent = { keepAlive: true, maxSockets: Infinity }
  const calls = new NodeHttpHandler({ httpAgent: agent, httpsAgent: agent })
  const subscriptions = new NodeHttp2Handler({ disableConcurrentStreams: true })
  const handle: NodeHttp2Handler["handle"] = (request, options = {}) => {
    if (options.isEventStream !== true || request.protocol !== "https:") return calls.handle(request, options)
    // HTTP/2 has another name for the host. It is signed as `host` all the same.
    const { host, ...headers } = request.headers
    request.headers = host === undefined ? headers : { ...headers, ":authority": host }
    return subscriptions.handle(request, options)
  }
  return {
    handle,
    updateHttpClientConfig: calls.updateHttpClientConfig.bind(calls),
    httpHandlerConfigs: calls.httpHandlerConfigs.bind(calls),
    destroy: () => {
      calls.destroy()
      subscriptions.destroy()
    }
  }
}

/** A client that lives as long as the scope. */
export const acquire = (options: KinesisClientOptions): Effect.Effect<Sdk.KinesisClient, KinesisError, Scope.Scope> =>
  Effect.gen(function*() {
    yield* checkEndpoint(options.endpoint)
    yield* checkProtocol(options.protocol)
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
            eventStreamSerdeProvider: eventStreams,
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
