/** Members that read by fan-out over the wire, with the SDK as it is, through a gateway that tests can break. */
import { KinesisClient, Kinesumer, type KinesumerConfig, type KinesumerEvent, StateStore } from "@kinesumer/core"
import type { KinesumerRecord } from "@kinesumer/core"
import { LocalKinesis } from "@kinesumer/test-kit"
import { Array, Clock, Context, Effect, Exit, Layer, Ref, Schedule, Scope, Stream } from "effect"
import { trusting } from "../utils/certificate.js"
import * as Gateway from "../utils/gateway.js"
import * as KinesisAdmin from "../utils/kinesisAdmin.js"

export const region = "us-east-1"
export const credentials = { accessKeyId: "ours", secretAccessKey: "secret" }

export interface World {
  /** Where members find Kinesis. */
  readonly gateway: Gateway.Gateway
  /** Speaks to Kinesis itself. */
  readonly admin: Effect.Effect.Success<ReturnType<typeof KinesisAdmin.make>>
  readonly store: Context.Tag.Service<StateStore.StateStore>
}

/** A gateway to a server that runs already. */
export const worldAt = (protocol: Gateway.Protocol, endpoint: string) =>
  Effect.gen(function*() {
    yield* trusting
    const world: World = {
      gateway: yield* Gateway.make(protocol, endpoint),
      admin: yield* KinesisAdmin.make({ endpoint, region }),
      store: yield* StateStore.makeMemory
    }
    return world
  })

/** A clock that can be stopped and moved on. */
const movable = Effect.map(Effect.clock, (real) => {
  let ahead = 0
  let stoppedAt: number | undefined
  const millis = () => (stoppedAt ?? real.unsafeCurrentTimeMillis()) + ahead
  const nanos = () => BigInt(millis()) * 1_000_000n
  const clock: Clock.Clock = {
    [Clock.ClockTypeId]: Clock.ClockTypeId,
    unsafeCurrentTimeMillis: millis,
    unsafeCurrentTimeNanos: nanos,
    currentTimeMillis: Effect.sync(millis),
    currentTimeNanos: Effect.sync(nanos),
    sleep: real.sleep
  }
  const move = (seconds: number) =>
    Effect.sync(() => {
      ahead += seconds * 1000
    })
  const stop = Effect.sync(() => {
    stoppedAt = real.unsafeCurrentTimeMillis()
  })
  return { clock, move, stop }
})

/** A gateway to a local Kinesis of its own, with streams of one shard. */
export const world = (
  protocol: Gateway.Protocol,
  streams: ReadonlyArray<string>,
  options: { readonly limits?: boolean } = {}
) =>
  Effect.gen(function*() {
    const { clock, ...time } = yield* movable
    const { endpoint, kinesis } = yield* LocalKinesis.make({
      ...options,
      streams: streams.map((name) => ({ name }))
    }).pipe(Effect.withClock(clock))
    return {
      ...(yield* worldAt(protocol, endpoint)),
      endpoint,
      kinesis,
      /** The clock of Kinesis alone. It is moved by so many seconds. */
      time
    }
  })

const settings = {
  app: "app",
  mode: "fanOut",
  syncInterval: "300 millis",
  livenessTimeout: "6 seconds",
  commit: { interval: "300 millis" }
} satisfies Partial<KinesumerConfig.KinesumerOptions>

export interface Member {
  readonly service: Kinesumer.Kinesumer["Type"]
  /** What user code was handed, in order. */
  readonly delivered: Effect.Effect<ReadonlyArray<KinesumerRecord.KinesumerRecord>>
  readonly events: Effect.Effect<ReadonlyArray<KinesumerEvent.KinesumerEvent>>
  readonly close: Effect.Effect<void>
}

export const join = (
  { gateway, store }: Pick<World, "gateway" | "store">,
  options: Partial<KinesumerConfig.KinesumerOptions> & Pick<KinesumerConfig.KinesumerOptions, "memberId" | "streams">,
  client: KinesisClient.KinesisClientOptions = { credentials }
) =>
  Effect.gen(function*() {
    const scope = yield* Effect.acquireRelease(Scope.make(), (scope) => Scope.close(scope, Exit.void))
    const service = yield* Layer.buildWithScope(
      Kinesumer.layer({ ...settings, ...options }).pipe(
        Layer.provide(KinesisClient.layer({ region, endpoint: gateway.endpoint, ...client })),
        Layer.provide(Layer.succeed(StateStore.StateStore, store))
      ),
      scope
    ).pipe(Effect.map(Context.get(Kinesumer.Kinesumer)))
    const delivered = yield* Ref.make(Array.empty<KinesumerRecord.KinesumerRecord>())
    const events = yield* Ref.make(Array.empty<KinesumerEvent.KinesumerEvent>())
    yield* Effect.forkScoped(
      Stream.runForEach(service.events, (event) => Ref.update(events, (all) => [...all, event]))
    )
    yield* Effect.forkScoped(
      Stream.runForEach(service.records, (record) => Ref.update(delivered, (all) => [...all, record]))
    )
    const member: Member = {
      service,
      delivered: Ref.get(delivered),
      events: Ref.get(events),
      close: Scope.close(scope, Exit.void)
    }
    return member
  })

/** What a member was handed of one stream. */
export const textsOf = ({ delivered }: Member, stream: string) =>
  Effect.map(
    delivered,
    (records) => records.filter((record) => record.stream === stream).map(({ data }) => new TextDecoder().decode(data))
  )

/** Why calls were tried again, of one stream. */
export const retriesOf = ({ events }: Member, stream: string) =>
  Effect.map(
    events,
    (all) => all.flatMap((event) => event._tag === "Retrying" && event.stream === stream ? [event.error.reason] : [])
  )

export const names = (from: number, to: number): ReadonlyArray<string> =>
  Array.range(from, to).map((number) => `${number}`)

/** Puts records with these texts, one after the other. */
export const put = ({ admin }: World, stream: string, texts: ReadonlyArray<string>) =>
  Effect.forEach(texts, (text) => admin.put(stream, "key", new TextEncoder().encode(text)), { discard: true })

export const until = <E, R>(condition: Effect.Effect<boolean, E, R>, what: string): Effect.Effect<void, never, R> =>
  condition.pipe(
    Effect.repeat({ schedule: Schedule.spaced("20 millis"), until: (holds) => holds }),
    Effect.timeoutFail({ duration: "40 seconds", onTimeout: () => new Error(`not within 40 seconds: ${what}`) }),
    Effect.orDie,
    Effect.asVoid
  )

export const shardId = (index: number): string => `shardId-${`${index}`.padStart(12, "0")}`
