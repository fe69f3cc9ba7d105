/** A local Kinesis, each of whose shards gets records at a steady rate. */
import { LocalKinesis } from "@kinesumer/test-kit"
import { Config, Effect, Schedule } from "effect"
import { main } from "../childServer.js"
import * as Traffic from "./traffic.js"

const stream = "stream-0"

main(Effect.gen(function*() {
  const shards = yield* Config.integer("SHARDS")
  const { kinesis, port } = yield* LocalKinesis.make({ streams: [{ name: stream, shards }] })
  yield* Effect.forEach(
    yield* kinesis.shards(stream),
    ({ shardId }, index) =>
      kinesis.putTo({ stream, shardId, data: "record" }).pipe(
        Effect.repeat(Schedule.fixed(Traffic.putMillis)),
        Effect.delay(Traffic.phaseOf(index)),
        Effect.forkScoped
      )
  )
  return port
}))
