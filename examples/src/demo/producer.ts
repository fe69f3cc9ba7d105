/** Fills a stream, a little every second. */
import * as Sdk from "@aws-sdk/client-kinesis"
import { Array, Effect, Either } from "effect"
import * as Kinesis from "./kinesis.js"
import type { Put } from "./ledger.js"
import * as Payload from "./payload.js"

const allKeys = Array.makeBy(50, (index) => `key-${index + 1}`)

/**
 * Puts a record under each of 50 partition keys, a round a second, for a number of rounds and then on until it is
 * enough. No key comes twice in one call, as Kinesis does not promise to keep the order within a call; so the records of
 * a key are in the order of their numbers.
 */
export const run = (stream: string, options: {
  readonly rounds: number
  readonly enough: Effect.Effect<boolean>
  readonly onPut: (puts: ReadonlyArray<Put>) => Effect.Effect<void>
}): Effect.Effect<void, Kinesis.KinesisFailed, Kinesis.Kinesis> =>
  Effect.gen(function*() {
    for (let number = 1; number <= options.rounds || !(yield* options.enough); number++) {
      yield* putAll(stream, number, allKeys, options.onPut)
      yield* Effect.sleep("1 second")
    }
  })

/** Kinesis may take some records of a call and refuse others: those are put again. */
const putAll = (
  stream: string,
  number: number,
  keys: ReadonlyArray<string>,
  onPut: (puts: ReadonlyArray<Put>) => Effect.Effect<void>
): Effect.Effect<void, Kinesis.KinesisFailed, Kinesis.Kinesis> =>
  Effect.gen(function*() {
    const { use } = yield* Kinesis.Kinesis
    const { Records: answers = [] } = yield* use("PutRecords", (client, abort) =>
      client.send(
        new Sdk.PutRecordsCommand({
          StreamName: stream,
          Records: keys.map((PartitionKey) => ({ PartitionKey, Data: Payload.encode(number) }))
        }),
        abort
      ))
    const [refused, puts] = Array.partitionMap(keys, (key, index) => {
      const { SequenceNumber: sequenceNumber, ShardId: shardId } = answers[index] ?? {}
      return sequenceNumber === undefined || shardId === undefined
        ? Either.left(key)
        : Either.right({ stream, shardId, sequenceNumber, key, number })
    })
    yield* onPut(puts)
    if (refused.length > 0) {
      yield* Effect.delay(putAll(stream, number, refused, onPut), "200 millis")
    }
  })
