/**
 * The registered consumer of each stream, through which all members of the group are pushed records.
 *
 * Members find the one that is there, or one of them registers it; closing leaves it. It can vanish and come back under
 * another ARN at any time, so a reader whose subscription finds no consumer asks here for the ARN that counts now.
 */
import * as Arr from "effect/Array"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import * as Schedule from "effect/Schedule"
import type { ConsumerDescription } from "../KinesisClient.js"
import { KinesisError } from "../KinesisError.js"
import type { KinesumerConfig } from "../KinesumerConfig.js"
import type { InvalidConfig } from "../KinesumerError.js"
import * as KinesumerEvent from "../KinesumerEvent.js"
import * as Metrics from "../KinesumerMetrics.js"
import * as Backoff from "./backoff.js"
import * as Environment from "./environment.js"
import { onFreshTurn } from "./freshTurn.js"
import * as Streams from "./streams.js"

export interface Consumers {
  /** The ARN of an ACTIVE consumer; found, or registered, if it is not known yet. */
  readonly arnOf: (stream: Streams.StreamState) => Effect.Effect<string, KinesisError>
  /**
   * For a subscription that found no consumer under `refusedArn`: the ARN that counts now. It is the same one if the
   * consumer is there all the same; then it is the shard or the stream that is missing.
   */
  readonly renew: (stream: Streams.StreamState, refusedArn: string) => Effect.Effect<string, KinesisError>
}

type Env = Pick<Environment.Environment, "config" | "count" | "emit" | "kinesis">

interface Known {
  readonly arn: string | undefined
  /** When the newest consumer that was seen was made: an answer about an older one is out of date. In milliseconds. */
  readonly newest: number
  /** How many looks are done, and what came of the last one. */
  readonly looks: number
  readonly result: Effect.Effect<string, KinesisError>
}

interface Entry {
  readonly mutex: Effect.Semaphore
  readonly known: Ref.Ref<Known>
}

const unknown: Known = { arn: undefined, newest: 0, looks: 0, result: Effect.never }

/** All members of all groups share the calls that a stream may be asked about its consumers, 20 a second. */
const backoff = { base: Duration.seconds(1), cap: Duration.seconds(5) }

export const make = (env: Env): Effect.Effect<Consumers> =>
  Effect.map(Ref.make<ReadonlyMap<string, Entry>>(new Map()), (entries) => {
    const entryOf = ({ key }: Streams.StreamState): Effect.Effect<Entry> =>
      Ref.modify(entries, (all) => {
        const entry = all.get(key) ?? { mutex: Effect.unsafeMakeSemaphore(1), known: Ref.unsafeMake(unknown) }
        return [entry, all.has(key) ? all : new Map(all).set(key, entry)]
      })

    /** Those that ask while a look is under way share what comes of it. */
    const ask = (stream: Streams.StreamState, refused?: string): Effect.Effect<string, KinesisError> =>
      Effect.gen(function*() {
        const { known, mutex } = yield* entryOf(stream)
        const before = yield* Ref.get(known)
        if (before.arn !== undefined && before.arn !== refused) return before.arn
        return yield* mutex.withPermits(1)(Effect.gen(function*() {
          const { arn, looks, newest, result } = yield* Ref.get(known)
          if (arn !== undefined && arn !== refused) return arn
          if (looks > before.looks) return yield* result
          // Nobody is given what was refused until it is found again.
          yield* Ref.update(known, (known) => ({ ...known, arn: undefined }))
          const exit = yield* Effect.exit(find(env, stream, newest))
          return yield* (yield* Ref.updateAndGet(known, (known) => afterLook(known, exit))).result
        }))
      })
    return { arnOf: (stream) => ask(stream), renew: ask }
  })

const afterLook = (known: Known, exit: Exit.Exit<ConsumerDescription, KinesisError>): Known => ({
  arn: Exit.isSuccess(exit) ? exit.value.arn : undefined,
  newest: Exit.isSuccess(exit) ? exit.value.createdAt.epochMillis : known.newest,
  looks: known.looks + 1,
  result: Exit.map(exit, ({ arn }) => arn)
})

/** One search for the consumer of a stream. */
interface Search {
  readonly env: Env
  readonly stream: Streams.StreamState
  /** What it came to so far, in words. */
  readonly state: Ref.Ref<string>
}

/** Looks until there is an ACTIVE consumer, which is not older than the newest one that was seen before. */
const find = (
  env: Env,
  stream: Streams.StreamState,
  newestBefore: number
): Effect.Effect<ConsumerDescription, KinesisError> =>
  Effect.gen(function*() {
    const state = yield* Ref.make("was not found out")
    const found = yield* onFreshTurn(Effect.timeoutOption(
      look({ env, stream, state }, newestBefore),
      env.config.fanOut.registerTimeout
    ))
    return yield* Option.match(found, {
      onNone: () => Effect.flatMap(Ref.get(state), (last) => timedOut(env, stream, last)),
      onSome: Effect.succeed
    })
  })

const look = (search: Search, newestBefore: number): Effect.Effect<ConsumerDescription, KinesisError> =>
  Effect.gen(function*() {
    let newest = newestBefore
    let failures = 0
    for (let attempt = 1;; attempt++) {
      const found = yield* Effect.either(findOrRegister(search))
      if (Either.isRight(found)) {
        failures = 0
        const { createdAt, status } = found.right
        const isCurrent = createdAt.epochMillis >= newest
        if (isCurrent && status === "ACTIVE") return found.right
        newest = Math.max(newest, createdAt.epochMillis)
        yield* Ref.set(search.state, isCurrent ? `was ${status}` : "was shown as it had been before it was made anew")
        yield* Effect.sleep(yield* Backoff.delay(attempt, backoff))
      } else {
        if (!isPassing(found.left)) return yield* found.left
        yield* backOff(search, found.left, ++failures)
      }
    }
  })

