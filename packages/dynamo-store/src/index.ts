/**
 * The state of a Kinesumer consumer group in Amazon DynamoDB.
 *
 * @since 0.1.0
 */
export * as DynamoStateStore from "./DynamoStateStore.js"
