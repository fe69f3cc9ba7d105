/** What no reader on the SDK can beat: a loop over the events of its SubscribeToShard. */
import * as Sdk from "@aws-sdk/client-kinesis"
import { Effect, Queue, Schedule, type Scope } from "effect"
import type { BenchFailed } from "../bench.js"
import type { Arrival, Rival } from "./rival.js"
import type { Call } from "./sdk.js"
import * as Streams from "./streams.js"

export const make = (call: Call): Effect.Effect<Rival, BenchFailed, Scope.Scope> =>
  Effect.gen(function*() {
    const arrivals = yield* Queue.unbounded<Arrival>()
    const clock = yield* Effect.clock
    const decoder = new TextDecoder()
    const { StreamDescriptionSummary: described } = yield* call((client) =>
      client.send(new Sdk.DescribeStreamSummaryCommand({ StreamName: Streams.bare }))
    )
    const { Consumer: consumer } = yield* call((client) =>
      client.send(
        new Sdk.RegisterStreamConsumerCommand({ StreamARN: described?.StreamARN, ConsumerName: "bench" })
      )
    )
    const { Shards: [shard] = [] } = yield* call((client) =>
      client.send(new Sdk.ListShardsCommand({ StreamName: Streams.bare }))
    )
    // A subscription ends after 5 minutes.
    let last: string | undefined
    yield* call(async (client, abortSignal) => {
      const { EventStream: events = [] } = await client.send(
        new Sdk.SubscribeToShardCommand({
          ConsumerARN: consumer?.ConsumerARN,
          ShardId: shard?.ShardId,
          StartingPosition: last === undefined
            ? { Type: "TRIM_HORIZON" }
            : { Type: "AFTER_SEQUENCE_NUMBER", SequenceNumber: last }
        }),
        { abortSignal }
      )
      for await (const { SubscribeToShardEvent: event } of events) {
        last = event?.ContinuationSequenceNumber
        for (const { Data } of event?.Records ?? []) {
          const at = clock.unsafeCurrentTimeNanos()
          Queue.unsafeOffer(arrivals, { text: decoder.decode(Data), at })
        }
      }
    }).pipe(Effect.repeat(Schedule.forever), Effect.forkScoped)
    return { name: "a loop of the SDK", stream: Streams.bare, arrivals }
  })
