/**
 * Runs a handler over what the member delivers: takes records as there is room, gives them to workers in an order that
 * the scheduler decides, and marks each when it is finished.
 *
 * ```
 *             ┌───────────────── its time has come ──────────────── Waiting
 *             v                                                        ^
 *   Queued ──> Handling ── failed, and may be tried again ─────────────┘
 *                 ├─ done ────────────────────> Finished: marked
 *                 └─ failed for the last time ─> Given up ── dead-lettered ──> Finished: marked
 *                                                   └─ stop, or that failed ──> the whole fails
 * ```
 *
 * When the run of a shard is over, everything of it leaves unmarked from whichever state it is in, and what runs of it is
 * interrupted.
 */
import * as Array_ from "effect/Array"
import * as Cause from "effect/Cause"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as FiberSet from "effect/FiberSet"
import * as MutableList from "effect/MutableList"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import * as Schedule from "effect/Schedule"
import { type ConsumeError, LeaseLost } from "../KinesumerError.js"
import * as KinesumerEvent from "../KinesumerEvent.js"
import * as Metrics from "../KinesumerMetrics.js"
import type { KinesumerRecord } from "../KinesumerRecord.js"
import * as Processing from "../Processing.js"
import type { Handed } from "./deliveredRecord.js"
import type { Delivery } from "./delivery.js"
import type { Environment } from "./environment.js"
import { onFreshTurn } from "./freshTurn.js"
import * as HostTurn from "./hostTurn.js"
import * as Scheduler from "./scheduler.js"
import * as Signal from "./signal.js"

export interface Work<In, E, R, RR, DE, DR> {
  readonly handle: (records: Array_.NonEmptyReadonlyArray<KinesumerRecord>) => Effect.Effect<unknown, In, R>
  /** What a failure is for each of the records: `none` for one that was handled all the same. */
  readonly judge: (
    error: Processing.HandlerError<In>,
    records: ReadonlyArray<KinesumerRecord>
  ) => (record: KinesumerRecord) => Option.Option<Processing.HandlerError<E>>
  readonly retry: Schedule.Schedule<unknown, Processing.HandlerError<In>, RR> | undefined
  readonly onFailure: "stop" | ((failed: Processing.FailedRecord<E>) => Effect.Effect<unknown, DE, DR>)
}

export interface Settings {
  readonly ordering: Processing.Ordering
  readonly concurrency: number
  readonly maxInFlight: number
  readonly timeout: Option.Option<Duration.Duration>
  readonly size: number
  readonly maxWait: Duration.Duration
}

/** Room for so many records is offered even while all workers have something to do. */
const maxFreed = 64

/** What those of a batch share that have failed equally often. */
interface Tries<In, RR> {
  attempts: number
  driver: Schedule.ScheduleDriver<unknown, Processing.HandlerError<In>, RR> | undefined
  isOver: boolean
}

interface Failure<In, E, RR> {
  readonly entry: Scheduler.Entry
  readonly error: Processing.HandlerError<E>
  readonly tries: Tries<In, RR>
}

/** A batch on its way. Its entries are those that are not finished. */
interface Job<In, E, RR> {
  readonly line: Scheduler.Line
  entries: ReadonlyArray<Scheduler.Entry>
  attempts: number
  failed: { readonly cause: Cause.Cause<unknown>; readonly failures: ReadonlyArray<Failure<In, E, RR>> } | undefined
  givenUp: boolean
  /** What is interrupted when the shard is lost. */
  fiber: Fiber.RuntimeFiber<unknown, unknown> | undefined
}

/** A job of which nothing has been tried. */
const untried = { attempts: 0, failed: undefined, givenUp: false, fiber: undefined }

