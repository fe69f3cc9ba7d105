/** A client that reads the bytes of answers and decodes none: what is measured is the server. */
import { Effect } from "effect"
import * as Http from "node:http"
import { BenchFailed } from "../bench.js"

export interface Request {
  readonly port: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
}

const agent = new Http.Agent({ keepAlive: true })

const send = <A>(request: Request, onAnswer: (response: Http.IncomingMessage, done: (answer: A) => void) => void) =>
  Effect.async<A, BenchFailed>((resume) => {
    const { body, headers, port } = request
    const fail = (message: string) => resume(Effect.fail(new BenchFailed({ message })))
    const sent = Http.request(
      { agent, port, host: "127.0.0.1", method: "POST", headers: { ...headers, "content-length": body.byteLength } },
      (response) => {
        if (response.statusCode !== 200) fail(`the answer is ${response.statusCode}`)
        onAnswer(response, (answer) => resume(Effect.succeed(answer)))
      }
    )
    sent.on("error", (error) => fail(error.message))
    sent.end(body)
    return Effect.sync(() => sent.destroy())
  })

/** The whole answer. */
export const fetch = (request: Request) =>
  send<Buffer>(request, (response, done) => {
    const chunks: Array<Buffer> = []
    response.on("data", (chunk: Buffer) => chunks.push(chunk))
    response.on("end", () => done(Buffer.concat(chunks)))
  })

/** How long the answer is. */
export const measure = (request: Request) =>
  send<number>(request, (response, done) => {
    let length = 0
    response.on("data", (chunk: Buffer) => {
      length += chunk.byteLength
    })
    response.on("end", () => done(length))
  })
