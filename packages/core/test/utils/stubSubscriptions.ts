/** A server of subscriptions that says what a test says, over HTTP/1.1 or over HTTP/2 with TLS. */
import { EventStreamCodec } from "@smithy/core/event-streams"
import { Effect, type Scope } from "effect"
import * as Http from "node:http"
import * as Http2 from "node:http2"
import type { AddressInfo, Socket } from "node:net"
import { cert, key } from "./certificate.js"

const codec = new EventStreamCodec(
  (bytes) => typeof bytes === "string" ? bytes : Buffer.from(bytes).toString(),
  (text) => Buffer.from(text)
)

/** Bytes are a body as they are; anything else is told in JSON. */
export const frame = (headers: Readonly<Record<string, string>>, body: object): Uint8Array =>
  codec.encode({
    headers: Object.fromEntries(
      Object.entries({ ":content-type": "application/json", ...headers })
        .map(([name, value]) => [name, { type: "string", value }])
    ),
    body: body instanceof Uint8Array ? body : Buffer.from(JSON.stringify(body))
  })

export const initialResponse = frame({ ":message-type": "event", ":event-type": "initial-response" }, {})

export const event = (body: object): Uint8Array =>
  frame({ ":message-type": "event", ":event-type": "SubscribeToShardEvent" }, body)

export const unknownEvent = frame({ ":message-type": "event", ":event-type": "SomethingNew" }, {})

export const exception = (type: string): Uint8Array =>
  frame({ ":message-type": "exception", ":exception-type": type }, { message: "the message" })

export const error = (code: string): Uint8Array =>
  frame({ ":message-type": "error", ":error-code": code, ":error-message": "the message" }, {})

/** One answer, as far as both protocols have the same. */
export interface Answer {
  /** `sent` is called when the bytes have left. */
  readonly write: (bytes: Uint8Array, sent?: () => void) => void
  readonly end: () => void
  readonly fail: (status: number, body: object) => void
  /** Breaks the connection off. */
  readonly cut: () => void
}

export interface Request {
  readonly operation: string
  readonly httpVersion: string
  readonly headers: Http.IncomingHttpHeaders
  readonly body: string
}

export interface StubSubscriptions {
  readonly endpoint: string
  readonly requests: ReadonlyArray<Request>
  /** Answers whose other side has gone before their end. */
  readonly abandoned: () => number
  readonly connections: () => number
}

const received = (
  request: Http.IncomingMessage | Http2.Http2ServerRequest,
  response: Http.ServerResponse | Http2.Http2ServerResponse
): Answer => {
  const begin = (status: number, type: string) => {
    if (!response.headersSent) response.writeHead(status, { "content-type": type })
  }
  return {
    write: (bytes, sent) => {
      begin(200, "application/vnd.amazon.eventstream")
      if ("stream" in response) response.stream.write(bytes, sent)
      else response.write(bytes, sent)
    },
    end: () => {
      begin(200, "application/vnd.amazon.eventstream")
      response.end()
    },
    fail: (status, body) => {
      begin(status, "application/x-amz-json-1.1")
      response.end(JSON.stringify(body))
    },
    cut: () => {
      if ("stream" in response) response.stream.close(Http2.constants.NGHTTP2_INTERNAL_ERROR)
      else request.socket.destroy()
    }
  }
}

export const make = (
  protocol: "http:" | "https:",
  answer: (answer: Answer, request: Request) => void
): Effect.Effect<StubSubscriptions, never, Scope.Scope> =>
  Effect.gen(function*() {
    const requests: Array<Request> = []
    const sockets = new Set<Socket>()
    let abandoned = 0
    const listener = (
      request: Http.IncomingMessage | Http2.Http2ServerRequest,
      response: Http.ServerResponse | Http2.Http2ServerResponse
    ) => {
      let body = ""
      request.setEncoding("utf8")
      request.on("data", (text: string) => {
        body += text
      })
      request.on("end", () => {
        const target = String(request.headers["x-amz-target"])
        const whole = {
          operation: target.slice(target.indexOf(".") + 1),
          httpVersion: request.httpVersion,
          headers: request.headers,
          body
        }
        requests.push(whole)
        answer(received(request, response), whole)
      })
      response.on("close", () => {
        if (!response.writableEnded) abandoned++
      })
    }
    const server = yield* Effect.acquireRelease(
      Effect.async<Http.Server | Http2.Http2SecureServer>((resume) => {
        const server = protocol === "http:"
          ? Http.createServer(listener)
          : Http2.createSecureServer({ key, cert, allowHTTP1: true }, listener)
        server.on(protocol === "http:" ? "connection" : "secureConnection", (socket: Socket) => {
          sockets.add(socket)
          socket.once("close", () => sockets.delete(socket))
        })
        server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
      }),
      (server) =>
        Effect.async<void>((resume) => {
          server.close(() => resume(Effect.void))
          for (const socket of sockets) socket.destroy()
        })
    )
    const { port } = server.address() as AddressInfo
    return {
      endpoint: `${protocol}//127.0.0.1:${port}`,
      requests,
      abandoned: () => abandoned,
      connections: () => sockets.size
    }
  })
