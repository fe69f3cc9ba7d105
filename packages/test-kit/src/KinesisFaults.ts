/**
 * What faulty Kinesises, local stand-ins above all, have been seen to answer; as actions for `Faults`.
 *
 * @since 0.1.0
 */
import type { GetRecordsResult } from "@kinesumer/core/KinesisClient"
import * as Position from "@kinesumer/core/Position"
import * as Option from "effect/Option"
import * as Actions from "./internal/faultActions.js"
import type { Redirect, Rewrite } from "./internal/faultModel.js"

const page = (
  change: (page: GetRecordsResult, call: {
    readonly iterator: string
    readonly previous: Option.Option<GetRecordsResult>
  }) => Partial<GetRecordsResult>
): Rewrite<"getRecords"> =>
  Actions.rewrite<"getRecords">((answer, { args: [, , { iterator }], previous }) => ({
    ...answer,
    ...change(answer, { iterator, previous })
  }))

/**
 * A page without a next iterator and without children, as if the shard had ended there. Its records stay.
 *
 * @since 0.1.0
 * @category actions
 */
export const falseEnd: Rewrite<"getRecords"> = page(() => ({ nextIterator: Option.none(), childShards: [] }))

/**
 * A page that names no children.
 *
 * @since 0.1.0
 * @category actions
 */
export const noChildren: Rewrite<"getRecords"> = page(() => ({ childShards: [] }))

/**
 * A page without records that stays where it is; the next iterator is the one that was sent.
 *
 * @since 0.1.0
 * @category actions
 */
export const emptyPage: Rewrite<"getRecords"> = page((answer, { iterator }) => ({
  records: [],
  nextIterator: Option.some(iterator),
  childShards: [],
  millisBehindLatest: answer.millisBehindLatest
}))

/**
 * A page that begins with the last `count` records of the page before.
 *
 * @since 0.1.0
 * @category actions
 */
export const repeatRecords = (count: number): Rewrite<"getRecords"> =>
  page((answer, { previous }) => ({
    records: [
      ...Option.match(previous, { onNone: () => [], onSome: ({ records }) => records.slice(-count) }),
      ...answer.records
    ]
  }))

/**
 * A page without its first `count` records.
 *
 * @since 0.1.0
 * @category actions
 */
export const skipRecords = (count: number): Rewrite<"getRecords"> =>
  page((answer) => ({ records: answer.records.slice(count) }))

/**
 * A page whose records stand in reverse order.
 *
 * @since 0.1.0
 * @category actions
 */
export const reverseRecords: Rewrite<"getRecords"> = page((answer) => ({ records: [...answer.records].reverse() }))

/**
 * A page that does not say how far behind the tip it is.
 *
 * @since 0.1.0
 * @category actions
 */
export const noLag: Rewrite<"getRecords"> = page(() => ({ millisBehindLatest: Option.none() }))

/**
 * An iterator after a record that stands at that record.
 *
 * @since 0.1.0
 * @category actions
 */
export const iteratorAtRecord: Redirect<"getShardIterator"> = Actions.redirect<"getShardIterator">(
  (stream, shardId, position) => [
    stream,
    shardId,
    position._tag === "AfterSequence" ? Position.afterSequence(position.sequenceNumber, 0) : position
  ]
)

/**
 * A list of shards in which some are missing.
 *
 * @since 0.1.0
 * @category actions
 */
export const hideShards = (shardIds: ReadonlyArray<string>): Rewrite<"listShards"> =>
  Actions.rewrite<"listShards">(({ nextToken, shards }) => ({
    nextToken,
    shards: shards.filter((shard) => !shardIds.includes(shard.shardId))
  }))

/**
 * A list of shards in which some closed ones look open.
 *
 * @since 0.1.0
 * @category actions
 */
export const reopenShards = (shardIds: ReadonlyArray<string>): Rewrite<"listShards"> =>
  Actions.rewrite<"listShards">(({ nextToken, shards }) => ({
    nextToken,
    shards: shards.map((shard) => shardIds.includes(shard.shardId) ? { ...shard, closed: false } : shard)
  }))
