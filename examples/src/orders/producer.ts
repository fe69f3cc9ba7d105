/** Puts the orders, and one record in a hundred that is none. */
import * as Sdk from "@aws-sdk/client-kinesis"
import { Array, Effect, Either } from "effect"
import * as Kinesis from "../demo/kinesis.js"
import * as Order from "./order.js"

/** A record that is to be put. `number` counts those of a customer. */
interface Planned {
  readonly customer: string
  readonly number: number
  readonly isPoison: boolean
}

/** One that Kinesis took in. */
export interface Put extends Planned {
  readonly sequenceNumber: string
}

const customers = 50

const plan = (index: number): Planned => ({
  customer: `customer-${(index % customers) + 1}`,
  number: Math.floor(index / customers) + 1,
  isPoison: index % 100 === 42
})

const dataOf = ({ customer, isPoison, number }: Planned): Uint8Array =>
  isPoison
    ? new TextEncoder().encode(`{"customer":"${customer}","number":${number},"amount":"a lot"`)
    : Order.encode({ customer, number, amount: number / 4 })

/** No customer comes twice in one call, since Kinesis does not promise to keep the order within a call. */
export const run = (count: number): Effect.Effect<ReadonlyArray<Put>, Kinesis.KinesisFailed, Kinesis.Kinesis> =>
  Effect.map(Effect.forEach(Array.chunksOf(Array.makeBy(count, plan), customers), putAll), Array.flatten)

/** Kinesis may take some records of a call and refuse others: those are put again. */
const putAll = (
  records: ReadonlyArray<Planned>
): Effect.Effect<ReadonlyArray<Put>, Kinesis.KinesisFailed, Kinesis.Kinesis> =>
  Effect.gen(function*() {
    const { use } = yield* Kinesis.Kinesis
    const { Records: answers = [] } = yield* use("PutRecords", (client, abort) =>
      client.send(
        new Sdk.PutRecordsCommand({
          StreamName: "orders",
          Records: records.map((record) => ({ PartitionKey: record.customer, Data: dataOf(record) }))
        }),
        abort
      ))
    const [refused, puts] = Array.partitionMap(records, (record, index) => {
      const sequenceNumber = answers[index]?.SequenceNumber
      return sequenceNumber === undefined ? Either.left(record) : Either.right({ ...record, sequenceNumber })
    })
    return refused.length === 0 ? puts : [...puts, ...(yield* Effect.delay(putAll(refused), "200 millis"))]
  })
