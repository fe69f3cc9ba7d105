/** What a GetRecords of the SDK costs the process that makes it, when there is nothing to get. */
import * as Sdk from "@aws-sdk/client-kinesis"
import { NodeRuntime } from "@effect/platform-node"
import { Array, Config, Console, Effect } from "effect"
import * as SdkClient from "../fanOutLatency/sdk.js"

const callsToWarmUp = 2_000
const callsMeasured = 5_000

/** As many as a process keeps under way that makes some thousand a second. */
const concurrency = 20

const program = Effect.gen(function*() {
  const stream = yield* Config.string("STREAM")
  const call = yield* SdkClient.connect(yield* Config.string("ENDPOINT"))
  const { Shards: [shard] = [] } = yield* call((client) =>
    client.send(new Sdk.ListShardsCommand({ StreamName: stream }))
  )
  const { ShardIterator } = yield* call((client) =>
    client.send(
      new Sdk.GetShardIteratorCommand({
        StreamName: stream,
        ShardId: shard?.ShardId,
        ShardIteratorType: "TRIM_HORIZON"
      })
    )
  )
  const calls = (count: number) =>
    Effect.forEach(
      Array.range(1, count),
      () => call((client) => client.send(new Sdk.GetRecordsCommand({ ShardIterator, Limit: 100 }))),
      { concurrency, discard: true }
    )
  yield* calls(callsToWarmUp)
  const before = process.cpuUsage()
  yield* calls(callsMeasured)
  const { system, user } = process.cpuUsage(before)
  yield* Console.log(JSON.stringify({ micros: (user + system) / callsMeasured }))
})

NodeRuntime.runMain(Effect.scoped(program))
