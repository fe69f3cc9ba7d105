/** A local Kinesis with an empty stream of one shard. */
import { LocalKinesis } from "@kinesumer/test-kit"
import { Config, Effect } from "effect"
import { main } from "../childServer.js"

main(Effect.gen(function*() {
  const name = yield* Config.string("STREAM")
  const { port } = yield* LocalKinesis.make({ limits: false, streams: [{ name }] })
  return port
}))
