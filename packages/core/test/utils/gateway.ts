/**
 * Stands before a local Kinesis: with TLS and HTTP/2 where a test wants it, and with the faults of connections that no
 * Kinesis has. It passes on what comes as it comes, and reads no more of it than is taken from it.
 */
import { cbor } from "@smithy/core/cbor"
import { Deferred, Effect, Schema, type Scope } from "effect"
import * as Http from "node:http"
import * as Http2 from "node:http2"
import type { AddressInfo, Socket } from "node:net"
import { Readable, Writable } from "node:stream"
import { cert, key } from "./certificate.js"

export type Protocol = "http:" | "https:"

export const protocols: ReadonlyArray<Protocol> = ["http:", "https:"]

export interface Request {
  /** Without the version, for example `GetRecords`. */
  readonly operation: string
  readonly httpVersion: string
  readonly headers: Http.IncomingHttpHeaders
  readonly body: Buffer
}

/** A subscription that goes through here. */
export interface Subscription {
  readonly consumerArn: string
  readonly shardId: string
  /** How many bytes of events have left. */
  readonly bytes: () => number
  /** Breaks the connection off, without a word. */
  readonly cut: () => void
  /** Passes on all of what comes next but its last byte, and breaks the connection off. */
  readonly cutNext: () => void
  /** Passes nothing on any more, and keeps the connection. */
  readonly hush: () => void
  /** Tells the other side of an HTTP/2 connection to go away, with this code, and leaves the rest to it. */
  readonly goAway: (code: number) => void
  /** Breaks off the stream, and keeps the HTTP/2 connection. */
  readonly reset: () => void
}

export interface Gateway {
  readonly endpoint: string
  readonly port: number
  readonly requests: ReadonlyArray<Request>
  /** Those that live, oldest first. */
  readonly subscriptions: () => ReadonlyArray<Subscription>
  /** The connections that are there. */
  readonly connections: () => number
  /** From now on no connection that is there now takes another request. Those of HTTP/2 are told. */
  readonly retire: () => void
}

type Incoming = Http.IncomingMessage | Http2.Http2ServerRequest
type Outgoing = Http.ServerResponse | Http2.Http2ServerResponse

/** They belong to one connection each. */
const hopHeaders = new Set(["connection", "host", "keep-alive", "transfer-encoding"])

const passedOn = (headers: Http.IncomingHttpHeaders): Http.OutgoingHttpHeaders =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !name.startsWith(":") && !hopHeaders.has(name)))

const write = (response: Outgoing, bytes: Uint8Array, sent: () => void): void => {
  if ("stream" in response) response.stream.write(bytes, sent)
  else response.write(bytes, sent)
}

const operationOf = ({ headers }: Incoming): string => {
  const target = String(headers["x-amz-target"])
  return target.slice(target.indexOf(".") + 1)
}

/** A part that has left is there, when the connection breaks off so much later. */
const underWayMillis = 20

export interface Options {
  /** Where it listens. A free port by default. */
  readonly port?: number | undefined
  /** What subscribers are sent instead of what Kinesis has, each part when the one before has left. */
  readonly feed?: ((asked: Subscribed) => Iterable<Uint8Array>) | undefined
}

const Subscribed = Schema.Struct({
  ConsumerARN: Schema.String,
  ShardId: Schema.String,
  StartingPosition: Schema.Struct({ SequenceNumber: Schema.optional(Schema.String) })
})

export interface Subscribed extends Schema.Schema.Type<typeof Subscribed> {}

/** What is subscribed to, asked in CBOR or JSON. */
export const subscribed = ({ body, headers }: Pick<Request, "body" | "headers">): Subscribed =>
  Schema.decodeUnknownSync(Subscribed)(
    headers["content-type"] === "application/x-amz-cbor-1.1" ? cbor.deserialize(body) : JSON.parse(body.toString())
  )

