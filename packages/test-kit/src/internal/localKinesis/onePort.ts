/**
 * HTTP/1.1 and HTTP/2 without TLS on one port: the first bytes of a connection tell them apart.
 */
import * as Http from "node:http"
import * as Http2 from "node:http2"
import type { Socket } from "node:net"

/** What a client with prior knowledge of HTTP/2 begins with, and no request of HTTP/1.1 does. */
const preface = "PRI"

/**
 * Waits for the first bytes, puts them back and tells whether they are HTTP/2's. Nothing is told of a connection that
 * ends before.
 */
const peek = (socket: Socket, onKnown: (isHttp2: boolean) => void): void => {
  let head = Buffer.alloc(0)
  const onReadable = () => {
    const bytes: unknown = socket.read()
    if (!(bytes instanceof Uint8Array)) return
    head = Buffer.concat([head, bytes])
    const text = head.subarray(0, preface.length).toString("latin1")
    // Bytes that were put back would be readable at once, again and again.
    if (text.length < preface.length && preface.startsWith(text)) return
    socket.off("readable", onReadable)
    socket.unshift(head)
    onKnown(text === preface)
  }
  socket.on("readable", onReadable)
}

/** @internal */
export interface OnePort {
  /** Tells of the requests of both protocols. Its `listen` opens the port. */
  readonly server: Http.Server
  /** Ends all connections, and those that are still to come. */
  readonly disconnect: () => void
}

/** @internal */
export const make = (): OnePort => {
  const sockets = new Set<Socket>()
  let closing = false
  const http2 = Http2.createServer()
  const server = Http.createServer()
  http2.on("request", (request, response) => server.emit("request", request, response))

  const serveHttp1 = server.listeners("connection")
  server.removeAllListeners("connection")
  server.on("connection", (socket) => {
    if (closing) {
      socket.destroy()
      return
    }
    sockets.add(socket)
    socket.on("close", () => sockets.delete(socket))
    // A connection that breaks is the client's business. Without a listener it would be an uncaught error here.
    socket.on("error", () => {})
    // A client that ends its half before its request has come, or HTTP/2 at any time, wants nothing more.
    const onEnd = () => socket.destroy()
    socket.on("end", onEnd)
    peek(socket, (isHttp2) => {
      if (!isHttp2) socket.off("end", onEnd)
      if (isHttp2) http2.emit("connection", socket)
      else for (const serve of serveHttp1) serve.call(server, socket)
    })
  })

  return {
    server,
    disconnect: () => {
      closing = true
      for (const socket of sockets) socket.destroy()
    }
  }
}
