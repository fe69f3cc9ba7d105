/** Who reads does so in a process of its own, which is told when: one reads at a time. */
import {
  FetchHttpClient,
  HttpClient,
  HttpClientResponse,
  HttpServerRequest,
  HttpServerResponse
} from "@effect/platform"
import { NodeHttpServer } from "@effect/platform-node"
import { Cause, Clock, Console, Deferred, Duration, Effect, Fiber, Schema, type Scope } from "effect"
import { createServer } from "node:http"
import { BenchFailed } from "../bench.js"
import * as ChildServer from "../childServer.js"
import * as Streams from "./streams.js"

/** What a round has taken. */
export const Round = Schema.Struct({
  records: Schema.Number,
  seconds: Schema.Number,
  /** Of all threads of the process. */
  cpuSeconds: Schema.Number
})

export interface Round extends Schema.Schema.Type<typeof Round> {}

/** Reads a stream from its beginning, and tells how many records it has got, again and again. */
export type Read = (
  kind: Streams.Kind,
  got: (records: number) => void
) => Effect.Effect<unknown, unknown, Scope.Scope>

/** A round is over when all is read, or after so many seconds. */
const measure = (
  read: Read,
  kind: Streams.Kind,
  seconds: number,
  isStartLeftOut: boolean
): Effect.Effect<Round, unknown> =>
  Effect.gen(function*() {
    const first = yield* Deferred.make<void>()
    const all = yield* Deferred.make<void>()
    let records = 0
    const got = (some: number) => {
      records += some
      Deferred.unsafeDone(first, Effect.void)
      if (records >= kind.recordsAShard * Streams.shards) Deferred.unsafeDone(all, Effect.void)
    }
    const reading = Effect.zipRight(read(kind, got), Effect.never)
    const fiber = yield* Effect.forkScoped(reading)
    if (isStartLeftOut) yield* Deferred.await(first)
    records = 0
    const from = yield* Clock.currentTimeNanos
    const cpuFrom = process.cpuUsage()
    yield* Fiber.join(fiber).pipe(
      Effect.raceFirst(Deferred.await(all)),
      Effect.raceFirst(Effect.sleep(Duration.seconds(seconds)))
    )
    const took = Number((yield* Clock.currentTimeNanos) - from) / 1e9
    const { system, user } = process.cpuUsage(cpuFrom)
    return { records, seconds: took, cpuSeconds: (system + user) / 1e6 }
  }).pipe(Effect.scoped, Effect.interruptible)

/** The main of such a process. The clock starts with the process's reading, or where `isStartLeftOut` with its first records. */
export const main = (read: Read, isStartLeftOut = false): void =>
  ChildServer.main(Effect.gen(function*() {
    const server = yield* NodeHttpServer.make(() => createServer(), { port: 0, host: "127.0.0.1" })
    yield* server.serve(
      Effect.gen(function*() {
        const { url } = yield* HttpServerRequest.HttpServerRequest
        const [, stream, seconds] = url.split("/")
        const kind = Streams.kinds.find((kind) => kind.stream === stream)
        if (kind === undefined) return HttpServerResponse.empty({ status: 404 })
        return yield* HttpServerResponse.schemaJson(Round)(yield* measure(read, kind, Number(seconds), isStartLeftOut))
      }).pipe(
        Effect.catchAllCause((cause) =>
          Effect.as(Console.error(Cause.pretty(cause)), HttpServerResponse.empty({ status: 500 }))
        )
      )
    )
    return server.address._tag === "TcpAddress" ? server.address.port : 0
  }))

/** Has the process at this port read a stream, for so many seconds at most. */
export const ask = (
  port: number,
  { stream }: Streams.Kind,
  seconds: number
): Effect.Effect<Round, BenchFailed> =>
  HttpClient.get(`${Streams.endpointOf(port)}/${stream}/${seconds}`).pipe(
    Effect.flatMap(HttpClientResponse.filterStatusOk),
    Effect.flatMap(HttpClientResponse.schemaBodyJson(Round)),
    Effect.scoped,
    Effect.provide(FetchHttpClient.layer),
    Effect.mapError((cause) => new BenchFailed({ message: `A round fails: ${cause.message}` }))
  )
