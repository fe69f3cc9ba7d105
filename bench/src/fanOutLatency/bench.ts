/** How long a record takes from its put to user code, by fan-out, beside a bare loop of the SDK. */
import * as Sdk from "@aws-sdk/client-kinesis"
import { Array, Clock, Effect, Queue } from "effect"
import { type Bench, BenchFailed, type Series } from "../bench.js"
import * as ChildServer from "../childServer.js"
import { median, quantile } from "../statistics.js"
import * as Bare from "./bare.js"
import * as Group from "./group.js"
import type { Rival } from "./rival.js"
import * as SdkClient from "./sdk.js"
import * as Streams from "./streams.js"

const recordsARound = 500

/** Long enough for whatever a reader does after a record, and the next one finds it at rest. */
const pause = "2 millis"

const millis = (nanos: bigint) => Number(nanos) / 1e6

/** Puts one record, and waits for it. Gives the time from before the call, in milliseconds. */
const putOne = (put: SdkClient.Call, { arrivals, name, stream }: Rival, text: string) =>
  Effect.gen(function*() {
    const began = yield* Clock.currentTimeNanos
    yield* put((client) =>
      client.send(
        new Sdk.PutRecordCommand({ StreamName: stream, PartitionKey: "key", Data: new TextEncoder().encode(text) })
      )
    )
    const arrival = yield* Queue.take(arrivals).pipe(
      Effect.timeoutFail({
        duration: "30 seconds",
        onTimeout: () => new BenchFailed({ message: `${name} has not got ${text} within 30 seconds` })
      })
    )
    if (arrival.text !== text) {
      return yield* new BenchFailed({ message: `${name} has got ${arrival.text}, not ${text}` })
    }
    yield* Effect.sleep(pause)
    return millis(arrival.at - began)
  })

interface Round {
  readonly median: number
  readonly p99: number
}

const round = (put: SdkClient.Call, rival: Rival, index: number) =>
  Effect.forEach(Array.range(1, recordsARound), (number) => putOne(put, rival, `${index}-${number}`)).pipe(
    Effect.map((values): Round => ({ median: median(values), p99: quantile(values, 0.99) }))
  )

export const fanOutLatency: Bench = {
  name: "fan-out-latency",
  description: "from put to user code by fan-out, one record at a time, on the same LocalKinesis",
  run: ({ rounds }) =>
    Effect.gen(function*() {
      const endpoint = Streams.endpointOf(yield* ChildServer.start("fanOutLatency/kinesisServer.js"))
      const call = yield* SdkClient.connect(endpoint)
      const bare = yield* Bare.make(call)
      const group = yield* Group.make(endpoint)
      const measured = { bare: Array.empty<Round>(), group: Array.empty<Round>() }
      // The first one is to warm up.
      for (let index = 0; index <= rounds; index++) {
        const ofBare = yield* round(call, bare, index)
        const ofGroup = yield* round(call, group, index)
        if (index === 0) continue
        measured.bare.push(ofBare)
        measured.group.push(ofGroup)
      }
      const seriesOf = (rival: Rival, all: ReadonlyArray<Round>): ReadonlyArray<Series> => [
        { name: `${rival.name}, median`, unit: "ms", values: all.map(({ median }) => median) },
        { name: `${rival.name}, 99th percentile`, unit: "ms", values: all.map(({ p99 }) => p99) }
      ]
      /** Of what the rounds say, each of which has both in the same minute. */
      const extra = (of: (round: Round) => number) =>
        Number(median(Array.zipWith(measured.group, measured.bare, (group, bare) => of(group) - of(bare))).toFixed(3))
      return {
        series: [...seriesOf(bare, measured.bare), ...seriesOf(group, measured.group)],
        summary: { medianExtraMs: extra(({ median }) => median), p99ExtraMs: extra(({ p99 }) => p99) }
      }
    })
}
