/**
 * The records that a group hands to user code.
 *
 * @since 0.1.0
 */

/**
 * One record of a shard.
 *
 * @since 0.1.0
 * @category models
 */
export interface KinesumerRecord {
  /** The stream, as it was configured: a name or an ARN. */
  readonly stream: string
  readonly shardId: string
  readonly partitionKey: string
  /**
   * The hash key that the producer gave in place of that of the partition key. It is known of records within an aggregate
   * only: Kinesis does not tell that of a record that stands for itself.
   */
  readonly explicitHashKey?: string | undefined
  /**
   * A view of the whole answer that it came with, which stays in memory for as long: copy what is kept, or is sent to
   * another thread.
   */
  readonly data: Uint8Array
  readonly sequenceNumber: string
  /** The place within an aggregate; `undefined` for a record that stands for itself. */
  readonly subSequenceNumber: number | undefined
  /** When Kinesis took the record in, by its clock, to the millisecond; approximate, as Kinesis says itself. */
  readonly arrivalTime: Date | undefined
  /** How far behind the tip of the shard it was read, in milliseconds; `undefined` where Kinesis does not say. */
  readonly millisBehindLatest: number | undefined
  /** The epoch of the lease under which it was read: a fencing token for what is written because of it. */
  readonly epoch: number
}
