/** The books of the demo: what was put, what was delivered, and whether the two agree. */
import { SequenceNumber } from "@kinesumer/core"
import { Array, Order } from "effect"

/** A record that Kinesis took in. */
export interface Put {
  readonly stream: string
  readonly shardId: string
  readonly sequenceNumber: string
  readonly key: string
  /** Counts the records of a stream and partition key. */
  readonly number: number
}

/** A record that a consumer handed to user code. */
export interface Delivery extends Put {
  readonly member: string
  /** The epoch of the lease under which it was read. It stands for one owner of the shard: they come one after another. */
  readonly epoch: number
  readonly at: number
}

/** Deliveries stand in the order in which each member reported them. */
export interface Ledger {
  readonly puts: ReadonlyArray<Put>
  readonly deliveries: ReadonlyArray<Delivery>
}

export interface Balance {
  readonly put: number
  /** Different records that were delivered. */
  readonly distinct: number
  /** Records that were put and never delivered. */
  readonly lost: ReadonlyArray<Put>
  /** Deliveries that came before one that they should have followed. */
  readonly reordered: ReadonlyArray<Delivery>
  /** Deliveries of what had been delivered before. */
  readonly duplicates: number
}

export const empty: Ledger = { puts: [], deliveries: [] }

export const put = (ledger: Ledger, puts: ReadonlyArray<Put>): Ledger => ({
  ...ledger,
  puts: [...ledger.puts, ...puts]
})

export const delivered = (ledger: Ledger, delivery: Delivery): Ledger => ({
  ...ledger,
  deliveries: [...ledger.deliveries, delivery]
})

export const balance = ({ deliveries, puts }: Ledger): Balance => {
  const distinct = new Set(deliveries.map(identity))
  return {
    put: puts.length,
    distinct: distinct.size,
    lost: puts.filter((record) => !distinct.has(identity(record))),
    reordered: [...new Set([...withinShards(deliveries), ...withinKeys(deliveries)])],
    duplicates: deliveries.length - distinct.size
  }
}

const shardOf = ({ shardId, stream }: Put): string => `${stream}/${shardId}`

const identity = (record: Put): string => `${shardOf(record)}/${record.sequenceNumber}`

/**
 * One owner delivers a shard in order, without repeating anything. The next owner may repeat, but what it delivers for
 * the first time comes after everything that was delivered before: else the owner before it had left a gap.
 */
const withinShards = (deliveries: ReadonlyArray<Delivery>): ReadonlyArray<Delivery> =>
  Object.values(Array.groupBy(deliveries, shardOf)).flatMap((shard) => {
    const seen = new Set<string>()
    let epoch = -1
    let last = ""
    let highest = ""
    return Array.sort(shard, byEpoch).filter((delivery) => {
      const { sequenceNumber } = delivery
      const first = !seen.has(sequenceNumber)
      const follows = (delivery.epoch !== epoch || isAfter(sequenceNumber, last)) &&
        (!first || isAfter(sequenceNumber, highest))
      seen.add(sequenceNumber)
      epoch = delivery.epoch
      last = sequenceNumber
      if (isAfter(sequenceNumber, highest)) highest = sequenceNumber
      return !follows
    })
  })

/** Owners one after another; the sort is stable, so each one's deliveries stay as they were reported. */
const byEpoch = Order.mapInput(Order.number, ({ epoch }: Delivery) => epoch)

const isAfter = (sequenceNumber: string, other: string): boolean => SequenceNumber.compare(sequenceNumber, other) > 0

/** A key moves to another shard when its stream is resharded. Its records still come in the order of their numbers. */
const withinKeys = (deliveries: ReadonlyArray<Delivery>): ReadonlyArray<Delivery> =>
  Object.values(Array.groupBy(deliveries, ({ key, stream }) => `${stream}/${key}`)).flatMap((ofKey) => {
    const firsts = new Map<number, Delivery>()
    for (const delivery of ofKey) {
      const earliest = firsts.get(delivery.number)
      if (earliest === undefined || delivery.at < earliest.at) firsts.set(delivery.number, delivery)
    }
    let latest = -Infinity
    return Array.sort(firsts.values(), byNumber).filter(({ at }) => {
      const early = at < latest
      latest = Math.max(latest, at)
      return early
    })
  })

const byNumber = Order.mapInput(Order.number, ({ number }: Delivery) => number)
