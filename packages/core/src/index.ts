/**
 * A consumer-group client for Amazon Kinesis Data Streams, written for Effect.
 *
 * @since 0.1.0
 */
export {}
