/**
 * One process of the group: the library as a user composes it, and user code that handles its records.
 *
 * @internal
 */
import { KinesisClient } from "@kinesumer/core/KinesisClient"
import * as Kinesumer from "@kinesumer/core/Kinesumer"
import type { ConsumeError } from "@kinesumer/core/KinesumerError"
import type { KinesumerEvent } from "@kinesumer/core/KinesumerEvent"
import type { KinesumerRecord } from "@kinesumer/core/KinesumerRecord"
import { StateStore } from "@kinesumer/core/StateStore"
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { Chance } from "./chance.js"
import type { Deliveries, StreamRun } from "./deliveries.js"
import type { Journal } from "./journal.js"
import type { MemberSpec, Scenario } from "./model.js"
import type { Process } from "./world.js"

/** @internal */
export interface MemberProcess {
  readonly spec: MemberSpec
  readonly process: Process
  /** The starts of the member in this process, by their incarnations. */
  readonly incarnations: Set<string>
  /** The service, while the member is built. */
  service: Kinesumer.Kinesumer["Type"] | undefined
  state: "Starting" | "Running" | "Leaving" | "Gone" | "Killed"
  /** How many refreshes of its streams are under way; of two at once, either may be the last. */
  refreshes: number
  /** What the consumer does just now. */
  readonly mood: Mood
  readonly leave: Deferred.Deferred<void>
  /** Ends the run of the stream that is under way, so that a new one begins. */
  readonly restart: Effect.Effect<void>
}

/** How user code behaves at the moment. */
interface Mood {
  handleMillis: number
  failures: number
  /** Handlers do not come back before this moment. */
  stuckUntil: number
  /** Opened when the run of the stream has to begin anew. */
  readonly again: Effect.Latch
}

/** @internal */
export interface MemberContext {
  readonly scenario: Scenario
  readonly elapsed: () => number
  readonly chance: Chance
  readonly deliveries: Deliveries
  readonly journal: Journal
  readonly nextRun: () => number
  readonly event: (member: MemberProcess, event: KinesumerEvent) => void
}

class HandlerFailed {
  readonly _tag = "HandlerFailed"
}

const restartPause = 1_000

/** @internal */
export const make = (spec: MemberSpec, process: Process): Effect.Effect<MemberProcess> =>
  Effect.gen(function*() {
    const again = yield* Effect.makeLatch(false)
    return {
      spec,
      process,
      incarnations: new Set<string>(),
      service: undefined,
      state: "Starting",
      refreshes: 0,
      mood: {
        handleMillis: spec.consumer.handleMillis,
        failures: spec.consumer.failures,
        stuckUntil: 0,
        again
      },
      leave: yield* Deferred.make<void>(),
      restart: Effect.asVoid(again.release)
    }
  })

/**
 * Starts the process. It ends when it is told to leave, or when another process has taken its id; a start that fails is
 * tried again, as whoever supervises processes does it.
 *
 * @internal
 */
export const start = (
  context: MemberContext,
  member: MemberProcess,
  services: { readonly kinesis: KinesisClient["Type"]; readonly store: StateStore["Type"] }
): Effect.Effect<Fiber.RuntimeFiber<void>> => {
  const { scenario } = context
  const layer = Kinesumer.layer({
    app: "app",
    mode: scenario.mode,
    fanOut: { watchdog: "10 seconds" },
    streams: member.spec.streams.map((stream) => ({ stream, startFrom: scenario.startFrom })),
    memberId: member.spec.member,
    syncInterval: scenario.syncInterval,
    livenessTimeout: scenario.livenessTimeout,
    closeTimeout: scenario.closeTimeout,
    bufferSize: scenario.bufferSize,
    commit: { mode: member.spec.consumer.commit, interval: scenario.commitInterval },
    polling: { limit: scenario.limit, idleInterval: scenario.idleInterval, timeout: "4 seconds" }
  }).pipe(
    Layer.provide(Layer.succeed(KinesisClient, services.kinesis)),
    Layer.provide(Layer.succeed(StateStore, services.store))
  )
  const life: Effect.Effect<void> = Effect.gen(function*() {
    member.state = "Starting"
    const scope = yield* Scope.make()
    const built = yield* Effect.exit(Effect.raceFirst(
      Layer.buildWithScope(layer, scope),
      Effect.zipRight(Deferred.await(member.leave), Effect.interrupt)
    ))
    if (Exit.isFailure(built)) {
      yield* Scope.close(scope, built)
      if (yield* Deferred.isDone(member.leave)) return
      context.journal.note(() => `${member.spec.member} fails to start: ${Cause.pretty(built.cause)}`)
      yield* Effect.sleep(restartPause)
      return yield* life
    }
    const service = yield* Effect.provide(Kinesumer.Kinesumer, built.value)
    context.journal.note(() => `${member.spec.member} is up`)
    member.service = service
    member.state = "Running"
    yield* Effect.forkIn(
      Stream.runForEach(service.events, (event) => Effect.sync(() => context.event(member, event))),
      scope
    )
    const consuming = yield* Effect.fork(consume(context, member, service))
    const outcome = yield* Effect.raceFirst(
      Effect.as(Deferred.await(member.leave), undefined),
      Fiber.join(consuming).pipe(Effect.flip)
    )
    member.service = undefined
    member.state = "Leaving"
    const since = context.elapsed()
    const stalled = member.process.stalled()
    if (member.spec.consumer.leaves === "interrupted") yield* Fiber.interrupt(consuming)
    yield* Scope.close(scope, Exit.void)
    const took = context.elapsed() - since - (member.process.stalled() - stalled)
    if (took > context.scenario.closeTimeout) {
      context.journal.violation("P8", `${member.spec.member} took ${took} ms to close`)
    }
    yield* Fiber.interrupt(consuming)
    if (outcome === undefined || outcome._tag === "MemberReplaced") return
    context.journal.note(() => `${member.spec.member} ends with ${outcome.message} and starts again`)
    yield* Effect.sleep(restartPause)
    return yield* life
  })
  return Effect.zipRight(
    life,
    Effect.sync(() => {
      member.state = "Gone"
      context.journal.note(() => `${member.spec.member} is gone`)
    })
  ).pipe(member.process.within, Effect.forkDaemon)
}

