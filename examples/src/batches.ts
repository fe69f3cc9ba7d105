/**
 * Records to a sink that takes many at once, and may refuse some of them: only these are tried again, with those that have
 * to keep their order behind them.
 */
import { Kinesumer, type KinesumerRecord, Payload, Processing } from "@kinesumer/core"
import { LocalKinesis } from "@kinesumer/test-kit"
import { Array, Data, Effect, HashMap, HashSet, Option, Ref, Schedule, Schema } from "effect"
import * as Local from "./local.js"

/** What an account holds after a number of changes. */
const Balance = Schema.Struct({ account: Schema.String, change: Schema.Int, cents: Schema.Int })

class Refused extends Data.TaggedError("Refused")<{ readonly reason: "busy" | "invalid" }> {
  override get message(): string {
    return `The table refused the row: ${this.reason}`
  }
}

type Decoded = Payload.DecodedRecord<typeof Balance.Type>

/** Writes rows, and says which ones it did not. */
type WriteAll = (rows: ReadonlyArray<Decoded>) => Effect.Effect<ReadonlyArray<Processing.RecordFailure<Refused>>>

/** What the consumer does. Of an account the last balance counts, so what comes again with a failed one does no harm. */
const consume = (
  writeAll: WriteAll,
  putDeadLetter: (record: KinesumerRecord.KinesumerRecord) => Effect.Effect<void>
) =>
  Effect.flatMap(Payload.decoder(Payload.json(Balance)), (decode) =>
    Kinesumer.processBatch(
      (records) =>
        Effect.gen(function*() {
          // What does not decode fails alone, too.
          const [invalid, rows] = yield* Effect.partition(
            records,
            (record) => Effect.mapError(decode(record), () => ({ record, error: new Refused({ reason: "invalid" }) }))
          )
          const failures = [...invalid, ...yield* writeAll(rows)]
          if (failures.length > 0) return yield* new Processing.BatchFailed({ failures })
        }),
      {
        size: 50,
        maxWait: "100 millis",
        ordering: "partitionKey",
        retry: Schedule.intersect(Schedule.exponential("50 millis"), Schedule.recurs(2)),
        onFailure: ({ record }) => putDeadLetter(record)
      }
    )).pipe(Effect.provide(Local.member({ app: "batches", streams: ["balances"] })))

/** The table refuses a row of each account once, as a sink that is busy does: that with n behind it of account n. */
const makeTable = Effect.gen(function*() {
  const rows = yield* Ref.make(HashMap.empty<string, number>())
  const refused = yield* Ref.make(HashSet.empty<string>())
  const write = (record: Decoded) =>
    Effect.gen(function*() {
      const { sequenceNumber, value: { account, cents, change } } = record
      if (cents < 0) return yield* new Refused({ reason: "invalid" })
      const isBusy = account === `account-${changes - change}` && !HashSet.has(yield* Ref.get(refused), sequenceNumber)
      yield* Ref.update(refused, HashSet.add(sequenceNumber))
      if (isBusy) return yield* new Refused({ reason: "busy" })
      yield* Ref.update(rows, HashMap.set(account, change))
    }).pipe(Effect.mapError((error) => ({ record, error })))
  const writeAll: WriteAll = (all) => Effect.map(Effect.partition(all, write), ([failures]) => failures)
  return { rows: Ref.get(rows), writeAll }
})

/** Twenty changes of each of ten accounts; one of them cannot be. */
const changes = 20
const puts = Array.flatMap(Array.range(1, changes), (change) =>
  Array.makeBy(10, (index) => ({
    account: `account-${index}`,
    change,
    cents: index === 3 && change === 10 ? -1 : change * 100
  })))
const accounts = Array.dedupe(puts.map(({ account }) => account))

export const run = Effect.gen(function*() {
  const { kinesis } = yield* LocalKinesis.LocalKinesis
  yield* Effect.forEach(
    puts,
    (balance) => kinesis.put({ stream: "balances", partitionKey: balance.account, data: JSON.stringify(balance) })
  )
  const table = yield* makeTable
  const letters = yield* Ref.make(HashSet.empty<string>())

  const outcome = Effect.gen(function*() {
    const rows = yield* table.rows
    return {
      put: puts.length,
      accounts: HashMap.size(rows),
      deadLetters: HashSet.size(yield* Ref.get(letters)),
      // Whose last change is not what the table holds.
      stale: accounts.filter((account) => Option.getOrUndefined(HashMap.get(rows, account)) !== changes).length
    }
  })
  const isGood = (found: Effect.Effect.Success<typeof outcome>) => found.stale === 0 && found.deadLetters === 1
  const consumer = consume(
    table.writeAll,
    ({ sequenceNumber }) => Ref.update(letters, HashSet.add(sequenceNumber))
  )
  const found = yield* Effect.raceFirst(Effect.zipRight(consumer, outcome), Local.lookUntil(outcome, isGood))
  yield* Local.report(found, isGood(found))
}).pipe(Effect.provide(Local.layer({ name: "balances" })))
