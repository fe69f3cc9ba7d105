/**
 * A Kinesis that keeps nothing: how a stream is split and merged is laid down beforehand, and its records are reckoned
 * from the time. So what grows is the group's.
 */
import type { KinesisClient, Position } from "@kinesumer/core"
import { KinesisError, type Shard } from "@kinesumer/core"
import { DateTime, Effect, Option, Stream } from "effect"

const minute = 60_000
export const hour = 60 * minute

export const stream = "day"

/** A shard is split, or two are merged, so often. */
const reshardEvery = 10 * minute

/** As many are open, or one more. */
export const firstShards = 6

/** Records a second that each open shard gets, and their size. */
export const rate = 5
const recordBytes = 1000

/** Closed shards stay on the list for so long, and so does what is in them. */
const retention = 24 * hour

interface Planned {
  readonly index: number
  readonly shardId: string
  readonly parents: ReadonlyArray<string>
  readonly range: { readonly start: bigint; readonly end: bigint }
  readonly openedAt: number
  closedAt: number
  readonly children: Array<Planned>
}

/** What happens to the shards from one moment to another. */
const planned = (from: number, until: number): ReadonlyArray<Planned> => {
  const all: Array<Planned> = []
  const open = (range: Planned["range"], parents: ReadonlyArray<Planned>, at: number): Planned => {
    const shard: Planned = {
      index: all.length,
      shardId: `shardId-${`${all.length}`.padStart(12, "0")}`,
      parents: parents.map(({ shardId }) => shardId),
      range,
      openedAt: at,
      closedAt: Infinity,
      children: []
    }
    for (const parent of parents) {
      parent.closedAt = at
      parent.children.push(shard)
    }
    all.push(shard)
    return shard
  }
  const width = 2n ** 128n / BigInt(firstShards)
  const shards = Array.from(
    { length: firstShards },
    (_, index) => open({ start: width * BigInt(index), end: width * BigInt(index + 1) - 1n }, [], from)
  )
  // Another place each time, so that every shard has its turn.
  for (let at = from + reshardEvery, place = 0; at < until; at += reshardEvery, place += 3) {
    const isSplit = shards.length === firstShards
    const index = place % (isSplit ? shards.length : shards.length - 1)
    const [low, high] = shards.slice(index, index + 2)
    if (low === undefined) continue
    const { end, start } = low.range
    const middle = (start + end + 1n) / 2n
    if (isSplit) {
      shards.splice(index, 1, open({ start, end: middle - 1n }, [low], at), open({ start: middle, end }, [low], at))
    } else if (high !== undefined) {
      shards.splice(index, 2, open({ start, end: high.range.end }, [low, high], at))
    }
  }
  return all
}

const toShard = (now: number) => ({ closedAt, parents, range, shardId }: Planned): Shard.Shard => ({
  shardId,
  parents,
  hashKeyRange: { start: `${range.start}`, end: `${range.end}` },
  closed: closedAt <= now
})

/** How many records the shard has had until then. */
const countAt = ({ closedAt, openedAt }: Planned, at: number): number =>
  Math.floor(Math.max(0, Math.min(at, closedAt) - openedAt) * rate / 1000)

const arrivalOf = ({ openedAt }: Planned, place: number): number => openedAt + place * 1000 / rate

const digits = 40

/** Numbers begin with the shard's own, so that those of its children are above them. */
const sequenceNumberOf = ({ index }: Planned, place: number): string =>
  `49${`${index}`.padStart(12, "0")}${`${place}`.padStart(digits, "0")}`

const placeOf = (shard: Planned, position: Position.Position): number => {
  switch (position._tag) {
    case "AfterSequence":
      return Number(position.sequenceNumber.slice(-digits)) + 1
    case "AtTimestamp":
      return countAt(shard, position.timestamp.epochMillis)
    default:
      return 0
  }
}

const refuse = (operation: string, detail: string) =>
  new KinesisError.KinesisError({ reason: "NotFound", operation, stream, detail })

/** The stream was there for as long as records are kept when the group begins at `from`. */
export const make = (options: {
  readonly now: () => number
  readonly from: number
  readonly until: number
}): KinesisClient.KinesisClient["Type"] => {
  const { from, now, until } = options
  const createdAt = from - retention
  const shards = planned(createdAt, until)
  const byId = new Map(shards.map((shard) => [shard.shardId, shard]))
  const find = (operation: string, shardId: string) => {
    const shard = byId.get(shardId)
    return shard === undefined || shard.closedAt < now() - retention
      ? refuse(operation, `there is no shard ${shardId}`)
      : Effect.succeed(shard)
  }
  const noFanOut = refuse("registerConsumer", "this stream has no consumers")
  return {
    region: Effect.succeed("us-east-1"),
    describeStream: () =>
      Effect.sync(() => ({
        name: stream,
        arn: `arn:aws:kinesis:us-east-1:000000000000:stream/${stream}`,
        status: "ACTIVE" as const,
        createdAt: DateTime.unsafeMake(createdAt),
        answeredAt: DateTime.unsafeMake(Math.floor(now() / 1000) * 1000)
      })),
    listShards: () =>
      Effect.sync(() => ({
        shards: shards.filter(({ closedAt, openedAt }) => openedAt <= now() && closedAt >= now() - retention)
          .map(toShard(now())),
        nextToken: Option.none()
      })),
    getShardIterator: (_, shardId, position) =>
      Effect.map(find("getShardIterator", shardId), (shard) => `${placeOf(shard, position)}`),
    getRecords: (_, shardId, { iterator, limit }) =>
      Effect.map(find("getRecords", shardId), (shard) => {
        const first = Number(iterator)
        const count = countAt(shard, now())
        const next = Math.max(first, Math.min(count, first + limit))
        const isEnd = shard.closedAt <= now() && next >= count
        // As an answer of the wire is: one block of memory, of which each record holds a part.
        const bytes = new Uint8Array((next - first) * recordBytes)
        return {
          records: Array.from({ length: next - first }, (_, index) => ({
            sequenceNumber: sequenceNumberOf(shard, first + index),
            partitionKey: `key-${(first + index) % 100}`,
            data: bytes.subarray(index * recordBytes, (index + 1) * recordBytes),
            arrivalTime: new Date(arrivalOf(shard, first + index))
          })),
          nextIterator: isEnd ? Option.none() : Option.some(`${next}`),
          millisBehindLatest: Option.some(next < count ? Math.max(0, now() - arrivalOf(shard, next)) : 0),
          childShards: isEnd ? shard.children.map(toShard(now())) : []
        }
      }),
    registerConsumer: () => noFanOut,
    describeConsumer: () => noFanOut,
    listConsumers: () => noFanOut,
    deregisterConsumer: () => noFanOut,
    subscribeToShard: () => Stream.fail(noFanOut)
  }
}