export const run = <In, E, R, RR, DE, DR>(
  env: Environment,
  delivery: Delivery,
  settings: Settings,
  work: Work<In, E, R, RR, DE, DR>
): Effect.Effect<void, ConsumeError | Processing.RecordFailed<E> | Processing.DeadLetterFailed<DE>, R | RR | DR> => {
  type OneJob = Job<In, E, RR>
  type Failed = Processing.RecordFailed<E> | Processing.DeadLetterFailed<DE>
  type Env = R | RR | DR

  return Effect.scoped(Effect.gen(function*() {
    const taking = yield* delivery.taking
    const fibers = yield* FiberSet.make<unknown, Failed>()
    const settled = yield* Signal.make
    const hostTurn = yield* HostTurn.make
    const scheduler = Scheduler.make(settings)
    const jobs = new Set<OneJob>()
    /** Those whose time has come again. */
    let again = MutableList.empty<OneJob>()
    let working = 0
    let isStopping = false
    /** Places that have come free since they were last offered. Taking records one by one would cost more than they do. */
    let freed = 0
    const enough = Math.min(maxFreed, Math.ceil(settings.maxInFlight / 4))
    const takeMore = Effect.suspend(() => {
      freed = 0
      return Effect.zipRight(taking.again, scheduler.inFlight() === 0 ? settled.open : Effect.void)
    })
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        isStopping = true
      })
    )

    const start = yield* FiberSet.runtime(fibers)<Env>()
    /**
     * Workers decide themselves where they can be interrupted, so that no place is lost. None is a child of who starts it:
     * what a fiber has of its ancestors grows with each generation, and a retry is a new one.
     */
    const fork = (effect: Effect.Effect<void, Failed, Env>): Effect.Effect<void> =>
      Effect.sync(() => {
        start(Effect.uninterruptible(effect), { immediate: false })
      })

    // --- Leaving ----------------------------------------------------------------------------------------------------

    const finish = (job: OneJob, entries: ReadonlyArray<Scheduler.Entry>): Effect.Effect<void> =>
      Effect.suspend(() => {
        // Its shard was lost while it was marked, and it has left.
        if (!jobs.has(job)) return Effect.void
        scheduler.finish(job.line, entries)
        job.entries = entries === job.entries ? [] : without(job.entries, entries)
        if (job.entries.length === 0) jobs.delete(job)
        freed += entries.length
        return freed >= enough ? takeMore : scheduler.inFlight() === 0 ? settled.open : Effect.void
      })

    /** They are delivered again, by whoever has the shard next. */
    const leave = (job: OneJob): Effect.Effect<void> => Effect.suspend(() => finish(job, job.entries))

    const complete = (job: OneJob, entries: ReadonlyArray<Scheduler.Entry>): Effect.Effect<void> =>
      delivery.mark(entries.map(({ record }) => record)).pipe(
        // Then everything of the shard leaves anyway.
        Effect.ignore,
        Effect.zipRight(finish(job, entries))
      )

    const isOver = (job: OneJob): boolean => job.line.over || isStopping

    const close = (line: Scheduler.Line): Effect.Effect<void> =>
      Effect.suspend(() => {
        scheduler.close(line)
        const own = [...jobs].filter((job) => job.line === line)
        const rest = MutableList.empty<OneJob>()
        for (const job of again) if (job.line !== line) MutableList.append(rest, job)
        again = rest
        return Effect.forEach(
          own,
          (job) => job.fiber === undefined ? leave(job) : Fiber.interruptFork(job.fiber),
          { discard: true }
        ).pipe(Effect.zipRight(takeMore))
      })

    // --- Workers ----------------------------------------------------------------------------------------------------

    let isFreshTurn = false
    /** Those that come again have every second turn at most, so that fresh keys wait behind none that fails for ever. */
    const nextJob = (): OneJob | undefined => {
      isFreshTurn = !isFreshTurn
      return isFreshTurn ? freshJob() ?? MutableList.shift(again) : MutableList.shift(again) ?? freshJob()
    }

    const freshJob = (): OneJob | undefined => {
      const batch = scheduler.take()
      if (batch === undefined) return undefined
      const job: OneJob = { ...batch, ...untried }
      jobs.add(job)
      return job
    }

    /** Starts as many workers as there is work for, and a clock for each line that waits for its batch to fill. */
    const dispatch: Effect.Effect<void, never, Env> = Effect.suspend(() => {
      const line = scheduler.toTime()
      if (line !== undefined) return Effect.zipRight(fork(time(line)), dispatch)
      if (working >= settings.concurrency || isStopping) return Effect.void
      const job = nextJob()
      if (job === undefined) return Effect.void
      working++
      return Effect.zipRight(fork(worker(job)), dispatch)
    })

    const time = (line: Scheduler.Line): Effect.Effect<void, never, Env> =>
      Effect.interruptible(Effect.sleep(settings.maxWait)).pipe(
        Effect.zipRight(Effect.sync(() => {
          scheduler.timeIsUp(line)
        })),
        Effect.zipRight(dispatch)
      )

    const worker = (job: OneJob): Effect.Effect<void, Failed, Env> =>
      Effect.flatMap(perform(job), () => {
        // It may have been interrupted because of this job, so it must not begin another one.
        const next = isOver(job) ? undefined : nextJob()
        if (next !== undefined) return Effect.zipRight(dispatch, worker(next))
        working--
        return Effect.zipRight(freed > 0 ? takeMore : Effect.void, dispatch)
      })

    const perform = (job: OneJob): Effect.Effect<void, Failed, Env> =>
      Effect.zipRight(
        hostTurn,
        Effect.withFiberRuntime<void, Failed, Env>((fiber) => {
          if (!jobs.has(job)) return Effect.void
          job.fiber = fiber
          return job.givenUp ? giveUp(job) : attempt(job)
        })
      )

    /** Runs what belongs to the user, as long as the shard is ours: `none` if it was not, and nothing was run. */
    const handling = <A, E2, R2>(
      job: OneJob,
      effect: Effect.Effect<A, E2, R2>
    ): Effect.Effect<Exit.Exit<Option.Option<A>, E2>, never, R2> =>
      delivery.mayHandle(job.line.run).pipe(
        Effect.flatMap((may) => may ? Effect.asSome(effect) : Effect.succeedNone),
        Effect.interruptible,
        Effect.exit
      )

    const attempt = (job: OneJob): Effect.Effect<void, never, Env> =>
      Effect.flatMap(handling(job, timed(settings, job.entries, work.handle)), (exit) => {
        job.fiber = undefined
        if (Exit.isSuccess(exit)) return Option.isSome(exit.value) ? complete(job, job.entries) : leave(job)
        return isOver(job) ? leave(job) : failed(job, exit.cause)
      })

    // --- Failing ----------------------------------------------------------------------------------------------------

    /** A failure that is none, since the lease is gone or in doubt: the job has left, or waits for its turn. */
    const isExcused = (job: OneJob, error: unknown): Effect.Effect<boolean> =>
      Effect.gen(function*() {
        if (isOver(job) || (yield* Ref.get(job.line.run.status)) === "Over") return yield* Effect.as(leave(job), true)
        if (!(error instanceof LeaseLost) || (yield* delivery.inStanding)) return false
        job.fiber = undefined
        MutableList.append(again, job)
        return true
      })

    const failed = (
      job: OneJob,
      cause: Cause.Cause<In | Processing.HandlerTimeout>
    ): Effect.Effect<void, never, Env> =>
      Effect.gen(function*() {
        const error = errorOf(cause)
        if (yield* isExcused(job, error)) return
        job.attempts++
        yield* toldFailure(job, error)
        const judged = work.judge(error, job.entries.map(({ record }) => record))
        const before = new Map(job.failed?.failures.map(({ entry, tries }) => [entry, tries]))
        const first: Tries<In, RR> = { attempts: 0, driver: undefined, isOver: work.retry === undefined }
        const failures = Array_.filterMap(job.entries, (entry) =>
          Option.map(
            judged(entry.record),
            (error): Failure<In, E, RR> => ({ entry, error, tries: before.get(entry) ?? first })
          ))
        const all = new Set(failures.map(({ tries }) => tries))
        for (const tries of all) {
          tries.attempts++
          if (work.retry !== undefined) tries.driver ??= yield* Schedule.driver(work.retry)
        }
        job.failed = { cause, failures }
        yield* complete(job, ahead(settings.ordering, job.entries, failures))
        if (work.retry === undefined) {
          job.givenUp = true
          MutableList.append(again, job)
          return
        }
        yield* fork(wait(job, all, error))
      })

    const wait = (
      job: OneJob,
      all: ReadonlySet<Tries<In, RR>>,
      error: Processing.HandlerError<In>
    ): Effect.Effect<void, Failed, Env> =>
      Effect.withFiberRuntime((fiber) => {
        if (!jobs.has(job)) return Effect.void
        job.fiber = fiber
        return Effect.forEach(all, (tries) => next(tries, error), { concurrency: "unbounded", discard: true }).pipe(
          onFreshTurn,
          Effect.interruptible,
          Effect.exit,
          Effect.flatMap((exit) => {
            job.fiber = undefined
            if (isOver(job)) return leave(job)
            if (Exit.isFailure(exit)) return exit
            job.givenUp = [...all].some(({ isOver }) => isOver)
            MutableList.append(again, job)
            return dispatch
          })
        )
      })

    /** Waits until it may be tried again. */
    const next = (tries: Tries<In, RR>, error: Processing.HandlerError<In>): Effect.Effect<void, never, RR> =>
      tries.driver === undefined || tries.isOver
        ? Effect.void
        : Effect.map(Effect.isSuccess(tries.driver.next(error)), (may) => {
          tries.isOver = !may
        })

    const giveUp = (job: OneJob): Effect.Effect<void, Failed, Env> =>
      Effect.gen(function*() {
        const { cause, failures } = job.failed ?? { cause: Cause.empty, failures: [] }
        const inHand = new Set(job.entries)
        const [others, lost] = split(settings.ordering, failures.filter(({ entry }) => inHand.has(entry)))
        for (const { entry, error, tries: { attempts } } of lost) {
          const { record } = entry
          const name = nameOf(record)
          if (work.onFailure === "stop") {
            return yield* new Processing.RecordFailed<E>({ ...name, attempts, error })
          }
          const put = work.onFailure
          const letter = { record, error, cause, attempts }
          const exit = yield* handling(job, Effect.suspend(() => put(letter)))
          if (Exit.isFailure(exit)) {
            const error = errorOf(exit.cause)
            if (yield* isExcused(job, error)) return
            return yield* new Processing.DeadLetterFailed<DE>({ ...name, error })
          }
          if (Option.isNone(exit.value)) return yield* leave(job)
          yield* toldDeadLetter(record, attempts, error)
          yield* complete(job, [entry])
        }
        if (job.entries.length === 0) return
        // Those behind a failed one have their turn now, as if they had just come.
        Object.assign(job, untried, { failed: { cause, failures: others } })
        MutableList.append(again, job)
      })

    /** A batch is told by its first record. */
    const toldFailure = ({ attempts, entries: [first] }: OneJob, error: unknown): Effect.Effect<void> =>
      first === undefined ? Effect.void : Effect.zipRight(
        env.count(Metrics.handlerFailures, 1, { stream: first.record.stream }),
        env.emit(KinesumerEvent.HandlerFailed({ ...nameOf(first.record), attempt: attempts, error }))
      )

    const toldDeadLetter = (record: KinesumerRecord, attempts: number, error: unknown): Effect.Effect<void> =>
      Effect.zipRight(
        env.count(Metrics.deadLetters, 1, { stream: record.stream }),
        env.emit(KinesumerEvent.DeadLettered({ ...nameOf(record), attempts, error }))
      )

    // --- Taking -----------------------------------------------------------------------------------------------------

    const admit = ({ records, run }: Handed): Effect.Effect<void, never, Env> =>
      Effect.suspend(() => {
        const isNew = scheduler.lineOf(run) === undefined
        scheduler.admit(run, records)
        const line = scheduler.lineOf(run)
        return isNew && line !== undefined
          ? fork(Effect.zipRight(Effect.interruptible(run.over.await), close(line)))
          : Effect.void
      }).pipe(Effect.zipRight(dispatch), Effect.uninterruptible)

    /** Fails with what ends the group; `none` when it is closed. */
    const feed: Effect.Effect<never, Option.Option<ConsumeError>, Env> = Effect.forever(
      Effect.flatMap(taking.pull(scheduler), admit)
    )

    /** What is in a handler may come to its end while the lease is held. */
    const drained = Signal.awaitUntil(settled, Effect.sync(() => scheduler.inFlight() === 0 || undefined))

    const fed: Effect.Effect<void, ConsumeError, Env> = Effect.catchAll(
      feed,
      Option.match({ onNone: () => Effect.asVoid(drained), onSome: (error) => Effect.fail(error) })
    )
    yield* onFreshTurn(Effect.raceFirst(fed, FiberSet.join(fibers)))
  }))
}

