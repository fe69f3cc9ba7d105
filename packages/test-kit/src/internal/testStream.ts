import type { StreamDescription } from "@kinesumer/core/KinesisClient"
import type { KinesisError } from "@kinesumer/core/KinesisError"
import * as Either from "effect/Either"
import * as HashKeys from "./hashKeys.js"
import * as RecordLog from "./recordLog.js"
import type { Where } from "./refusal.js"
import { refuse } from "./refusal.js"
import type * as SequenceNumbers from "./sequenceNumbers.js"
import * as TestConsumer from "./testConsumer.js"
import * as Shard from "./testShard.js"

/** @internal */
export interface TestStream {
  readonly name: string
  readonly arn: string
  readonly createdAt: number
  /** Tells a stream from another one that had its name. */
  readonly serial: number
  readonly numbers: SequenceNumbers.SequenceNumbers
  readonly shards: Map<string, Shard.TestShard>
  /** The open shards in order of hash keys; `undefined` where some have been opened or closed since. */
  open: ReadonlyArray<Shard.TestShard> | undefined
  readonly consumers: TestConsumer.Consumers
  shardCount: number
  retention: number
  status: StreamDescription["status"]
}

type Result<A> = Either.Either<A, KinesisError>

const openShard = (stream: TestStream, range: HashKeys.HashRange, parents: ReadonlyArray<Shard.TestShard>) => {
  const index = stream.shardCount++
  const shard = Shard.make({
    index,
    parents: parents.map((parent) => parent.shardId),
    range,
    startingSequenceNumber: stream.numbers.start(index)
  })
  for (const parent of parents) parent.children.push(shard.shardId)
  stream.shards.set(shard.shardId, shard)
  stream.open = undefined
  return shard
}

const closeShard = (stream: TestStream, shard: Shard.TestShard, now: number) => {
  shard.endingSequenceNumber = stream.numbers.next(shard.index)
  shard.closedAt = now
  stream.open = undefined
  Shard.wake(shard)
}

/** @internal */
export const make = (options: {
  readonly name: string
  readonly arn: string
  readonly createdAt: number
  readonly serial: number
  readonly numbers: SequenceNumbers.SequenceNumbers
  readonly retention: number
  readonly status: StreamDescription["status"]
  readonly shards: number
}): TestStream => {
  const { shards, ...rest } = options
  const stream: TestStream = {
    ...rest,
    shards: new Map(),
    open: undefined,
    consumers: TestConsumer.make(),
    shardCount: 0
  }
  stream.numbers.approach(shards)
  for (const range of HashKeys.uniform(shards)) openShard(stream, range, [])
  return stream
}

/**
 * Lets vanish what is older than the retention: records, and closed shards once everything in them is.
 *
 * @internal
 */
export const retain = (stream: TestStream, now: number): void => {
  const horizon = now - stream.retention
  for (const shard of stream.shards.values()) {
    if (shard.closedAt !== undefined && shard.closedAt < horizon) stream.shards.delete(shard.shardId)
    else Shard.trimWhile(shard, (record) => record.arrival < horizon)
  }
}

/** @internal */
export const findShard = (stream: TestStream, shardId: string, where: Where): Result<Shard.TestShard> => {
  const shard = stream.shards.get(shardId)
  return shard === undefined
    ? refuse(
      { ...where, shardId },
      "NotFound",
      `Shard ${shardId} in stream ${stream.name} does not exist, or has passed its retention`
    )
    : Either.right(shard)
}

const findOpenShard = (stream: TestStream, shardId: string, where: Where): Result<Shard.TestShard> =>
  Either.flatMap(findShard(stream, shardId, where), (shard) =>
    shard.closedAt === undefined
      ? Either.right(shard)
      : refuse({ ...where, shardId }, "InvalidArgument", `Shard ${shardId} is closed`))

/** @internal */
export const openShards = (stream: TestStream): ReadonlyArray<Shard.TestShard> =>
  stream.open ??= Array.from(stream.shards.values())
    .filter((shard) => shard.closedAt === undefined)
    .sort((a, b) => a.range.start < b.range.start ? -1 : 1)

/** @internal */
export const childrenOf = (stream: TestStream, shard: Shard.TestShard): ReadonlyArray<Shard.TestShard> =>
  shard.children.flatMap((shardId) => stream.shards.get(shardId) ?? [])

