/**
 * Hands slices to user code. Everything that decides whether a record is delivered is here: the run must still be
 * running, its stream not paused, and the member in good standing; then the slice is taken, which moves the cursor.
 *
 * A run of `records` or `shards` that ends gives back what it did not mark: the cursor returns to the first unprocessed
 * record, and the next run begins there.
 */
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import { identity } from "effect/Function"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { AlreadyRunning, type ConsumeError, LeaseLost } from "../KinesumerError.js"
import * as Metrics from "../KinesumerMetrics.js"
import type { KinesumerRecord } from "../KinesumerRecord.js"
import { type Budget, releaseSlices, type Room } from "./budget.js"
import { DeliveredRecord, type Handed, HandedSymbol, IndexSymbol } from "./deliveredRecord.js"
import type { Environment } from "./environment.js"
import * as Lane from "./lane.js"
import type { Membership } from "./membership.js"
import * as Monotonic from "./monotonic.js"
import { intervalOf } from "./page.js"
import * as Run from "./run.js"
import * as Signal from "./signal.js"

/** The records of one shard, from `shards`. */
export interface ShardStream {
  readonly stream: string
  readonly shardId: string
  readonly epoch: number
  readonly records: Stream.Stream<KinesumerRecord, ConsumeError>
}

/** A run that marks for itself. */
export interface Taking {
  /** Waits for a slice of a shard that has room for some of it, and takes as much as that. */
  readonly pull: (places: Places) => Pull<Handed>
  /** There may be room where there was none. */
  readonly again: Effect.Effect<void>
}

export interface Places {
  /** How many records may be taken at all. */
  readonly free: () => number
  /** How many of a run, given the number of runs. */
  readonly roomOf: (run: Run.Run, runs: number) => number
}

export interface Delivery {
  readonly records: Stream.Stream<KinesumerRecord, ConsumeError>
  readonly shards: Stream.Stream<ShardStream, ConsumeError>
  readonly taking: Effect.Effect<Taking, AlreadyRunning, Scope.Scope>
  /** Waits for good standing. `false` when a record of this run must not be handed to user code any more. */
  readonly mayHandle: (run: Run.Run) => Effect.Effect<boolean>
  /** Whether this member can be sure of its leases. */
  readonly inStanding: Effect.Effect<boolean>
  readonly mark: (records: Iterable<KinesumerRecord>) => Effect.Effect<void, LeaseLost>
  readonly setPaused: (streamKey: string, paused: boolean) => Effect.Effect<void>
  readonly paused: Effect.Effect<ReadonlySet<string>>
  /** A run has slices waiting, or has been read to its end. */
  readonly arrived: (run: Run.Run) => Effect.Effect<void>
  readonly demand: (run: Run.Run) => Effect.Effect<Room>
  /** There are new runs. */
  readonly started: Effect.Effect<void>
  /** A run is not `Running` any more: what waits of it is dropped. */
  readonly stopped: (run: Run.Run) => Effect.Effect<void>
  /** Ends every run of `records` and `shards`, now and later: with an error, or as a stream that is over. */
  readonly finish: (error: Option.Option<ConsumeError>) => Effect.Effect<void>
  /** What ended them. */
  readonly failure: Effect.Effect<Option.Option<ConsumeError>>
  /** How long ago the stream last asked for more, in milliseconds. */
  readonly sincePull: Effect.Effect<number>
}

type View =
  | { readonly _tag: "Idle" }
  | { readonly _tag: "Records"; readonly name: "records" | "process" }
  | {
    readonly _tag: "Shards"
    /** Tells this run of `shards` from later ones. */
    readonly id: symbol
    /** The runs that were handed out, of those that go on. */
    readonly offered: ReadonlySet<Run.Run>
    readonly consumed: ReadonlySet<Run.Run>
  }

/** A pull, as `Stream` has it: `none` is the end. */
export type Pull<A> = Effect.Effect<A, Option.Option<ConsumeError>>

const noRoom: Room = { records: 0, bytes: 0 }
const allRoom: Room = { records: Infinity, bytes: Infinity }
const wholeSlices: Places = { free: () => Infinity, roomOf: () => Infinity }

/** The run under which a record was delivered; `undefined` where it was not. */
export const runOf = (record: KinesumerRecord): Run.Run | undefined =>
  record instanceof DeliveredRecord ? record[HandedSymbol]?.run : undefined

