/** What no server of these bytes can beat: a plain one that answers every request from one buffer. */
import { Config, Effect } from "effect"
import { createServer } from "node:http"
import { main } from "../childServer.js"

const listen = (length: number) =>
  Effect.async<number>((resume) => {
    const bytes = Buffer.alloc(length, "kinesis")
    const server = createServer((request, response) => {
      request.resume().on("end", () => response.writeHead(200, { "content-length": length }).end(bytes))
    })
    server.listen(0, "127.0.0.1", () => {
      const address = server.address()
      if (typeof address === "object" && address !== null) resume(Effect.succeed(address.port))
    })
    return Effect.sync(() => server.close())
  })

main(Effect.flatMap(Config.integer("LENGTH"), listen))
