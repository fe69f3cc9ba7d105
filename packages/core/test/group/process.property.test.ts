/**
 * `process` and `processBatch` in a group, for any interleaving of completions, failures, crashes and hand-overs: no commit
 * is past a record that is not finished, no record of a key is finished before the one before it, and every record is.
 */
import { assert, describe, it } from "@effect/vitest"
import type { StateStore } from "@kinesumer/core"
import { Kinesumer, type KinesumerRecord, Position, Processing, StateStoreError } from "@kinesumer/core"
import { Effect, FastCheck, Fiber, Ref, Schedule, TestClock } from "effect"
import { dataOf } from "./processSupport.js"
import { member, shardId, type World, world } from "./support.js"

const shards = 2
const keys = 3

/** What the handler does with a record: how long it takes, and how often it fails before that. */
interface Fate {
  readonly millis: number
  readonly failures: number
  readonly defect: boolean
}

type Event = "join" | "leave" | "crash" | "interrupt" | "nothing"

const { array, boolean, constantFrom, integer, record } = FastCheck

const fate: FastCheck.Arbitrary<Fate> = record({
  millis: constantFrom(0, 0, 50, 700, 2_500),
  failures: constantFrom(0, 0, 0, 1, 2, 9),
  defect: boolean()
})

const plan = record({
  fates: array(fate, { minLength: 20, maxLength: 60 }),
  events: array(constantFrom<Event>("join", "leave", "crash", "interrupt", "nothing"), { minLength: 3, maxLength: 8 }),
  ordering: constantFrom<Processing.Ordering>("shard", "partitionKey", "none"),
  concurrency: integer({ min: 1, max: 6 }),
  maxInFlight: integer({ min: 4, max: 30 }),
  size: constantFrom(1, 1, 3)
})

/** A store that tells what was committed, and can be cut off. */
const watched = (w: World, onCommit: (shard: string, position: Position.Position) => Effect.Effect<void>) =>
  Effect.map(Ref.make(false), (crashed) => {
    const error = new StateStoreError.StateStoreError({ reason: "Unavailable", operation: "any", detail: "cut off" })
    const cut = <A, E>(effect: Effect.Effect<A, E>) =>
      Effect.zipRight(Effect.whenEffect(Effect.fail(error), Ref.get(crashed)), effect)
    const { store } = w
    const wrapped: StateStore.StateStore["Type"] = {
      ...store,
      heartbeat: (app, one) => cut(store.heartbeat(app, one)),
      listMembers: (app) => cut(store.listMembers(app)),
      listShardVersions: (app) => cut(store.listShardVersions(app)),
      acquireLeases: (app, owner, requests) => cut(store.acquireLeases(app, owner, requests)),
      releaseLeases: (app, owner, leases) => cut(store.releaseLeases(app, owner, leases)),
      deregisterMember: (app, owner) => cut(store.deregisterMember(app, owner)),
      commitCheckpoints: (app, owner, commits) =>
        cut(Effect.zipRight(
          Effect.forEach(commits, ({ position, shardId }) => onCommit(shardId, position), { discard: true }),
          store.commitCheckpoints(app, owner, commits)
        ))
    }
    return { store: wrapped, cutOff: Ref.set(crashed, true) }
  })

class Refused {
  readonly _tag = "Refused"
}