export const make = (options: {
  readonly env: Environment
  readonly budget: Budget
  readonly membership: Membership
  readonly runs: Effect.Effect<ReadonlyMap<string, Run.Run>>
  /** Runs that are being handed over. */
  readonly leaving: Effect.Effect<ReadonlyMap<string, Run.Run>>
  /** Some run is processed to its end: there is something to commit at once. */
  readonly finished: Effect.Effect<void>
}): Effect.Effect<Delivery> =>
  Effect.gen(function*() {
    const { budget, env, membership } = options
    const isAuto = env.config.commit.mode === "auto"
    const view = yield* Ref.make<View>({ _tag: "Idle" })
    const paused = yield* Ref.make<ReadonlySet<string>>(new Set())
    const outcome = yield* Ref.make(Option.none<Option.Option<ConsumeError>>())
    const pulledAt = yield* Ref.make(yield* Monotonic.now)
    const wake = yield* Signal.make
    /** There may be runs that `shards` has not handed out. */
    const news = yield* Signal.make
    // Runs with something to hand out, each at most once and in the order of arrival, so that each has its turn. It is
    // only touched between two steps of a fiber.
    const ready = new Set<Run.Run>()

    const allRuns = Effect.map(options.runs, (runs) => [...runs.values()])

    // --- Taking -----------------------------------------------------------------------------------------------------

    const takeFrom = (run: Run.Run, most: number): Effect.Effect<Option.Option<Handed>> =>
      Effect.gen(function*() {
        if ((yield* Ref.get(run.status)) !== "Running") return Option.none()
        if ((yield* Ref.get(paused)).has(run.stream.key)) return Option.none()
        const slice = yield* Ref.modify(run.lane, (lane) => Lane.pull(lane, most))
        if (Option.isNone(slice)) return Option.none()
        yield* releaseSlices(budget, [slice.value])
        yield* run.room.open
        yield* env.count(Metrics.records, slice.value.size, { stream: run.stream.label })
        yield* env.count(Metrics.bytes, slice.value.bytes, { stream: run.stream.label })
        return Option.some(slice.value.open())
      })

    const takeNext = (places: Places): Effect.Effect<Handed | undefined> =>
      Effect.gen(function*() {
        if (places.free() <= 0) return undefined
        const { size } = yield* options.runs
        for (const run of ready) {
          const most = places.roomOf(run, size)
          if (most <= 0) continue
          ready.delete(run)
          const handed = yield* takeFrom(run, most)
          if (Option.isNone(handed)) continue
          if ((yield* Ref.get(run.lane)).waiting.length > 0) ready.add(run)
          return handed.value
        }
        return undefined
      })

    /** Waits until `look` finds something, and the member may hand it out. What is found is taken without a gap. */
    const pull = <A>(signal: Signal.Signal, look: Pull<A | undefined>): Pull<A> => {
      const attempt: Pull<A | undefined> = Effect.gen(function*() {
        const over = yield* Ref.get(outcome)
        if (Option.isSome(over)) return yield* Effect.fail(over.value)
        if (yield* membership.mayDeliver) return yield* Effect.uninterruptible(look)
        yield* membership.awaitDelivery
        return yield* attempt
      })
      return Effect.zipRight(
        Effect.flatMap(Monotonic.now, (now) => Ref.set(pulledAt, now)),
        Signal.awaitUntil(signal, attempt)
      )
    }

    // --- Marking ----------------------------------------------------------------------------------------------------

    const markInterval = (run: Run.Run, interval: Lane.Interval): Effect.Effect<void> =>
      Effect.gen(function*() {
        const lane = yield* Ref.updateAndGet(run.lane, (current) => Lane.mark(current, interval))
        if (Lane.isSettled(lane)) yield* run.settled.open
        if (Lane.isFinished(lane)) yield* options.finished
      })

    const mark = (records: Iterable<KinesumerRecord>): Effect.Effect<void, LeaseLost> =>
      Effect.gen(function*() {
        let lost: LeaseLost | undefined
        for (const record of records) {
          const handed = record instanceof DeliveredRecord ? record[HandedSymbol] : undefined
          if (!(record instanceof DeliveredRecord) || handed === undefined) {
            return yield* Effect.dieMessage("mark was given a record that this group has not delivered")
          }
          const { run } = handed
          if (Lane.isEnded(yield* Ref.get(run.lane))) continue
          if ((yield* Ref.get(run.status)) === "Over") {
            lost ??= new LeaseLost({ ...Run.nameOf(run), epoch: run.epoch })
          } else {
            yield* markInterval(run, intervalOf(handed, record[IndexSymbol]))
          }
        }
        if (lost !== undefined) return yield* lost
      })

    // --- Giving back ------------------------------------------------------------------------------------------------

    /** Changes a lane, and gives the room of what does not wait any more back. A hand-over may have waited for this. */
    const reset = (run: Run.Run, change: (lane: Lane.Lane) => Lane.Lane): Effect.Effect<void> =>
      Ref.modify(run.lane, (lane) => {
        const next = change(lane)
        return [next.waiting === lane.waiting ? [] : lane.waiting, next]
      }).pipe(
        Effect.flatMap((dropped) => releaseSlices(budget, dropped)),
        Effect.zipRight(Effect.zipRight(run.room.open, run.settled.open)),
        Effect.uninterruptible
      )

    const resetAll = (change: (lane: Lane.Lane) => Lane.Lane): Effect.Effect<void> =>
      Effect.flatMap(allRuns, Effect.forEach((run) => reset(run, change), { discard: true }))

    /** Nobody comes back for what is in hand of these. */
    const settleLeaving = Effect.flatMap(options.leaving, (runs) =>
      Effect.forEach(runs.values(), (run) => reset(run, Lane.rewind), { discard: true }))

    /** Consumers of single shards wait for nobody but themselves, so each has its own share of the room. */
    const equalShare = Effect.map(options.runs, ({ size }): Room => ({
      records: Math.max(1, Math.floor(env.config.bufferSize / size)),
      bytes: Math.max(1, Math.floor(env.config.bufferBytes / size))
    }))

    const share = (run: Run.Run): Effect.Effect<Room> =>
      Effect.flatMap(Ref.get(view), (current) => {
        if (current._tag !== "Shards") {
          return Effect.succeed(allRoom)
        }
        return current.consumed.has(run) ? equalShare : Effect.succeed(noRoom)
      })

    /** Takes room from the shards that hold more than their share. */
    const shareOut = (orElse: (lane: Lane.Lane) => Lane.Lane): Effect.Effect<void> =>
      Effect.flatMap(equalShare, (most) =>
        resetAll((lane) =>
          lane.waitingRecords > most.records || lane.waitingBytes > most.bytes ? Lane.drop(lane) : orElse(lane)
        ))

    // --- Runs of the streams ----------------------------------------------------------------------------------------

    const begin = (
      next: View & { readonly _tag: "Records" | "Shards" }
    ): Effect.Effect<void, AlreadyRunning, Scope.Scope> =>
      Effect.acquireRelease(
        Effect.flatMap(
          Ref.modify(view, (current) =>
            current._tag === "Idle"
              ? [undefined, next]
              : [current._tag === "Records" ? current.name : "shards" as const, current]),
          (running) =>
            running === undefined
              ? Effect.void
              : new AlreadyRunning({ view: running })
        ),
        () =>
          Effect.gen(function*() {
            yield* resetAll(Lane.rewind)
            yield* settleLeaving
            yield* Ref.set(view, { _tag: "Idle" })
            for (const run of yield* allRuns) {
              if ((yield* Ref.get(run.lane)).waiting.length > 0) {
                ready.add(run)
              }
              yield* Effect.zipRight(run.room.open, run.arrival.open)
            }
          })
      )

    /**
     * A slice is marked when the same run of the stream comes back for more: a pull is the sign that what the pull
     * before it brought was processed.
     */
    const handing = (look: Pull<Handed>): Effect.Effect<Pull<Chunk.Chunk<KinesumerRecord>>> =>
      Effect.map(Ref.make(Option.none<Handed>()), (inHand) =>
        Effect.gen(function*() {
          const previous = yield* Ref.getAndSet(inHand, Option.none())
          if (isAuto && Option.isSome(previous)) {
            // Not the slice itself: whatever outlives the mark would keep its records until the old objects are looked through.
            const { from, run, to } = previous.value
            yield* markInterval(run, { from, to })
          }
          const handed = yield* look
          yield* Ref.set(inHand, Option.some(handed))
          return Chunk.unsafeFromArray(handed.records)
        }))

    const records = Stream.unwrapScoped(Effect.gen(function*() {
      yield* begin({ _tag: "Records", name: "records" })
      return Stream.repeatEffectChunkOption(yield* handing(pull(wake, takeNext(wholeSlices))))
    }))

    const mayHandle = (run: Run.Run): Effect.Effect<boolean> =>
      Effect.gen(function*() {
        if (Option.isSome(yield* Ref.get(outcome)) || (yield* Ref.get(run.status)) === "Over") {
          return false
        }
        if (yield* membership.mayDeliver) {
          return true
        }
        yield* membership.awaitDelivery
        return yield* mayHandle(run)
      })

    const isCurrent = (id: symbol) =>
      Effect.map(Ref.get(view), (current) =>
        current._tag === "Shards" && current.id === id)

    const consume = (
      id: symbol,
      run: Run.Run,
      wentThrough: Ref.Ref<boolean>
    ): Effect.Effect<void, AlreadyRunning, Scope.Scope> =>
      Effect.acquireRelease(
        Effect.flatMap(
          Ref.modify(view, (current) => {
            if (current._tag !== "Shards" || current.id !== id) {
              return [true, current]
            }
            return current.consumed.has(run)
              ? [false, current]
              : [true, { ...current, consumed: new Set(current.consumed).add(run) }]
          }),
          (consuming) =>
            consuming ? run.room.open : new AlreadyRunning({ view: "shards" })
        ),
        () =>
          Effect.gen(function*() {
            const consumed = yield* Ref.modify(view, (current) =>
              current._tag === "Shards" && current.id === id
                ? [true, {
                  ...current,
                  consumed: new Set([...current.consumed].filter((other) =>
                    other !== run
                  ))
                }]
                : [false, current])
            // Nobody reads this shard now, so it must not hold room that the others need. Where all of it was handed out
            // what is not marked yet may still be.
            if (consumed && !(yield* Ref.get(wentThrough))) {
              yield* reset(run, (lane) => Lane.drop(Lane.rewind(lane)))
            }
          })
      )

    const shardRecords = (id: symbol, run: Run.Run): Stream.Stream<KinesumerRecord, ConsumeError> =>
      Stream.unwrapScoped(Effect.gen(function*() {
        const wentThrough = yield* Ref.make(false)
        yield* consume(id, run, wentThrough)
        const look: Pull<Handed | undefined> = Effect.gen(function*() {
          // What it has not handed out went back when its run of `shards` ended.
          if (!(yield* isCurrent(id))) return yield* Effect.fail(Option.none())
          const handed = yield* takeFrom(run, Infinity)
          if (Option.isSome(handed)) return handed.value
          const { ending, waiting } = yield* Ref.get(run.lane)
          const isOver = (yield* Ref.get(run.status)) !== "Running" || (ending === "Read" && waiting.length === 0)
          return isOver ? yield* Effect.zipRight(Ref.set(wentThrough, true), Effect.fail(Option.none())) : undefined
        })
        return Stream.repeatEffectChunkOption(yield* handing(pull(run.arrival, look)))
      }))

    const shards = Stream.unwrapScoped(Effect.gen(function*() {
      const id = Symbol("shards")
      yield* begin({ _tag: "Shards", id, offered: new Set(), consumed: new Set() })
      // A page that was asked for before has no share to keep to.
      yield* shareOut(Lane.refuse)
      const fresh: Effect.Effect<Chunk.Chunk<Run.Run> | undefined> = Effect.flatMap(allRuns, (runs) =>
        Ref.modify(view, (current) => {
          if (current._tag !== "Shards") {
            return [undefined, current]
          }
          const others = runs.filter((run) =>
            !current.offered.has(run)
          )
          return others.length === 0
            ? [undefined, current]
            : [Chunk.unsafeFromArray(others), { ...current, offered: new Set(runs) }]
        }))
      return Stream.map(Stream.repeatEffectChunkOption(pull(news, fresh)), (run): ShardStream => ({
        ...Run.nameOf(run),
        epoch: run.epoch,
        records: shardRecords(id, run)
      }))
    }))

    return {
      records,
      shards,
      taking: Effect.as(begin({ _tag: "Records", name: "process" }), {
        pull: (places) =>
          pull(wake, takeNext(places)),
        again: Effect.asVoid(wake.open)
      }),
      mayHandle,
      inStanding: membership.mayDeliver,
      mark,
      paused: Ref.get(paused),
      setPaused: (streamKey, isPaused) =>
        Effect.gen(function*() {
          yield* Ref.update(paused, (keys) => {
            const others = [...keys].filter((key) => key !== streamKey)
            return new Set(isPaused ? [...others, streamKey] : others)
          })
          for (const run of yield* allRuns) {
            if (run.stream.key !== streamKey) continue
            // What waits would keep the room of streams that go on.
            if (isPaused) yield* reset(run, Lane.drop)
            if ((yield* Ref.get(run.lane)).waiting.length > 0) ready.add(run)
            yield* Effect.zipRight(run.room.open, run.arrival.open)
          }
          yield* wake.open
        }),
      arrived: (run) =>
        Effect.suspend(() => {
          ready.add(run)
          return Effect.zipRight(wake.open, run.arrival.open)
        }),
      demand: (run) =>
        Effect.flatMap(Ref.get(paused), (keys) => keys.has(run.stream.key) ? Effect.succeed(noRoom) : share(run)),
      started: Effect.gen(function*() {
        if ((yield* Ref.get(view))._tag === "Shards") yield* shareOut(identity)
        yield* Effect.zipRight(wake.open, news.open)
      }),
      stopped: (run) =>
        Effect.gen(function*() {
          ready.delete(run)
          yield* reset(run, Lane.stop)
          yield* run.arrival.open
        }),
      finish: (error) =>
        Effect.gen(function*() {
          yield* Ref.update(outcome, Option.orElseSome(() => error))
          yield* membership.stopWaiting
          yield* Effect.zipRight(wake.open, news.open)
          for (const run of yield* allRuns) yield* run.arrival.open
        }),
      failure: Effect.map(Ref.get(outcome), Option.flatten),
      sincePull: Effect.zipWith(Monotonic.now, Ref.get(pulledAt), (now, at) => now - at)
    }
  })
