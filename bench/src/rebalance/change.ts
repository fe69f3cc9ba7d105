/** What a change of the members costs: how long until all is balanced and read again, what moves, and what comes late. */
import { Effect, Option } from "effect"
import { BenchFailed } from "../bench.js"
import { app, type Group, livenessSeconds, syncSeconds } from "./group.js"

export interface Outcome {
  /** From the change until each shard that moved is read by its new owner. */
  readonly seconds: number
  /** Changes of owner, and how many there have to be. */
  readonly moved: number
  readonly least: number
  /** Records that took longer than any did before, and how much longer the worst of them. */
  readonly delayed: number
  readonly delaySeconds: number
  readonly repeated: number
}

/** What comes late comes within this many sync intervals, or not at all. */
const patience = 4

/** How long before the change latencies are looked at. */
const steadyMillis = 20_000

interface Row {
  readonly stream: string
  readonly shardId: string
  readonly owner: string
  readonly epoch: number
}

const rowsOf = (group: Group): Effect.Effect<ReadonlyArray<Row>, BenchFailed> =>
  Effect.forEach(
    group.streams,
    (stream) =>
      Effect.map(group.store.listCheckpoints(app, stream), (rows) =>
        rows.map(({ epoch, owner, shardId }): Row => ({
          stream,
          shardId,
          epoch,
          owner: Option.match(owner, { onNone: () => "nobody", onSome: ({ memberId }) => memberId })
        })))
  ).pipe(
    Effect.map((rows) => rows.flat()),
    Effect.mapError(({ message }) => new BenchFailed({ message }))
  )

const countsOf = (rows: ReadonlyArray<Row>, members: ReadonlyArray<string>): ReadonlyMap<string, number> =>
  new Map(members.map((memberId) => [memberId, rows.filter(({ owner }) => owner === memberId).length]))

/** How many shards must change their owner, so that the members have the same number of them, or one more. */
const leastMoves = (before: ReadonlyMap<string, number>, shards: number): number => {
  const counts = [...before.values()].sort((a, b) => b - a)
  const share = Math.floor(shards / counts.length)
  const larger = shards % counts.length
  // Those that have the most keep one more.
  return shards - counts.reduce((kept, count, index) => kept + Math.min(count, index < larger ? share + 1 : share), 0)
}

/** Carries out a change and looks what becomes of it. `members` are those that are there afterwards. */
export const measure = (group: Group, change: {
  readonly members: ReadonlyArray<string>
  readonly isCrash: boolean
  /** Gives the moment of the change. */
  readonly begin: Effect.Effect<number, BenchFailed>
}): Effect.Effect<Outcome, BenchFailed> =>
  Effect.gen(function*() {
    const before = yield* rowsOf(group)
    const began = yield* change.begin
    yield* group.elapse(`${patience * syncSeconds + (change.isCrash ? livenessSeconds : 0)} seconds`)
    const after = yield* rowsOf(group)

    const counts = [...countsOf(after, change.members).values()]
    const owned = counts.reduce((sum, count) => sum + count, 0)
    if (owned !== group.shards || Math.max(...counts) - Math.min(...counts) > 1) {
      return yield* new BenchFailed({ message: `${group.shards} shards are not balanced: ${counts.join(", ")}` })
    }

    let moved = 0
    let until = began
    for (const { epoch, owner, shardId, stream } of after) {
      const changes = epoch - (before.find((row) => row.stream === stream && row.shardId === shardId)?.epoch ?? 0)
      if (changes === 0) continue
      moved += changes
      const reader = group.notes.readerOf(stream, shardId)
      if (reader?.memberId !== owner) {
        return yield* new BenchFailed({
          message: `${owner} does not read ${shardId}, but ${reader?.memberId ?? "nobody"}`
        })
      }
      until = Math.max(until, reader.since)
    }

    const { deliveries } = group.notes
    const steady = deliveries.filter(({ at }) => at >= began - steadyMillis && at < began)
      .reduce((most, { latency }) => Math.max(most, latency), 0)
    const since = deliveries.filter(({ at }) => at >= began)
    const late = since.filter(({ isRepeated, latency }) => !isRepeated && latency > steady)
    return {
      seconds: (until - began) / 1000,
      moved,
      least: leastMoves(countsOf(before, change.members), group.shards),
      delayed: late.length,
      delaySeconds: late.reduce((most, { latency }) => Math.max(most, latency - steady), 0) / 1000,
      repeated: since.filter(({ isRepeated }) => isRepeated).length
    }
  })
