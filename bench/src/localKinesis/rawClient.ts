/**
 * A client that reads the bytes of answers and decodes none, into the same memory again and again: what is measured is
 * the server, not who asks.
 */
import { Effect, type Scope } from "effect"
import { connect as connectSocket } from "node:net"
import { BenchFailed } from "../bench.js"

export interface Request {
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
}

/** Asks for one thing after the other. `onBytes` sees the bytes of the answer's body; they are gone afterwards. */
export type Connection = (request: Request, onBytes?: (bytes: Buffer) => void) => Effect.Effect<number, BenchFailed>

const encode = ({ body, headers }: Request): Buffer => {
  const fields = Object.entries({ ...headers, host: "localhost", "content-length": `${body.byteLength}` })
  const head = ["POST / HTTP/1.1", ...fields.map(([name, value]) => `${name}: ${value}`), "", ""].join("\r\n")
  return Buffer.concat([Buffer.from(head), body])
}

const headEnd = Buffer.from("\r\n\r\n")

interface Answer {
  readonly onBytes: (bytes: Buffer) => void
  readonly end: (outcome: Effect.Effect<number, BenchFailed>) => void
  /** How long the body is, when the head has come. */
  length: number | undefined
  received: number
}

const failed = (message: string) => Effect.fail(new BenchFailed({ message }))

/** A head that comes in two parts would be told as a failure; servers on this machine send it at once. */
const receive = (answer: Answer, bytes: Buffer): void => {
  let body = bytes
  if (answer.length === undefined) {
    const end = bytes.indexOf(headEnd)
    const head = bytes.subarray(0, end).toString("latin1")
    const length = /^HTTP\/1\.1 200 [^]*\r\ncontent-length: (\d+)/i.exec(head)?.[1]
    if (length === undefined) return answer.end(failed(`the answer begins with ${head}`))
    answer.length = Number(length)
    body = bytes.subarray(end + headEnd.length)
  }
  answer.received += body.byteLength
  answer.onBytes(body)
  if (answer.received >= answer.length) answer.end(Effect.succeed(answer.length))
}

/** A connection that is kept for as long as the scope lives. */
export const connect = (port: number): Effect.Effect<Connection, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => {
        const state: { answer: Answer | undefined } = { answer: undefined }
        const memory = Buffer.alloc(1024 * 1024)
        const socket = connectSocket({
          host: "127.0.0.1",
          port,
          onread: {
            buffer: memory,
            callback: (length) => {
              if (state.answer !== undefined) receive(state.answer, memory.subarray(0, length))
              return true
            }
          }
        })
        socket.on("error", (error) => state.answer?.end(failed(error.message)))
        return { socket, state }
      }),
      ({ socket }) => Effect.sync(() => socket.destroy())
    ),
    ({ socket, state }) => (request, onBytes = () => {}) =>
      Effect.async<number, BenchFailed>((resume) => {
        state.answer = { onBytes, end: resume, length: undefined, received: 0 }
        socket.write(encode(request))
      })
  )

/** The whole answer. */
export const fetch = (connection: Connection, request: Request): Effect.Effect<Buffer, BenchFailed> =>
  Effect.suspend(() => {
    const chunks: Array<Buffer> = []
    return Effect.map(
      connection(request, (bytes) => {
        chunks.push(Buffer.from(bytes))
      }),
      () => Buffer.concat(chunks)
    )
  })
