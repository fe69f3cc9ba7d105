/**
 * A consumer-group client for Amazon Kinesis Data Streams, written for Effect.
 *
 * @since 0.1.0
 */
export * as KinesisClient from "./KinesisClient.js"
export * as KinesisError from "./KinesisError.js"
export * as Position from "./Position.js"
export * as SequenceNumber from "./SequenceNumber.js"
export * as Shard from "./Shard.js"
export * as StateStore from "./StateStore.js"
export * as StateStoreError from "./StateStoreError.js"
