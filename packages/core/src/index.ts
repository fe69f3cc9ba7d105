/**
 * A consumer-group client for Amazon Kinesis Data Streams, written for Effect.
 *
 * @since 0.1.0
 */
export * as KeyValueStateStore from "./KeyValueStateStore.js"
export * as KinesisClient from "./KinesisClient.js"
export * as KinesisError from "./KinesisError.js"
export * as Kinesumer from "./Kinesumer.js"
export * as KinesumerConfig from "./KinesumerConfig.js"
export * as KinesumerError from "./KinesumerError.js"
export * as KinesumerEvent from "./KinesumerEvent.js"
export * as KinesumerMetrics from "./KinesumerMetrics.js"
export * as KinesumerRecord from "./KinesumerRecord.js"
export * as Payload from "./Payload.js"
export * as Position from "./Position.js"
export * as Processing from "./Processing.js"
export * as SequenceNumber from "./SequenceNumber.js"
export * as Shard from "./Shard.js"
export * as StateStore from "./StateStore.js"
export * as StateStoreError from "./StateStoreError.js"
