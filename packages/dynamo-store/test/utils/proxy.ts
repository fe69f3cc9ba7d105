/** A server between the store and dynalite, which does to requests and answers what a network and a busy table do. */
import { Data, Effect } from "effect"
import { createServer, request as httpRequest, type Server, type ServerResponse } from "node:http"

/** One request as it came in. */
export interface Call {
  /** For example `UpdateItem`. */
  readonly action: string
  readonly body: string
  /** How many requests came before it. */
  readonly index: number
}

export type Fault = Data.TaggedEnum<{
  /** The request takes effect, and the connection breaks before the answer. */
  readonly LoseAnswer: object
  /** The connection breaks before the request takes effect. */
  readonly LoseRequest: object
  /** No answer ever. */
  readonly Hang: object
  /** The request waits before it goes on. */
  readonly Hold: { readonly until: Promise<void> }
  /** DynamoDB answers by itself. */
  readonly Answer: { readonly status: number; readonly body: Readonly<Record<string, unknown>> }
  /** The answer of dynalite, changed. */
  readonly Change: { readonly change: (answer: Record<string, unknown>) => Record<string, unknown> }
}>

export const Fault = Data.taggedEnum<Fault>()

/** An exception of DynamoDB, such as `ThrottlingException`. */
export const exception = (name: string, status = 400): Fault =>
  Fault.Answer({
    status,
    body: { __type: `com.amazonaws.dynamodb.v20120810#${name}`, message: `${name} by the test` }
  })

export interface Proxy {
  readonly endpoint: string
  readonly calls: Array<Call>
  /** The requests that the client gave up. */
  aborted: number
  /** What to do to a request; `undefined` lets it pass. */
  fault: (call: Call) => Fault | undefined
}

const listen = (server: Server): Effect.Effect<number> =>
  Effect.async((resume) => {
    server.listen(0, "127.0.0.1", () => {
      const address = server.address()
      resume(
        typeof address === "object" && address !== null ? Effect.succeed(address.port) : Effect.dieMessage("no port")
      )
    })
  })

const close = (server: Server): Effect.Effect<void> =>
  Effect.async((resume) => {
    server.close(() => resume(Effect.void))
    server.closeAllConnections()
  })

const answer = (response: ServerResponse, status: number, body: Readonly<Record<string, unknown>>) => {
  response.writeHead(status, { "content-type": "application/x-amz-json-1.0" })
  response.end(JSON.stringify(body))
}

export const make = Effect.fnUntraced(function*(upstream: string) {
  const proxy: Proxy = { endpoint: "", calls: [], aborted: 0, fault: () => undefined }
  const server = createServer((request, response) => {
    const chunks: Array<Buffer> = []
    const forward = (body: Buffer, fault: Fault | undefined) => {
      const { method, url } = request
      const onward = httpRequest(upstream, { method, path: url, headers: request.headers }, (reply) => {
        const parts: Array<Buffer> = []
        reply.on("data", (part: Buffer) => parts.push(part))
        reply.on("end", () => {
          if (fault?._tag === "LoseAnswer") return response.destroy()
          const text = Buffer.concat(parts)
          if (fault?._tag === "Change") {
            const changed = fault.change(JSON.parse(text.toString()) as Record<string, unknown>)
            return answer(response, reply.statusCode ?? 500, changed)
          }
          response.writeHead(reply.statusCode ?? 500, reply.headers)
          return response.end(text)
        })
      })
      onward.on("error", () => response.destroy())
      return onward.end(body)
    }
    request.on("data", (chunk: Buffer) => chunks.push(chunk))
    request.on("end", () => {
      const body = Buffer.concat(chunks)
      const call: Call = {
        action: String(request.headers["x-amz-target"]).split(".")[1] ?? "",
        body: body.toString(),
        index: proxy.calls.length
      }
      proxy.calls.push(call)
      const fault = proxy.fault(call)
      if (fault?._tag === "Answer") return answer(response, fault.status, fault.body)
      if (fault?._tag === "LoseRequest") return response.destroy()
      if (fault?._tag === "Hang") {
        return response.on("close", () => {
          proxy.aborted++
        })
      }
      return fault?._tag === "Hold" ? void fault.until.then(() => forward(body, fault)) : forward(body, fault)
    })
  })
  const port = yield* Effect.acquireRelease(listen(server), () => close(server))
  return Object.assign(proxy, { endpoint: `http://127.0.0.1:${port}` })
})
