/** What the small examples run on: the Kinesis of the test kit, as a server, and a state store that outlives the members. */
import { KinesisClient, Kinesumer, type KinesumerConfig, StateStore } from "@kinesumer/core"
import { LocalKinesis, type TestKinesis } from "@kinesumer/test-kit"
import { Console, Effect, Layer, Schedule } from "effect"
import * as Program from "./program.js"

export const layer = (...streams: ReadonlyArray<TestKinesis.CreateStreamOptions>) =>
  Layer.merge(LocalKinesis.layer({ streams }), StateStore.layerMemory)

/** A local server takes any credentials. For AWS itself leave `endpoint` and `credentials` out. */
const KinesisLive = Layer.unwrapEffect(
  Effect.map(LocalKinesis.LocalKinesis, ({ endpoint }) =>
    KinesisClient.layer({
      region: "us-east-1",
      endpoint,
      credentials: { accessKeyId: "example", secretAccessKey: "example" }
    }))
)

/** A member that waits for nothing longer than somebody who looks on. */
export const member = (options: KinesumerConfig.KinesumerOptions) =>
  Kinesumer.layer({ syncInterval: "300 millis", polling: { idleInterval: "300 millis" }, ...options }).pipe(
    Layer.provide(KinesisLive)
  )

/** Looks again and again, and gives what it saw in the end: what is good, or what is there after a minute. */
export const lookUntil = <A, E, R>(look: Effect.Effect<A, E, R>, isGood: (a: A) => boolean): Effect.Effect<A, E, R> =>
  Effect.repeat(look, { schedule: Schedule.spaced("50 millis"), until: isGood }).pipe(
    Effect.timeoutOption("1 minute"),
    Effect.zipRight(look)
  )

/** The last line of an example, and its exit code. */
export const report = (outcome: Readonly<Record<string, number>>, isGood: boolean): Effect.Effect<void> =>
  Effect.zipRight(Console.log(JSON.stringify(outcome)), isGood ? Effect.void : Program.fail)
