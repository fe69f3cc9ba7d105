import type { GetRecordsResult, StreamDescription, StreamId } from "@kinesumer/core/KinesisClient"
import type { KinesisError } from "@kinesumer/core/KinesisError"
import type { Position } from "@kinesumer/core/Position"
import * as SequenceNumber from "@kinesumer/core/SequenceNumber"
import type { Shard } from "@kinesumer/core/Shard"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Opaque from "./opaque.js"
import * as RateLimit from "./rateLimit.js"
import * as RecordLog from "./recordLog.js"
import type { Where } from "./refusal.js"
import { refuse } from "./refusal.js"
import * as SequenceNumbers from "./sequenceNumbers.js"
import type { TestConsumer } from "./testConsumer.js"
import * as TestShard from "./testShard.js"
import * as TestStream from "./testStream.js"

/**
 * Everything that the Kinesis in memory knows. Its answers are pure steps on this state, so that no other fiber comes
 * between the parts of one call.
 *
 * @internal
 */
export interface Server {
  readonly region: string
  readonly account: string
  readonly limits: boolean
  readonly pageSize: number
  readonly refuseTrimmed: boolean
  /** How long a consumer is being created, and how long it is being deleted, in milliseconds. */
  readonly consumerDelay: number
  /** Kinesis's own clock, in milliseconds. */
  readonly now: () => number
  /** Waits by the same clock, in milliseconds. */
  readonly sleep: (millis: number) => Effect.Effect<void>
  /** Streams by ARN. */
  readonly streams: Map<string, TestStream.TestStream>
  /** The numbers that the streams gave, by ARN, also those of streams that are gone. */
  readonly numbers: Map<string, SequenceNumbers.SequenceNumbers>
  streamsMade: number
  iteratorsMade: number
  /** Iterators made before this one have expired. */
  firstValidIterator: number
  /** The subscriptions that live. */
  readonly subscriptions: Set<Subscription>
}

/**
 * Who reads through a consumer, and how far. It keeps a place and no records.
 *
 * @internal
 */
export interface Subscription {
  readonly consumer: TestConsumer
  readonly stream: TestStream.TestStream
  readonly shard: TestShard.TestShard
  readonly startedAt: number
  readonly where: Where
  place: number
  lastEventAt: number
  /** Why nothing more comes; `undefined` while it lives. */
  over: Option.Option<KinesisError> | undefined
}

/**
 * A server without streams. It keeps the clock that it is made under.
 *
 * @internal
 */
export const make = (options: {
  readonly region?: string | undefined
  readonly account?: string | undefined
  readonly limits?: boolean | undefined
  readonly pageSize?: number | undefined
  readonly clockSkew?: Duration.DurationInput | undefined
  readonly trimmedPosition?: "horizon" | "refuse" | undefined
  readonly consumerDelay?: Duration.DurationInput | undefined
}): Effect.Effect<Server> =>
  Effect.map(Effect.clock, (clock) => {
    const skew = Duration.toMillis(options.clockSkew ?? 0)
    return {
      region: options.region ?? "us-east-1",
      account: options.account ?? "000000000000",
      limits: options.limits ?? true,
      pageSize: options.pageSize ?? 1000,
      refuseTrimmed: options.trimmedPosition === "refuse",
      consumerDelay: Duration.toMillis(options.consumerDelay ?? 0),
      now: () => clock.unsafeCurrentTimeMillis() + skew,
      sleep: (millis) => clock.sleep(Duration.millis(millis)),
      streams: new Map(),
      numbers: new Map(),
      streamsMade: 0,
      iteratorsMade: 0,
      firstValidIterator: 0,
      subscriptions: new Set()
    }
  })

type Result<A> = Either.Either<A, KinesisError>

/** Iterators and the tokens of pages live this long. */
const lifetime = 5 * 60_000

const bytesASecond = 2 * 1024 * 1024

/** @internal */
export const arnOf = (server: Server, name: string, region = server.region, account = server.account): string =>
  `arn:aws:kinesis:${region}:${account}:stream/${name}`

/** @internal */
export const label = (stream: StreamId): string => Option.getOrElse(stream.arn, () => stream.name)

/** @internal */
export const find = (server: Server, stream: string, where: Where): Result<TestStream.TestStream> => {
  const found = server.streams.get(stream.startsWith("arn:") ? stream : arnOf(server, stream))
  if (found === undefined) {
    return refuse(where, "NotFound", `Stream ${stream} does not exist in account ${server.account}, ${server.region}`)
  }
  TestStream.retain(found, server.now())
  return Either.right(found)
}

/** @internal */
export const findActive = (server: Server, where: Where): Result<TestStream.TestStream> =>
  Either.flatMap(
    find(server, where.stream, where),
    (stream) =>
      stream.status === "ACTIVE" || stream.status === "UPDATING"
        ? Either.right(stream)
        : refuse(where, "ResourceInUse", `Stream ${where.stream} is ${stream.status}`)
  )

