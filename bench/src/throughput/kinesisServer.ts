/** A local Kinesis that holds the records, and keeps to the limits of Kinesis. */
import { LocalKinesis } from "@kinesumer/test-kit"
import { Array, Effect } from "effect"
import { main } from "../childServer.js"
import * as Streams from "./streams.js"

main(Effect.gen(function*() {
  const { kinesis, port } = yield* LocalKinesis.make({
    streams: Streams.kinds.map(({ stream }) => ({ name: stream, shards: Streams.shards }))
  })
  for (const { recordsAShard, size, stream } of Streams.kinds) {
    const payloads = Streams.payloads(size)
    for (let shard = 0; shard < Streams.shards; shard++) {
      for (let index = 0; index < recordsAShard; index++) {
        const data = Array.unsafeGet(payloads, index % payloads.length)
        yield* kinesis.putTo({ stream, shardId: Streams.shardId(shard), data, partitionKey: `key-${index % 100}` })
      }
    }
  }
  return port
}))
