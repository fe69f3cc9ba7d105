/** Where records go that can't be handled: a stream of their own, with the reason and the record as it was. */
import * as Sdk from "@aws-sdk/client-kinesis"
import type { Processing } from "@kinesumer/core"
import { Context, Effect, Layer, Schema } from "effect"
import * as Kinesis from "../demo/kinesis.js"

export const DeadLetter = Schema.Struct({
  stream: Schema.String,
  shardId: Schema.String,
  sequenceNumber: Schema.String,
  partitionKey: Schema.String,
  data: Schema.Uint8ArrayFromBase64,
  reason: Schema.String,
  attempts: Schema.Int
})
export type DeadLetter = typeof DeadLetter.Type

const Json = Schema.parseJson(DeadLetter)

export const decode = (data: Uint8Array): DeadLetter => Schema.decodeSync(Json)(new TextDecoder().decode(data))

export class DeadLetters extends Context.Tag("@kinesumer/examples/DeadLetters")<DeadLetters, {
  readonly put: (
    failed: Processing.FailedRecord<{ readonly message: string }>
  ) => Effect.Effect<void, Kinesis.KinesisFailed>
}>() {}

export const layer = (StreamName: string) =>
  Layer.effect(
    DeadLetters,
    Effect.map(Kinesis.Kinesis, ({ use }) => ({
      put: ({ attempts, error, record }) => {
        const letter = Schema.encodeSync(Json)({ ...record, reason: error.message, attempts })
        return use("PutRecord", (client, abort) =>
          client.send(
            new Sdk.PutRecordCommand({
              StreamName,
              PartitionKey: record.partitionKey,
              Data: new TextEncoder().encode(letter)
            }),
            abort
          ))
      }
    }))
  )