/** @internal */
export const createStream = (server: Server, options: {
  readonly name: string
  readonly arn: string
  readonly shards: number
  readonly retention: number
  readonly status: StreamDescription["status"]
  readonly firstSequenceNumber: string | undefined
}, where: Where): Result<TestStream.TestStream> => {
  const { arn, firstSequenceNumber, ...rest } = options
  if (server.streams.has(arn)) return refuse(where, "ResourceInUse", `Stream ${arn} exists already`)
  if (!Number.isInteger(options.shards) || options.shards < 1) {
    return refuse(where, "InvalidArgument", `A stream has one shard or more, not ${options.shards}`)
  }
  const earlier = server.numbers.get(arn)
  const numbers = SequenceNumbers.make({
    streamIndex: earlier?.streamIndex ?? server.numbers.size,
    above: earlier?.last(),
    from: firstSequenceNumber === undefined ? undefined : BigInt(firstSequenceNumber)
  })
  const stream = TestStream.make({ ...rest, arn, numbers, createdAt: server.now(), serial: ++server.streamsMade })
  server.streams.set(arn, stream)
  server.numbers.set(arn, numbers)
  return Either.right(stream)
}

/** @internal */
export const deleteStream = (server: Server, stream: TestStream.TestStream): void => {
  server.streams.delete(stream.arn)
  for (const shard of stream.shards.values()) TestShard.wake(shard)
}

/** @internal */
export const describe = (server: Server, stream: TestStream.TestStream): StreamDescription => ({
  name: stream.name,
  arn: stream.arn,
  status: stream.status,
  createdAt: DateTime.unsafeMake(stream.createdAt),
  answeredAt: DateTime.unsafeMake(Math.floor(server.now() / 1000) * 1000)
})

/**
 * A token for the page after the one that ended with this index.
 *
 * @internal
 */
export const makeToken = (server: Server, stream: TestStream.TestStream, last: number): string =>
  Opaque.encode("page", [stream.serial, last, server.now()])

/** @internal */
export const readToken = (
  server: Server,
  stream: TestStream.TestStream,
  token: string,
  where: Where
): Result<number> => {
  const [serial, last, made] = Opaque.decode("page", token) ?? []
  if (Number(serial) !== stream.serial) {
    return refuse(where, "InvalidArgument", "The token of the page is not one of this stream")
  }
  return server.now() - Number(made) >= lifetime
    ? refuse(where, "ExpiredToken", "The token of the page is older than 5 minutes; list anew")
    : Either.right(Number(last))
}

/** @internal */
export const listShards = (
  server: Server,
  nextToken: Option.Option<string>,
  where: Where
): Result<{ readonly shards: ReadonlyArray<Shard>; readonly nextToken: Option.Option<string> }> =>
  Either.gen(function*() {
    const stream = yield* findActive(server, where)
    const after = Option.isSome(nextToken) ? yield* readToken(server, stream, nextToken.value, where) : -1
    const rest = Array.from(stream.shards.values()).filter((shard) => shard.index > after)
    const page = rest.slice(0, server.pageSize)
    const last = page.at(-1)
    return {
      shards: page.map(TestShard.toShard),
      nextToken: last !== undefined && rest.length > page.length
        ? Option.some(makeToken(server, stream, last.index))
        : Option.none()
    }
  })

const makeIterator = (server: Server, stream: TestStream.TestStream, shard: TestShard.TestShard, place: number) =>
  Opaque.encode("iterator", [stream.serial, shard.shardId, place, server.now(), server.iteratorsMade++])

const checkSequence = (
  server: Server,
  stream: TestStream.TestStream,
  shard: TestShard.TestShard,
  sequenceNumber: string,
  where: Where
): Result<void> => {
  if (!SequenceNumber.isSequenceNumber(sequenceNumber)) {
    return refuse(where, "InvalidArgument", `"${sequenceNumber}" is not a sequence number`)
  }
  if (!stream.numbers.belongs(sequenceNumber, shard.index)) {
    return refuse(
      where,
      "InvalidArgument",
      `Invalid StartingSequenceNumber ${sequenceNumber}: it encodes another shard than ${shard.shardId}`
    )
  }
  const last = shard.endingSequenceNumber ?? `${stream.numbers.last()}`
  if (
    SequenceNumber.compare(sequenceNumber, shard.startingSequenceNumber) < 0 ||
    SequenceNumber.compare(sequenceNumber, last) > 0
  ) {
    return refuse(
      where,
      "InvalidArgument",
      `StartingSequenceNumber ${sequenceNumber} is invalid because it did not come from this stream`
    )
  }
  return server.refuseTrimmed && shard.lastTrimmed !== undefined &&
      SequenceNumber.compare(sequenceNumber, shard.lastTrimmed) <= 0
    ? refuse(where, "InvalidArgument", `StartingSequenceNumber ${sequenceNumber} has passed the retention`)
    : Either.right(undefined)
}

/**
 * The place where a position begins, if Kinesis takes the position.
 *
 * @internal
 */