export const make = (
  protocol: Protocol,
  upstream: string,
  { feed, port: asked = 0 }: Options = {}
): Effect.Effect<Gateway, never, Scope.Scope> =>
  Effect.gen(function*() {
    const requests: Array<Request> = []
    const subscriptions = new Set<Subscription>()
    // By the port of the other side: the socket that a request of HTTP/2 shows is not the real one.
    const sockets = new Map<number, Socket>()
    const sessions = new Map<number, Http2.ServerHttp2Session>()
    const retired = new Set<Socket>()

    const subscribe = (
      { ConsumerARN: consumerArn, ShardId: shardId }: Subscribed,
      events: Readable,
      response: Outgoing,
      remotePort: number
    ): void => {
      let bytes = 0
      let next: "all" | "almost all" | "nothing" = "all"
      const cut = () => sockets.get(remotePort)?.destroy()
      const subscription: Subscription = {
        consumerArn,
        shardId,
        bytes: () => bytes,
        cut,
        cutNext: () => (next = "almost all"),
        hush: () => (next = "nothing"),
        goAway: (code) => sessions.get(remotePort)?.goaway(code),
        reset: () => "stream" in response && response.stream.close(Http2.constants.NGHTTP2_INTERNAL_ERROR)
      }
      subscriptions.add(subscription)
      const out = new Writable({
        highWaterMark: 1,
        write: (part: Uint8Array, _encoding, done) => {
          if (next === "nothing") return
          const passed = next === "all" ? part : part.subarray(0, -1)
          bytes += passed.byteLength
          write(response, passed, next === "all" ? done : () => setTimeout(cut, underWayMillis))
        }
      })
      // What was on its way when the connection broke off. From Node.js 22 on such a write tells of it.
      out.on("error", () => {})
      events.pipe(out)
      out.once("finish", () => response.end())
      events.once("error", cut)
      response.once("close", () => {
        subscriptions.delete(subscription)
        events.destroy()
      })
    }

    const listener = (request: Incoming, response: Outgoing): void => {
      const remotePort = request.socket.remotePort ?? 0
      const socket = sockets.get(remotePort)
      if (socket !== undefined && retired.has(socket)) {
        if ("stream" in response) response.stream.close(Http2.constants.NGHTTP2_REFUSED_STREAM)
        else socket.destroy()
        return
      }
      const parts: Array<Buffer> = []
      request.on("data", (part: Buffer) => parts.push(part))
      // A connection that breaks is the other side's business.
      request.on("error", () => {})
      response.on("error", () => {})
      request.on("end", () => {
        const { headers, httpVersion } = request
        const body = Buffer.concat(parts)
        const operation = operationOf(request)
        requests.push({ operation, httpVersion, headers, body })
        if (operation === "SubscribeToShard" && feed !== undefined) {
          response.writeHead(200, { "content-type": "application/vnd.amazon.eventstream" })
          const asked = subscribed({ body, headers })
          subscribe(asked, Readable.from(feed(asked), { highWaterMark: 1 }), response, remotePort)
          return
        }
        const passing = Http.request(upstream, { agent: false, method: "POST", headers: passedOn(headers) })
        passing.on("response", (answer) => {
          response.writeHead(answer.statusCode ?? 500, passedOn(answer.headers))
          if (operation === "SubscribeToShard" && answer.statusCode === 200) {
            subscribe(subscribed({ body, headers }), answer, response, remotePort)
          } else answer.pipe(response)
        })
        passing.on("error", () => sockets.get(remotePort)?.destroy())
        response.once("close", () => passing.destroy())
        passing.end(body)
      })
    }

    const server = yield* Effect.acquireRelease(
      Effect.gen(function*() {
        const listening = yield* Deferred.make<Http.Server | Http2.Http2SecureServer>()
        const server = protocol === "http:"
          ? Http.createServer(listener)
          : Http2.createSecureServer({ key, cert, allowHTTP1: true }, listener)
        server.on(protocol === "http:" ? "connection" : "secureConnection", (socket: Socket) => {
          const { remotePort = 0 } = socket
          sockets.set(remotePort, socket)
          socket.on("error", () => {})
          socket.once("close", () => sockets.delete(remotePort))
        })
        server.on("session", (session: Http2.ServerHttp2Session) => {
          const { remotePort = 0 } = session.socket
          sessions.set(remotePort, session)
          session.on("error", () => {})
          session.once("close", () => sessions.delete(remotePort))
        })
        server.listen(asked, "127.0.0.1", () => Deferred.unsafeDone(listening, Effect.succeed(server)))
        return yield* Deferred.await(listening)
      }),
      (server) =>
        Effect.async<void>((resume) => {
          server.close(() => resume(Effect.void))
          for (const socket of sockets.values()) socket.destroy()
        })
    )
    const { port } = server.address() as AddressInfo
    return {
      endpoint: `${protocol}//127.0.0.1:${port}`,
      port,
      requests,
      subscriptions: () => [...subscriptions],
      connections: () => sockets.size,
      retire: () => {
        for (const socket of sockets.values()) retired.add(socket)
        for (const session of sessions.values()) session.goaway()
      }
    }
  })