/** What there is now, in whatever state. */
const findOrRegister = (search: Search): Effect.Effect<ConsumerDescription, KinesisError> => {
  const { env: { config: { fanOut: { consumerName } }, kinesis }, stream } = search
  const register = kinesis.registerConsumer(stream.arn, consumerName).pipe(
    Effect.tap(Effect.logInfo(`Registered the consumer "${consumerName}" of ${stream.label}`)),
    Effect.catchIf(({ reason }) => reason === "LimitExceeded", (refusal) => findAmongAll(search, refusal))
  )
  return Effect.catchIf(
    kinesis.describeConsumer(stream.arn, consumerName),
    ({ reason }) => reason === "NotFound",
    () => register
  )
}

/** The stream has all the consumers that it may have: ours may be one of them by now. Else they are told by name. */
const findAmongAll = (search: Search, refusal: KinesisError): Effect.Effect<ConsumerDescription, KinesisError> => {
  const { env: { config: { fanOut: { consumerName } } }, stream } = search
  const full = (which: string) =>
    new KinesisError({
      reason: "LimitExceeded",
      operation: "registerConsumer",
      stream: stream.label,
      detail: `There is no room for the consumer "${consumerName}": the stream has all that it may have${which}. ` +
        `Deregister one that nobody uses, ask AWS for a higher limit, or read with mode "polling"`,
      cause: refusal
    })
  return listAll(search).pipe(
    Effect.catchIf((error) => !isPassing(error), (error) => full(`, which could not be listed (${error.message})`)),
    Effect.flatMap((consumers) =>
      Option.match(Arr.findFirst(consumers, ({ name }) => name === consumerName), {
        onNone: () => full(`: ${consumers.map(({ name }) => name).join(", ")}`),
        onSome: Effect.succeed
      })
    )
  )
}

const listAll = (search: Search): Effect.Effect<ReadonlyArray<ConsumerDescription>, KinesisError> => {
  const { env: { kinesis }, stream } = search
  const pages = (
    token: Option.Option<string>,
    consumers: ReadonlyArray<ConsumerDescription>,
    attempt = 1
  ): Effect.Effect<ReadonlyArray<ConsumerDescription>, KinesisError> =>
    Effect.matchEffect(kinesis.listConsumers(stream.arn, token), {
      // A long list takes more calls than a second may have: it goes on where it stands.
      onFailure: (error) =>
        error.retryable
          ? Effect.zipRight(backOff(search, error, attempt), pages(token, consumers, attempt + 1))
          : Effect.fail(error),
      onSuccess: (page) => {
        const all = Arr.appendAll(consumers, page.consumers)
        return Option.isSome(page.nextToken) ? pages(page.nextToken, all) : Effect.succeed(all)
      }
    })
  return pages(Option.none(), [])
}

/** A list whose token has expired is begun anew. */
const isPassing = (error: KinesisError): boolean => error.retryable || error.reason === "ExpiredToken"

/** Tells that a call is tried again, and waits until then. */
const backOff = ({ env, state, stream }: Search, error: KinesisError, attempt: number): Effect.Effect<void> =>
  Effect.gen(function*() {
    const delay = yield* Backoff.delay(attempt, backoff)
    yield* Ref.set(state, `could not be asked for (${error.message})`)
    yield* env.count(Metrics.retries, 1, { operation: error.operation, reason: error.reason })
    yield* env.emit(KinesumerEvent.Retrying({
      operation: error.operation,
      stream: stream.label,
      shardId: undefined,
      attempt,
      delay,
      error
    }))
    yield* Effect.sleep(delay)
  })

const timedOut = ({ config: { fanOut } }: Env, stream: Streams.StreamState, state: string) =>
  new KinesisError({
    reason: "Timeout",
    operation: "describeConsumer",
    stream: stream.label,
    detail: `the consumer "${fanOut.consumerName}" was not ACTIVE within ${Duration.format(fanOut.registerTimeout)} ` +
      `(fanOut.registerTimeout): at the last look it ${state}`
  })

/** Takes the consumers of the group away from its streams. */
export const deregister = (
  config: KinesumerConfig,
  client: Env["kinesis"]
): Effect.Effect<void, KinesisError | InvalidConfig> =>
  Effect.gen(function*() {
    const kinesis = Environment.withTimeouts(client, config.polling.timeout)
    const { consumerName, registerTimeout } = config.fanOut
    const policy = Schedule.exponential(backoff.base).pipe(
      Schedule.union(Schedule.spaced(backoff.cap)),
      Schedule.jittered,
      Schedule.upTo(registerTimeout),
      Schedule.whileInput((error: KinesisError | InvalidConfig) => error._tag === "KinesisError" && error.retryable)
    )
    const resolved = yield* Effect.retry(Streams.resolve({ kinesis }, config.streams), policy)
    yield* onFreshTurn(Effect.forEach(
      resolved,
      ({ stream }) =>
        kinesis.deregisterConsumer(stream.arn, consumerName).pipe(
          Effect.retry(policy),
          Effect.catchIf(({ reason }) => reason === "NotFound", () => Effect.void)
        ),
      { concurrency: 5, discard: true }
    ))
  })