const largestRecord = 10 * 1024 * 1024

interface Put {
  readonly partitionKey: string
  readonly data: Uint8Array
}

const append = (shard: Shard.TestShard, stream: TestStream, put: Put, now: number, where: Where) => {
  if (put.data.byteLength > largestRecord) {
    return refuse(where, "InvalidArgument", `A record of ${put.data.byteLength} bytes is larger than 10 MiB`)
  }
  if (put.partitionKey === "" || put.partitionKey.length > 256) {
    return refuse(where, "InvalidArgument", `A partition key has 1 to 256 characters, not ${put.partitionKey.length}`)
  }
  const sequenceNumber = stream.numbers.next(shard.index)
  RecordLog.append(shard.log, { ...put, sequenceNumber, arrival: now })
  Shard.wake(shard)
  return Either.right({ shardId: shard.shardId, sequenceNumber })
}

/** @internal */
export const shardOf = (stream: TestStream, hashKey: bigint): Shard.TestShard | undefined =>
  openShards(stream).find((shard) => HashKeys.contains(shard.range, hashKey))

/** @internal */
export const put = (stream: TestStream, record: Put & { readonly hashKey: bigint }, now: number, where: Where) => {
  const { hashKey, ...rest } = record
  const shard = shardOf(stream, hashKey)
  return shard === undefined
    ? refuse(where, "InvalidArgument", `No open shard has the hash key ${hashKey}`)
    : append(shard, stream, rest, now, where)
}

/** @internal */
export const putTo = (stream: TestStream, shardId: string, record: Put, now: number, where: Where) =>
  Either.flatMap(findOpenShard(stream, shardId, where), (shard) => append(shard, stream, record, now, where))

const splitOpen = (stream: TestStream, shard: Shard.TestShard, at: bigint, now: number) => {
  closeShard(stream, shard, now)
  stream.numbers.approach(2)
  const { end, start } = shard.range
  return [
    openShard(stream, { start, end: at - 1n }, [shard]),
    openShard(stream, { start: at, end }, [shard])
  ] as const
}

const mergeOpen = (stream: TestStream, low: Shard.TestShard, high: Shard.TestShard, now: number) => {
  closeShard(stream, low, now)
  closeShard(stream, high, now)
  stream.numbers.approach(1)
  return openShard(stream, { start: low.range.start, end: high.range.end }, [low, high])
}

/** @internal */
export const split = (stream: TestStream, shardId: string, at: bigint | undefined, now: number, where: Where) =>
  Either.flatMap(findOpenShard(stream, shardId, where), (shard) => {
    const { end, start } = shard.range
    const middle = at ?? (start + end + 1n) / 2n
    return middle <= start || middle > end
      ? refuse(
        { ...where, shardId },
        "InvalidArgument",
        `The second child of ${shardId} can start at ${start + 1n} to ${end}, not at ${middle}`
      )
      : Either.right(splitOpen(stream, shard, middle, now))
  })

/** @internal */
export const merge = (stream: TestStream, one: string, other: string, now: number, where: Where) =>
  Either.gen(function*() {
    const a = yield* findOpenShard(stream, one, where)
    const b = yield* findOpenShard(stream, other, where)
    const [low, high] = a.range.start < b.range.start ? [a, b] : [b, a]
    return low.range.end + 1n === high.range.start
      ? mergeOpen(stream, low, high, now)
      : yield* refuse({ ...where, shardId: one }, "InvalidArgument", `${one} and ${other} are not neighbours`)
  })

/**
 * Splits and merges until `count` open shards share the hash keys evenly.
 *
 * @internal
 */
export const reshard = (stream: TestStream, count: number, now: number): void => {
  const ranges = HashKeys.uniform(count)
  for (const { start } of ranges) {
    const shard = openShards(stream).find((shard) => HashKeys.contains(shard.range, start))
    if (shard !== undefined && shard.range.start !== start) splitOpen(stream, shard, start, now)
  }
  for (const range of ranges) {
    const [first, ...rest] = openShards(stream).filter((shard) => HashKeys.contains(range, shard.range.start))
    if (first !== undefined) rest.reduce((low, high) => mergeOpen(stream, low, high, now), first)
  }
}
