/**
 * What user code was handed, checked record for record.
 *
 * @internal
 */
import type { KinesumerRecord } from "@kinesumer/core/KinesumerRecord"
import type { Journal } from "./journal.js"
import type * as Leases from "./leases.js"
import * as Truth from "./truth.js"

/**
 * One run of a stream of one member.
 *
 * @internal
 */
export interface StreamRun {
  readonly memberId: string
  /** The starts of the member that belong to the process. */
  readonly incarnations: ReadonlySet<string>
  readonly number: number
  /** The place of the last record of each shard, by epoch. */
  readonly last: Map<string, number>
}

/** @internal */
export interface Deliveries {
  /** A chunk comes out of the stream. */
  readonly delivered: (run: StreamRun, records: Iterable<KinesumerRecord>) => void
  /** A handler is done with a record. */
  readonly processed: (record: KinesumerRecord) => void
  readonly count: () => number
}

/** @internal */
export const make = (options: {
  readonly elapsed: () => number
  readonly livenessTimeout: number
  readonly truth: Truth.Truth
  readonly leases: Leases.Leases
  readonly journal: Journal
}): Deliveries => {
  const { elapsed, journal, leases, livenessTimeout, truth } = options
  let count = 0

  const check = (run: StreamRun, record: KinesumerRecord) => {
    const what = `${run.memberId} was handed ${record.stream}/${record.shardId} ${record.sequenceNumber} ` +
      `under epoch ${record.epoch}`
    const shard = truth.shards.get(Truth.keyOf(record.stream, record.shardId))
    const place = shard === undefined ? undefined : Truth.placeOf(shard, record)
    if (shard === undefined || place === undefined) return journal.violation("P1", `${what}, which was never put`)
    count++
    const key = `${shard.key}/${record.epoch}`
    const last = run.last.get(key)
    run.last.set(key, place)
    if (last === undefined) {
      journal.note(() => `${what} (record ${place}, run ${run.number})`)
      checkLease(run, record, what)
      checkParents(shard, what)
      const first = Truth.firstUnprocessed(truth, shard)
      if (place > first && !Truth.isGap(truth, shard, first, place)) {
        journal.violation("P2", `${what}, record ${place}, although record ${first} is not processed`)
      }
    } else if (place !== last + 1 && !Truth.isGap(truth, shard, last + 1, place)) {
      journal.violation("P2", `${what}, record ${place}, after record ${last}`)
    }
  }

  const checkLease = (run: StreamRun, { epoch, shardId, stream }: KinesumerRecord, what: string) => {
    const { grants } = leases.of(stream, shardId)
    if (!grants.some((grant) => grant.epoch === epoch && run.incarnations.has(grant.owner.incarnation))) {
      journal.violation("P5", `${what}, which it was not granted`)
    }
    const later = grants.find((grant) => grant.epoch > epoch && !run.incarnations.has(grant.owner.incarnation))
    // Whoever is replaced under its own id learns it from its next heartbeat, or stops when it can't have one.
    const isReplaced = later?.owner.memberId === run.memberId && elapsed() - later.at < livenessTimeout
    if (later !== undefined && !isReplaced) {
      journal.violation("P5", `${what}, although ${later.owner.memberId} has it under epoch ${later.epoch}`)
    }
  }

  const checkParents = (shard: Truth.TruthShard, what: string) => {
    for (const parentId of shard.parents) {
      const parent = truth.shards.get(Truth.keyOf(shard.stream, parentId))
      if (parent === undefined || !parent.listed) continue
      if (!leases.isEnded(shard.stream, parentId)) {
        journal.violation("P3", `${what}, although the end of its parent ${parentId} is not committed`)
      }
    }
  }

  return {
    delivered: (run, records) => {
      let previous = ""
      for (const record of records) {
        // The lease is judged once for a slice, at the moment at which it is handed over.
        const key = `${record.stream}/${record.shardId}/${record.epoch}`
        if (key !== previous) {
          previous = key
          if (run.last.has(`${Truth.keyOf(record.stream, record.shardId)}/${record.epoch}`)) {
            checkLease(run, record, `${run.memberId} was handed ${key} ${record.sequenceNumber}`)
          }
        }
        check(run, record)
      }
    },
    processed: (record) => {
      const shard = truth.shards.get(Truth.keyOf(record.stream, record.shardId))
      const place = shard === undefined ? undefined : Truth.placeOf(shard, record)
      const known = place === undefined ? undefined : shard?.records[place]
      if (known !== undefined) known.processed = true
    },
    count: () => count
  }
}
