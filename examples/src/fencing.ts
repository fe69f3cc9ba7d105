/**
 * A shard goes to another member while a write for one of its records is under way. `whileLeased` gives the write up, and a
 * database that keeps the epoch of each shard refuses it when it arrives all the same.
 */
import { FileSystem, Path } from "@effect/platform"
import { SqlClient, type SqlError } from "@effect/sql"
import { Kinesumer, type KinesumerRecord } from "@kinesumer/core"
import { LocalKinesis } from "@kinesumer/test-kit"
import { Array, Config, Console, Data, Deferred, Effect, Fiber, Layer, Ref, Stream } from "effect"
import * as Local from "./local.js"
import * as Database from "./orders/database.js"

class Refused extends Data.TaggedError("Refused")<{ readonly record: KinesumerRecord.KinesumerRecord }> {
  override get message(): string {
    const { epoch, sequenceNumber, shardId } = this.record
    return `The database knows a later epoch of ${shardId} than ${epoch}: record ${sequenceNumber} is not written`
  }
}

type Save = (
  record: KinesumerRecord.KinesumerRecord
) => Effect.Effect<void, SqlError.SqlError | Refused, SqlClient.SqlClient>

const createTables = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  Effect.all([
    sql`CREATE TABLE epochs (shard TEXT PRIMARY KEY, epoch BIGINT NOT NULL)`,
    sql`CREATE TABLE states (customer TEXT PRIMARY KEY, state TEXT NOT NULL)`
  ]))

/** Writes only under the latest epoch of the shard that the database has seen. */
const save: Save = (record) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    sql.withTransaction(Effect.gen(function*() {
      const latest = yield* sql`
        INSERT INTO epochs (shard, epoch) VALUES (${`${record.stream}/${record.shardId}`}, ${record.epoch})
        ON CONFLICT (shard) DO UPDATE SET epoch = excluded.epoch WHERE epochs.epoch <= excluded.epoch
        RETURNING epoch`
      if (latest.length === 0) return yield* new Refused({ record })
      yield* sql`
        INSERT INTO states (customer, state) VALUES (${record.partitionKey}, ${new TextDecoder().decode(record.data)})
        ON CONFLICT (customer) DO UPDATE SET state = excluded.state`
    })))

/** What a member does with the records of its shards. */
const consume = (memberId: string, save: Save) =>
  Effect.flatMap(Kinesumer.Kinesumer, (kinesumer) =>
    Stream.runDrain(Stream.flatMap(
      kinesumer.shards,
      ({ records }) =>
        Stream.mapEffect(
          records,
          (record) => save(record).pipe(Kinesumer.whileLeased(record), Effect.zipRight(kinesumer.mark(record)))
        ).pipe(
          // The next owner does it. The other shards of this member go on.
          Stream.catchTag("LeaseLost", ({ message }) => Stream.execute(Console.log(`${memberId}: ${message}`)))
        ),
      { concurrency: "unbounded" }
    ))).pipe(
      Effect.provide(Local.member({ app: "fencing", streams: ["customers"], memberId, commit: { mode: "manual" } }))
    )

/** The fifth of ten states of a customer is on its way when the shard of one of the two goes to another member. */
const customers = ["customer-0", "customer-1"]
const last = 10
const slow = "5"

export const run = Effect.gen(function*() {
  const { kinesis } = yield* LocalKinesis.LocalKinesis
  const sql = yield* SqlClient.SqlClient
  yield* createTables
  const shards = yield* kinesis.shards("customers")
  for (const state of Array.range(1, last)) {
    for (const [index, partitionKey] of customers.entries()) {
      const shardId = shards[index]?.shardId ?? ""
      yield* kinesis.putTo({ stream: "customers", shardId, partitionKey, data: `${state}` })
    }
  }

  const scope = yield* Effect.scope
  const arrival = yield* Deferred.make<void>()
  const underWay = yield* Ref.make(0)
  const refused = yield* Ref.make(0)
  const increment = (n: number) => n + 1
  /** Whoever waits for such a write may give up. It was sent, and it arrives. */
  const saveSlowly: Save = (record) =>
    new TextDecoder().decode(record.data) === slow
      ? Deferred.await(arrival).pipe(
        Effect.zipRight(save(record)),
        Effect.tapErrorTag("Refused", ({ message }) =>
          Effect.zipRight(Console.log(message), Ref.update(refused, increment))),
        Effect.forkIn(scope),
        Effect.zipLeft(Ref.update(underWay, increment)),
        Effect.flatMap(Fiber.join)
      )
      : save(record)

  const outcome = Effect.gen(function*() {
    const states = yield* sql<{ readonly state: string }>`SELECT state FROM states`
    return {
      customers: customers.length,
      done: states.filter(({ state }) => state === `${last}`).length,
      refused: yield* Ref.get(refused)
    }
  })
  const start = (...member: Parameters<typeof consume>) =>
    Effect.forkScoped(Effect.tapErrorCause(consume(...member), Effect.logError))

  yield* start("first", saveSlowly)
  yield* Local.lookUntil(Ref.get(underWay), (count) => count === customers.length)
  yield* Console.log("two writes are under way, and a second member joins")
  yield* start("second", save)
  yield* Local.lookUntil(outcome, ({ done }) => done === 1)
  yield* Console.log("it is through with the shard that it has got; now the writes of the first one arrive")
  yield* Deferred.succeed(arrival, undefined)
  const isGood = ({ done, refused }: Effect.Effect.Success<typeof outcome>) =>
    done === customers.length && refused === 1
  const found = yield* Local.lookUntil(outcome, isGood)
  yield* Local.report(found, isGood(found))
}).pipe(
  Effect.scoped,
  Effect.provide(Layer.merge(
    Local.layer({ name: "customers", shards: customers.length }),
    Layer.unwrapScoped(Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const directory = yield* fs.makeTempDirectoryScoped({ prefix: "kinesumer-fencing-" })
      return Database.layer(Config.succeed(`file:${path.join(directory, "states.db")}`))
    }))
  ))
)
