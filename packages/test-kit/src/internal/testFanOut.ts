import type { KinesisClient } from "@kinesumer/core/KinesisClient"
import * as Stream from "effect/Stream"
import type { Where } from "./refusal.js"
import { refuse } from "./refusal.js"

type Operation =
  | "registerConsumer"
  | "describeConsumer"
  | "listConsumers"
  | "deregisterConsumer"
  | "subscribeToShard"

const missing = (where: Where) => refuse(where, "NotFound", "This Kinesis has no consumers")

/** @internal */
export const none: Pick<KinesisClient["Type"], Operation> = {
  registerConsumer: (stream) => missing({ operation: "registerConsumer", stream }),
  describeConsumer: (stream) => missing({ operation: "describeConsumer", stream }),
  listConsumers: (stream) => missing({ operation: "listConsumers", stream }),
  deregisterConsumer: (stream) => missing({ operation: "deregisterConsumer", stream }),
  subscribeToShard: ({ name }, shardId) =>
    Stream.fromEffect(missing({ operation: "subscribeToShard", stream: name, shardId }))
}
