/** A DynamoDB that tells what each request takes of the capacity, and a sum of all. */
import { LocalServers } from "@kinesumer/test-kit"
import { Effect, Schema, type Scope } from "effect"
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import { buffer } from "node:stream/consumers"
import { BenchFailed } from "../bench.js"

export interface Consumed {
  readonly reads: number
  readonly readUnits: number
  readonly writes: number
  readonly writeUnits: number
}

export const none: Consumed = { reads: 0, readUnits: 0, writes: 0, writeUnits: 0 }

export interface MeteredDynamo {
  readonly endpoint: string
  readonly consumed: () => Consumed
}

const Request = Schema.parseJson(Schema.Record({ key: Schema.String, value: Schema.Unknown }))
const Answer = Schema.parseJson(Schema.Struct({
  ConsumedCapacity: Schema.Struct({ CapacityUnits: Schema.Number })
}))

const isRead = (operation: string): boolean => operation === "GetItem" || operation === "Query"
const isWrite = (operation: string): boolean => ["PutItem", "UpdateItem", "DeleteItem"].includes(operation)

const listen = (server: Server): Effect.Effect<number, BenchFailed> =>
  Effect.async((resume) => {
    server.listen(0, "127.0.0.1", () => {
      const address = server.address()
      resume(
        typeof address === "object" && address !== null
          ? Effect.succeed(address.port)
          : Effect.fail(new BenchFailed({ message: "the proxy of DynamoDB listens on no port" }))
      )
    })
  })

/** Stands between a client and `dynalite`, which knows what a request takes and tells who asks for it. */
export const make: Effect.Effect<MeteredDynamo, BenchFailed, Scope.Scope> = Effect.gen(function*() {
  const dynalite = yield* Effect.mapError(
    LocalServers.dynalite(),
    (cause) => new BenchFailed({ message: cause.message })
  )
  let consumed = none
  const note = (operation: string, units: number) => {
    const { readUnits, reads, writeUnits, writes } = consumed
    consumed = isRead(operation)
      ? { ...consumed, reads: reads + 1, readUnits: readUnits + units }
      : { ...consumed, writes: writes + 1, writeUnits: writeUnits + units }
  }
  const pass = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const operation = String(request.headers["x-amz-target"]).split(".")[1] ?? ""
    const isMetered = isRead(operation) || isWrite(operation)
    const body = (await buffer(request)).toString()
    const reply = await fetch(dynalite.endpoint, {
      method: "POST",
      headers: {
        authorization: String(request.headers.authorization),
        "content-type": "application/x-amz-json-1.0",
        "x-amz-date": String(request.headers["x-amz-date"]),
        "x-amz-target": String(request.headers["x-amz-target"])
      },
      body: isMetered
        ? JSON.stringify({ ...Schema.decodeSync(Request)(body), ReturnConsumedCapacity: "TOTAL" })
        : body
    })
    const text = await reply.text()
    if (isMetered && reply.ok) note(operation, Schema.decodeSync(Answer)(text).ConsumedCapacity.CapacityUnits)
    // A refused condition takes a unit too, which the answer does not tell.
    if (isMetered && !reply.ok) note(operation, 1)
    response.writeHead(reply.status, { "content-type": "application/x-amz-json-1.0" }).end(text)
  }
  const server = createServer((request, response) => {
    pass(request, response).catch(() => response.destroy())
  })
  const port = yield* Effect.acquireRelease(listen(server), () =>
    Effect.sync(() => {
      server.close()
      server.closeAllConnections()
    }))
  return { endpoint: `http://127.0.0.1:${port}`, consumed: () => consumed }
})
