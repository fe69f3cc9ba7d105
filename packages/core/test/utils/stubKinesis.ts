/** A server that answers Kinesis calls as a test says, and keeps what it was asked. */
import { Effect, type Scope } from "effect"
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"

export interface StubRequest {
  /** Without the version, for example `GetRecords`. */
  readonly operation: string
  readonly body: string
  readonly headers: IncomingHttpHeaders
}

export interface StubKinesis {
  readonly endpoint: string
  readonly requests: ReadonlyArray<StubRequest>
  /** How many answers were cut off by the other side before they were complete. */
  readonly aborted: Effect.Effect<number>
  /** How many connections are open. */
  readonly connections: Effect.Effect<number>
}

/** Never answers. */
export const silence = (): void => undefined

export const json = (body: object, status = 200, headers: Readonly<Record<string, string>> = {}) =>
(
  response: ServerResponse
): void => {
  response.writeHead(status, { "content-type": "application/x-amz-json-1.1", ...headers }).end(JSON.stringify(body))
}

export const failure = (type: string, status: number) => json({ __type: type, message: "the message" }, status)

export const make = (
  answer: (response: ServerResponse, request: StubRequest) => void
): Effect.Effect<StubKinesis, never, Scope.Scope> =>
  Effect.gen(function*() {
    const requests: Array<StubRequest> = []
    let aborted = 0
    const server = yield* Effect.acquireRelease(
      Effect.async<ReturnType<typeof createServer>>((resume) => {
        const server = createServer((request, response) => {
          let body = ""
          request.setEncoding("utf8").on("data", (text: string) => {
            body += text
          })
          request.on("end", () => {
            const target = request.headers["x-amz-target"]
            const received = {
              operation: typeof target === "string" ? target.slice(target.indexOf(".") + 1) : "",
              body,
              headers: request.headers
            }
            requests.push(received)
            answer(response, received)
          })
          response.on("close", () => {
            if (!response.writableEnded) aborted++
          })
        })
        server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
      }),
      (server) =>
        Effect.async<void>((resume) => {
          server.close(() => resume(Effect.void))
          server.closeAllConnections()
        })
    )
    const { port } = server.address() as AddressInfo
    return {
      endpoint: `http://127.0.0.1:${port}`,
      requests,
      aborted: Effect.sync(() => aborted),
      connections: Effect.async<number>((resume) => {
        server.getConnections((_, count) => resume(Effect.succeed(count)))
      })
    }
  })
