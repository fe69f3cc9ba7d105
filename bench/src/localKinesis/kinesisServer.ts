/** A local Kinesis with one stream of one shard, full of records. */
import { LocalKinesis } from "@kinesumer/test-kit"
import { Effect } from "effect"
import { main } from "../childServer.js"
import * as Records from "./records.js"

main(Effect.gen(function*() {
  const { kinesis, port } = yield* LocalKinesis.make({ limits: false, streams: [{ name: Records.stream }] })
  for (let index = 0; index < Records.count; index++) {
    yield* kinesis.put({ stream: Records.stream, ...Records.make(index) })
  }
  return port
}))
