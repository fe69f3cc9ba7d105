/**
 * Records that a producer has put together: each part comes as a record of its own, and a consumer that stops in the middle
 * of an aggregate goes on with the next part.
 */
import { Kinesumer } from "@kinesumer/core"
import { LocalKinesis } from "@kinesumer/test-kit"
import { aggregate } from "aws-kinesis-agg"
import { Array, Chunk, Console, Effect, Stream } from "effect"
import * as Local from "./local.js"

/** What the consumer does: it prints and marks so many records, and leaves the group. */
const consume = (count: number) =>
  Effect.gen(function*() {
    const kinesumer = yield* Kinesumer.Kinesumer
    return yield* kinesumer.records.pipe(
      Stream.tap(({ data, explicitHashKey, partitionKey, sequenceNumber, subSequenceNumber }) =>
        Console.log(
          `${sequenceNumber.slice(-20)}/${subSequenceNumber} ${new TextDecoder().decode(data)}: ` +
            (explicitHashKey === undefined ? `key ${partitionKey}` : `hash key ${explicitHashKey}`)
        )
      ),
      Stream.tap((record) => kinesumer.mark(record)),
      Stream.take(count),
      Stream.runCollect
    )
  }).pipe(
    Effect.provide(Local.member({ app: "aggregates", streams: ["orders"], commit: { mode: "manual" } })),
    Effect.timeout("30 seconds")
  )

interface UserRecord {
  readonly data: string
  readonly partitionKey: string
  readonly explicitHashKey: string | undefined
}

/** Three aggregates of ten. */
const puts = Array.makeBy(30, (index): UserRecord => ({
  data: `order ${index + 1}`,
  partitionKey: `customer-${index % 4}`,
  explicitHashKey: index % 5 === 0 ? `${2n ** 100n + BigInt(index)}` : undefined
}))

/** Packs records as the KPL does; the library is the one that AWS has for Node.js. */
const pack = (records: ReadonlyArray<UserRecord>) =>
  Effect.async<Uint8Array, Error>((resume) =>
    aggregate(
      // It writes into what it is given.
      records.map((record) => ({ ...record })),
      ({ data }, done) => {
        resume(Effect.succeed(data))
        done()
      },
      () => {},
      (error) => resume(Effect.fail(error))
    )
  )

export const run = Effect.gen(function*() {
  const { kinesis } = yield* LocalKinesis.LocalKinesis
  yield* Effect.forEach(
    Array.chunksOf(puts, 10),
    (records) => Effect.flatMap(pack(records), (data) => kinesis.put({ stream: "orders", partitionKey: "all", data }))
  )

  const before = yield* consume(14)
  yield* Console.log("the consumer stops in the middle of the second aggregate, and starts again")
  const after = yield* consume(16)

  const handled = Chunk.toReadonlyArray(Chunk.appendAll(before, after)).map((record): UserRecord => ({
    data: new TextDecoder().decode(record.data),
    partitionKey: record.partitionKey,
    explicitHashKey: record.explicitHashKey
  }))
  const names = new Set(handled.map(({ data }) => data))
  const outcome = {
    put: puts.length,
    handled: names.size,
    lost: puts.filter(({ data }) => !names.has(data)).length,
    repeated: handled.length - names.size,
    resumedAt: Chunk.unsafeHead(after).subSequenceNumber ?? -1
  }
  // The same records with the same keys, in the same order.
  yield* Local.report(outcome, outcome.resumedAt === 4 && JSON.stringify(handled) === JSON.stringify(puts))
}).pipe(Effect.provide(Local.layer({ name: "orders" })))
