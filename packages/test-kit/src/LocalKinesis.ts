/**
 * The Kinesis in memory of `TestKinesis` as a server that speaks the protocols of AWS: JSON and CBOR, over HTTP/1.1 and
 * HTTP/2 on one port, so that the AWS SDK needs no more than another endpoint. It listens on the loopback address, takes
 * any credentials, forgets everything when it stops, and stops with its scope.
 *
 * It needs the optional package `@effect/platform-node`.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as LocalServer from "./internal/localKinesis/server.js"
import { startFailed } from "./internal/localServer.js"
import * as Server from "./internal/testServer.js"
import type { LocalServerError } from "./LocalServerError.js"
import * as TestKinesis from "./TestKinesis.js"

/**
 * @since 0.1.0
 * @category options
 */
export interface Options extends TestKinesis.Options {
  /** Where it listens. Defaults to a free port. */
  readonly port?: number | undefined
  /** Streams that are there from the start. */
  readonly streams?: ReadonlyArray<TestKinesis.CreateStreamOptions> | undefined
}

/**
 * A local Kinesis: where it answers, and what drives it from the test.
 *
 * @since 0.1.0
 * @category context
 */
export class LocalKinesis extends Context.Tag("@kinesumer/test-kit/LocalKinesis")<LocalKinesis, {
  /** For example `http://127.0.0.1:49152`. */
  readonly endpoint: string
  readonly port: number
  /** Acts on the same streams. Its log of calls does not have those that came over the wire. */
  readonly kinesis: Context.Tag.Service<typeof TestKinesis.TestKinesis>
}>() {}

/**
 * Starts a local Kinesis. It keeps the clock that it is made under.
 *
 * It fails with `NotInstalled` when `@effect/platform-node` is missing, and with `StartFailed` when the port is taken or
 * one of the streams cannot be.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make: (
  options?: Options
) => Effect.Effect<Context.Tag.Service<typeof LocalKinesis>, LocalServerError, Scope.Scope> = Effect.fnUntraced(
  function*(options: Options = {}) {
    const server = yield* Server.make(options)
    const kinesis = yield* TestKinesis.fromServer(server, options.latency)
    yield* Effect.forEach(options.streams ?? [], kinesis.createStream, { discard: true }).pipe(
      Effect.mapError((cause) => startFailed("local-kinesis", cause.message, cause))
    )
    const { endpoint, port } = yield* LocalServer.start(server, {
      port: options.port ?? 0,
      latency: Duration.decode(options.latency ?? 0)
    })
    return LocalKinesis.of({ endpoint, port, kinesis })
  }
)

/**
 * `make` as a layer, with the driver also as `TestKinesis`. Bind the result: each call makes a server of its own.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options?: Options): Layer.Layer<LocalKinesis | TestKinesis.TestKinesis, LocalServerError> =>
  Layer.scopedContext(
    Effect.map(
      make(options),
      (local) => Context.make(LocalKinesis, local).pipe(Context.add(TestKinesis.TestKinesis, local.kinesis))
    )
  )