describe("process in a group", () => {
  it.scoped.prop(
    "never commits past an unfinished record, and keeps the order of keys",
    { plan },
    ({ plan }) =>
      Effect.gen(function*() {
        const w = yield* world()
        yield* w.kinesis.createStream({ name: "orders", shards })
        const orderedBy = ({ partitionKey, shardId }: KinesumerRecord.KinesumerRecord) =>
          plan.ordering === "shard" ? shardId : `${shardId}/${partitionKey}`
        const fates = new Map<string, Fate>()
        const sequence = new Map<string, Array<{ readonly data: string; readonly position: Position.Position }>>()
        for (const [index, one] of plan.fates.entries()) {
          const data = `${index}`
          const shard = shardId(index % shards)
          const put = yield* w.kinesis.putTo({
            stream: "orders",
            shardId: shard,
            data,
            partitionKey: `key-${(index >> 1) % keys}`
          })
          fates.set(data, one)
          const ofShard = sequence.get(shard) ?? []
          ofShard.push({ data, position: Position.afterSequence(put.sequenceNumber) })
          sequence.set(shard, ofShard)
        }

        const finished = new Set<string>()
        const tries = new Map<string, number>()
        const problems: Array<string> = []

        const finish = (one: KinesumerRecord.KinesumerRecord) => {
          const number = Number(dataOf(one))
          if (plan.ordering !== "none") {
            const key = orderedBy(one)
            // All of its key that came before have been finished by somebody: it may come again, and never too early.
            const before = [...fates.keys()].map(Number).filter((other) =>
              other < number && other % shards === number % shards &&
              (plan.ordering === "shard" || (other >> 1) % keys === (number >> 1) % keys)
            )
            for (const other of before) {
              if (!finished.has(`${other}`)) problems.push(`${key}: ${number} before ${other}`)
            }
          }
          finished.add(dataOf(one))
        }

        const onCommit = (shard: string, position: Position.Position) =>
          Effect.sync(() => {
            for (const one of sequence.get(shard) ?? []) {
              if (Position.compare(one.position, position) <= 0 && !finished.has(one.data)) {
                problems.push(`committed past ${one.data}`)
              }
            }
          })

        const join = (memberId: string) =>
          Effect.gen(function*() {
            const { cutOff, store } = yield* watched(w, onCommit)
            const one = yield* member(w, { memberId, commit: { interval: "500 millis" } }, { store })
            let active = 0
            const work = (record: KinesumerRecord.KinesumerRecord) =>
              Effect.gen(function*() {
                const { defect, failures, millis } = fates.get(dataOf(record)) ??
                  { millis: 0, failures: 0, defect: false }
                yield* Effect.sleep(millis)
                const attempt = (tries.get(dataOf(record)) ?? 0) + 1
                tries.set(dataOf(record), attempt)
                if (attempt <= failures) return yield* (defect ? Effect.die("a bug") : Effect.fail(new Refused()))
                finish(record)
              })
            const counted = <A, E>(effect: Effect.Effect<A, E>) =>
              Effect.acquireUseRelease(
                Effect.sync(() => {
                  active++
                  if (active > plan.concurrency) problems.push(`${active} handlers`)
                }),
                () => effect,
                () =>
                  Effect.sync(() => {
                    active--
                  })
              )
            const options = {
              ordering: plan.ordering,
              concurrency: plan.concurrency,
              maxInFlight: plan.maxInFlight,
              retry: Schedule.intersect(Schedule.spaced("300 millis"), Schedule.recurs(3)),
              timeout: "2 seconds",
              onFailure: ({ record }: Processing.FailedRecord<unknown>) =>
                Effect.sync(() => {
                  finish(record)
                })
            } as const
            const run = plan.size === 1
              ? Kinesumer.process((record) => counted(work(record)), options)
              : Kinesumer.processBatch((records) =>
                counted(Effect.gen(function*() {
                  const failures = new Map<string, Processing.RecordFailure<Refused>>()
                  for (const [index, record] of records.entries()) {
                    const key = plan.ordering === "none" ? `${index}` : orderedBy(record)
                    // What is behind a failed one waits for its turn.
                    if (failures.has(key)) continue
                    const outcome = yield* Effect.either(work(record))
                    if (outcome._tag === "Left") failures.set(key, { record, error: outcome.left })
                  }
                  if (failures.size > 0) yield* new Processing.BatchFailed({ failures: [...failures.values()] })
                })), { ...options, size: plan.size, maxWait: "100 millis" })
            const start = Effect.fork(Effect.provideService(run, Kinesumer.Kinesumer, one.service))
            const fiber = yield* Ref.make(yield* start)
            const stop = Effect.flatMap(Ref.get(fiber), Fiber.interrupt)
            return {
              leave: Effect.zipRight(stop, one.close),
              crash: Effect.zipRight(cutOff, stop),
              interrupt: Effect.zipRight(stop, Effect.flatMap(start, (next) => Ref.set(fiber, next)))
            }
          })

        let count = 1
        const members = [yield* join("m1")]
        for (const event of plan.events) {
          yield* Effect.repeatN(TestClock.adjust("300 millis"), 3)
          const [first] = members
          switch (event) {
            case "join":
              if (members.length < 3) members.push(yield* join(`m${++count}`))
              break
            case "leave":
            case "crash":
              if (members.length > 1) {
                members.shift()
                yield* first?.[event] ?? Effect.void
              }
              break
            case "interrupt":
              yield* first?.interrupt ?? Effect.void
              break
            case "nothing":
              break
          }
        }
        const isDone = () => problems.length > 0 || finished.size === plan.fates.length
        for (let second = 0; second < 240 && !isDone(); second++) yield* TestClock.adjust("1 second")
        assert.deepStrictEqual(problems, [])
        assert.strictEqual(finished.size, plan.fates.length)
      }),
    { timeout: 180_000, fastCheck: { numRuns: 8 } }
  )
})
