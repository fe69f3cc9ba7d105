/** Members of a group on one in-memory Kinesis, one store and one virtual clock. */
import { KinesisClient, Kinesumer, type KinesumerConfig, type KinesumerEvent, StateStore } from "@kinesumer/core"
import type { KinesumerError, KinesumerRecord } from "@kinesumer/core"
import { TestKinesis } from "@kinesumer/test-kit"
import { Chunk, Effect, Exit, Fiber, Layer, Option, Ref, Scope, Stream, TestClock } from "effect"

export interface World {
  readonly kinesis: TestKinesis.TestKinesis["Type"]
  readonly store: StateStore.StateStore["Type"]
}

/** The same Kinesis and store for every member; wrapped ones inject faults. */
export const world = (options?: TestKinesis.Options) =>
  Effect.gen(function*() {
    const kinesis = yield* TestKinesis.make(options)
    const store = yield* StateStore.makeMemory
    return { kinesis, store }
  })

export interface TestMember {
  readonly service: Kinesumer.Kinesumer["Type"]
  /** What user code was handed, in order. */
  readonly delivered: Effect.Effect<ReadonlyArray<KinesumerRecord.KinesumerRecord>>
  readonly events: Effect.Effect<ReadonlyArray<KinesumerEvent.KinesumerEvent>>
  /** Runs `records` and notes what comes. */
  readonly consume: (
    handler?: (record: KinesumerRecord.KinesumerRecord) => Effect.Effect<void>
  ) => Effect.Effect<Fiber.RuntimeFiber<void, KinesumerError.ConsumeError>>
  readonly close: Effect.Effect<void>
  readonly scope: Scope.CloseableScope
}

/** Coarse enough to be quick, fine enough to be far from the timeouts' edges. */
export const settings = {
  app: "app",
  streams: ["orders"],
  syncInterval: "1 second",
  livenessTimeout: "6 seconds",
  commit: { interval: "1 second" }
} satisfies KinesumerConfig.KinesumerOptions

export const member = (
  { kinesis, store }: World,
  options: Partial<KinesumerConfig.KinesumerOptions> = {},
  wrap: {
    readonly client?: KinesisClient.KinesisClient["Type"]
    readonly store?: StateStore.StateStore["Type"]
  } = {}
) =>
  Effect.gen(function*() {
    const scope = yield* Scope.make()
    yield* Effect.addFinalizer(() => Scope.close(scope, Exit.void))
    const service = yield* Kinesumer.make({ ...settings, ...options }).pipe(
      Effect.provideService(KinesisClient.KinesisClient, wrap.client ?? kinesis.client),
      Effect.provideService(StateStore.StateStore, wrap.store ?? store),
      Scope.extend(scope),
      Effect.onError(() => Scope.close(scope, Exit.void))
    )
    const delivered = yield* Ref.make<ReadonlyArray<KinesumerRecord.KinesumerRecord>>([])
    const events = yield* Ref.make<ReadonlyArray<KinesumerEvent.KinesumerEvent>>([])
    yield* Stream.runForEach(service.events, (event) => Ref.update(events, (all) => [...all, event])).pipe(
      Effect.forkIn(scope)
    )
    yield* Effect.yieldNow()
    const one: TestMember = {
      service,
      delivered: Ref.get(delivered),
      events: Ref.get(events),
      consume: (handler = () => Effect.void) =>
        Stream.runForEach(
          service.records,
          (record) => Effect.zipRight(Ref.update(delivered, (all) => [...all, record]), handler(record))
        ).pipe(Effect.fork),
      close: Scope.close(scope, Exit.void),
      scope
    }
    return one
  })

/** Lets virtual time pass in small steps, so that everything which is due runs in its turn. */
export const pass = (seconds: number): Effect.Effect<void> =>
  Effect.repeatN(TestClock.adjust("200 millis"), Math.max(0, Math.round(seconds * 5) - 1))

/** Lets time pass until something is true; fails after `seconds`. */
export const until = <E, R>(condition: Effect.Effect<boolean, E, R>, seconds = 60): Effect.Effect<void, E, R> =>
  Effect.gen(function*() {
    for (let step = 0; step < seconds * 5; step++) {
      if (yield* condition) return
      yield* TestClock.adjust("200 millis")
    }
    if (!(yield* condition)) return yield* Effect.dieMessage(`not within ${seconds} virtual seconds`)
  })

export const datas = (records: ReadonlyArray<KinesumerRecord.KinesumerRecord>): ReadonlyArray<string> =>
  records.map(({ data }) => new TextDecoder().decode(data))

/** Puts `count` records named `<prefix>1..n` into a shard. */
export const putTo = (
  { kinesis }: World,
  stream: string,
  shardId: string,
  names: ReadonlyArray<string>
) => Effect.forEach(names, (data) => kinesis.putTo({ stream, shardId, data }))

export const names = (prefix: string, from: number, to: number): ReadonlyArray<string> =>
  Array.from({ length: to - from + 1 }, (_, index) => `${prefix}${from + index}`)

export const shardId = (index: number): string => `shardId-${`${index}`.padStart(12, "0")}`

export const row = ({ store }: World, id: string, stream = "orders", app = "app") =>
  Effect.map(store.listCheckpoints(app, stream), (rows) => Option.fromNullable(rows.find((one) => one.shardId === id)))

export { Chunk, Effect, Exit, Fiber, Layer, Option, Ref, Scope, Stream, TestClock }