/** Runs the stream again and again, until it ends with what is no handler's fault. */
const consume = (
  context: MemberContext,
  member: MemberProcess,
  service: Kinesumer.Kinesumer["Type"]
): Effect.Effect<never, ConsumeError> =>
  Effect.suspend(() => {
    const { again } = member.mood
    return Effect.raceFirst(runOnce(context, member, service), again.await)
  }).pipe(
    // Effect 3.22 can hang where a fiber is interrupted that gave way as it began a race, which the operators of `Stream`
    // do. A consumer gives way only where it waits, so that this is not taken for a fault of the library.
    Effect.withMaxOpsBeforeYield(Number.MAX_SAFE_INTEGER),
    Effect.catchTag("HandlerFailed", () => Effect.sleep(100)),
    // A stream that is over waits for the process to leave.
    Effect.zipRight(Effect.suspend(() => member.service === undefined ? Effect.sleep("1 hour") : Effect.sleep(10))),
    Effect.forever
  )

const runOnce = (
  context: MemberContext,
  member: MemberProcess,
  service: Kinesumer.Kinesumer["Type"]
): Effect.Effect<void, ConsumeError | HandlerFailed> => {
  const { commit, view } = member.spec.consumer
  const handled = handling(context, member, service, commit === "manual")
  if (view === "records") return Stream.runDrain(handled(tapped(context, member, service.records)))
  return Stream.runDrain(Stream.flatMap(
    service.shards,
    (shard) => handled(tapped(context, member, shard.records)),
    { concurrency: "unbounded" }
  ))
}

/** Tells the oracle of each chunk, at the moment at which it comes out of the library. */
const tapped = <E>(
  { deliveries, nextRun }: MemberContext,
  { incarnations, spec }: MemberProcess,
  records: Stream.Stream<KinesumerRecord, E>
): Stream.Stream<KinesumerRecord, E> =>
  Stream.suspend(() => {
    const run: StreamRun = { memberId: spec.member, incarnations, number: nextRun(), last: new Map() }
    return Stream.mapChunks(records, (chunk) => {
      deliveries.delivered(run, chunk)
      return chunk
    })
  })

/** So many handlers run at once where each record is marked by itself. */
const manualConcurrency = 3

const handling = (
  context: MemberContext,
  member: MemberProcess,
  service: Kinesumer.Kinesumer["Type"],
  isManual: boolean
) =>
<E>(records: Stream.Stream<KinesumerRecord, E>): Stream.Stream<void, E | HandlerFailed> =>
  isManual
    ? Stream.mapEffect(
      records,
      (record) => Effect.zipRight(handle(context, member, record), Effect.ignore(service.mark(record))),
      { concurrency: manualConcurrency, unordered: true }
    )
    : Stream.mapEffect(records, (record) => handle(context, member, record))

const handle = (
  { chance, deliveries, elapsed }: MemberContext,
  { mood }: MemberProcess,
  record: KinesumerRecord
): Effect.Effect<void, HandlerFailed> =>
  Effect.suspend(() => {
    const isSlow = mood.handleMillis > 0 && chance.happens(0.3)
    const millis = Math.max(isSlow ? chance.between(1, mood.handleMillis) : 0, mood.stuckUntil - elapsed())
    const done = Effect.suspend(() => {
      if (mood.failures > 0 && chance.happens(mood.failures)) return Effect.fail(new HandlerFailed())
      deliveries.processed(record)
      return Effect.void
    })
    return millis > 0 ? Effect.zipRight(Effect.sleep(millis), done) : done
  })