const timed = <In, R>(
  { timeout }: Settings,
  entries: ReadonlyArray<Scheduler.Entry>,
  handle: (records: Array_.NonEmptyReadonlyArray<KinesumerRecord>) => Effect.Effect<unknown, In, R>
): Effect.Effect<unknown, In | Processing.HandlerTimeout, R> => {
  const records = entries.map(({ record }) => record)
  if (!Array_.isNonEmptyReadonlyArray(records)) return Effect.void
  const handled = Effect.suspend(() => handle(records))
  return Option.match(timeout, {
    onNone: () => handled,
    onSome: (duration) =>
      onFreshTurn(
        Effect.timeoutFail(handled, { duration, onTimeout: () => new Processing.HandlerTimeout({ timeout: duration }) })
      )
  })
}

const without = <A>(all: ReadonlyArray<A>, gone: ReadonlyArray<A>): ReadonlyArray<A> => {
  const some = new Set(gone)
  return all.filter((one) => !some.has(one))
}

/** Entries that no failed one is in front of. Those behind one were handled out of their turn, so they come again with it. */
const ahead = (
  ordering: Processing.Ordering,
  entries: ReadonlyArray<Scheduler.Entry>,
  failures: ReadonlyArray<{ readonly entry: Scheduler.Entry }>
): ReadonlyArray<Scheduler.Entry> => {
  const failed = new Set(failures.map(({ entry }) => entry))
  const broken = new Set<unknown>()
  return entries.filter((entry) => {
    if (failed.has(entry)) broken.add(entry.chain)
    return !failed.has(entry) && (ordering === "none" || !broken.has(entry.chain))
  })
}

/** Failures that may be tried again, and those that may not. Of a chain none is given up before one in front of it. */
const split = <In, E, RR>(ordering: Processing.Ordering, failures: ReadonlyArray<Failure<In, E, RR>>) => {
  const going = new Set<unknown>()
  return Array_.partition(failures, ({ entry, tries }) => {
    if (!tries.isOver) going.add(entry.chain)
    return tries.isOver && (ordering === "none" || !going.has(entry.chain))
  })
}

/** An interruption that nobody outside asked for is the handler's own doing. */
const errorOf = <E>(cause: Cause.Cause<E>): E | Processing.HandlerDefect =>
  Option.getOrElse(Cause.failureOption(cause), () => new Processing.HandlerDefect({ defect: Cause.squash(cause) }))

const nameOf = (
  { sequenceNumber, shardId, stream, subSequenceNumber }: KinesumerRecord
): KinesumerEvent.RecordName => ({ stream, shardId, sequenceNumber, subSequenceNumber })