export const startingPlace = (
  server: Server,
  stream: TestStream.TestStream,
  shard: TestShard.TestShard,
  position: Position,
  where: Where
): Result<number> => {
  switch (position._tag) {
    case "ShardEnd":
      return refuse(where, "InvalidArgument", "There is no reading from the end of a shard")
    case "AtTimestamp":
      return position.timestamp.epochMillis > server.now()
        ? refuse(where, "InvalidArgument", "The timestamp is in the future")
        : Either.right(TestShard.placeOf(shard, position))
    case "AfterSequence":
      return Either.map(
        checkSequence(server, stream, shard, position.sequenceNumber, where),
        () => TestShard.placeOf(shard, position)
      )
    case "TrimHorizon":
      return Either.right(TestShard.placeOf(shard, position))
  }
}

/** @internal */
export const getShardIterator = (
  server: Server,
  shardId: string,
  position: Position,
  where: Where
): Result<string> =>
  Either.gen(function*() {
    const stream = yield* findActive(server, where)
    const shard = yield* TestStream.findShard(stream, shardId, where)
    const place = yield* startingPlace(server, stream, shard, position, where)
    const now = server.now()
    if (server.limits && RateLimit.total(shard.getShardIterator, now) >= 5) {
      return yield* refuse(where, "Throttled", "More than 5 GetShardIterator calls in a second for this shard")
    }
    if (server.limits) RateLimit.add(shard.getShardIterator, now, 1)
    return makeIterator(server, stream, shard, place)
  })

const admit = (server: Server, shard: TestShard.TestShard, where: Where): Result<void> => {
  if (!server.limits) return Either.right(undefined)
  const now = server.now()
  if (RateLimit.total(shard.getRecords, now) >= 5) {
    return refuse(where, "Throttled", "More than 5 GetRecords calls in a second for this shard")
  }
  if (now < shard.blockedUntil || RateLimit.total(shard.getRecordsBytes, now) >= bytesASecond) {
    return refuse(where, "Throttled", "More than 2 MiB in a second from this shard")
  }
  RateLimit.add(shard.getRecords, now, 1)
  return Either.right(undefined)
}

/**
 * An answer of `GetRecords`, which tells the places of its records.
 *
 * @internal
 */
export interface Page extends TestShard.Page {
  readonly shard: TestShard.TestShard
  readonly nextIterator: string | undefined
  readonly millisBehindLatest: number
  readonly children: ReadonlyArray<TestShard.TestShard>
}

/** @internal */
export const readPage = (
  server: Server,
  shardId: string,
  options: { readonly iterator: string; readonly limit: number },
  where: Where
): Result<Page> =>
  Either.gen(function*() {
    const stream = yield* findActive(server, where)
    const [serial, iteratorShard, place, made, number] = Opaque.decode("iterator", options.iterator) ?? []
    if (Number(serial) !== stream.serial || iteratorShard !== shardId) {
      return yield* refuse(where, "InvalidArgument", "The iterator is not one of this shard")
    }
    const now = server.now()
    if (now - Number(made) >= lifetime || Number(number) < server.firstValidIterator) {
      return yield* refuse(where, "ExpiredIterator", "The iterator is older than 5 minutes; ask for a new one")
    }
    if (!Number.isInteger(options.limit) || options.limit < 1 || options.limit > 10_000) {
      return yield* refuse(where, "InvalidArgument", `The limit is 1 to 10,000, not ${options.limit}`)
    }
    const shard = yield* TestStream.findShard(stream, shardId, where)
    yield* admit(server, shard, where)
    return answer(server, stream, shard, Number(place), options.limit)
  })

const answer = (
  server: Server,
  stream: TestStream.TestStream,
  shard: TestShard.TestShard,
  place: number,
  limit: number
): Page => {
  const now = server.now()
  const empty = shard.emptyPages > 0
  if (empty) shard.emptyPages--
  const page = TestShard.page(shard, place, empty ? 0 : limit)
  if (server.limits) RateLimit.add(shard.getRecordsBytes, now, page.bytes)
  if (page.bytes > bytesASecond) shard.blockedUntil = now + page.bytes / bytesASecond * 1000

  const unread = RecordLog.at(shard.log, page.next)
  const atEnd = shard.closedAt !== undefined && unread === undefined
  const ended = atEnd && !empty && shard.emptyPagesAtEnd === 0
  if (atEnd && !empty && shard.emptyPagesAtEnd > 0) shard.emptyPagesAtEnd--
  return {
    ...page,
    shard,
    nextIterator: ended ? undefined : makeIterator(server, stream, shard, page.next),
    millisBehindLatest: unread === undefined ? 0 : Math.max(1, now - unread.arrival),
    children: ended ? TestStream.childrenOf(stream, shard) : []
  }
}

/** @internal */
export const getRecords = (
  server: Server,
  shardId: string,
  options: { readonly iterator: string; readonly limit: number },
  where: Where
): Result<GetRecordsResult> =>
  Either.map(readPage(server, shardId, options, where), (page) => ({
    records: TestShard.recordsOf(page.shard, page).map(TestShard.toRawRecord),
    nextIterator: Option.fromNullable(page.nextIterator),
    millisBehindLatest: Option.some(page.millisBehindLatest),
    childShards: page.children.map((child) => ({ ...TestShard.toShard(child), closed: false }))
  }))
