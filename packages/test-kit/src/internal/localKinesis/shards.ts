/**
 * The operations on shards.
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as Server from "../testServer.js"
import * as TestStream from "../testStream.js"
import * as Input from "./input.js"
import type { Answer, Operation, Result } from "./operation.js"
import * as Operations from "./operation.js"
import { positionOf, positionType } from "./position.js"
import * as ShardFilter from "./shardFilter.js"
import { shardMembers } from "./shardMembers.js"
import { findActive } from "./streams.js"
import * as Tokens from "./tokens.js"
import * as Wire from "./wireError.js"

const listShards = Operations.make(
  ({ time }) =>
    Schema.Struct({
      ...Input.address,
      NextToken: Input.maybe(Schema.String),
      ExclusiveStartShardId: Input.maybe(Schema.String),
      MaxResults: Input.maybe(Input.within(1, 10_000)),
      StreamCreationTimestamp: Input.maybe(time),
      ShardFilter: Input.maybe(Schema.Struct({
        Type: Schema.Literal(
          "AFTER_SHARD_ID",
          "AT_TRIM_HORIZON",
          "FROM_TRIM_HORIZON",
          "AT_LATEST",
          "AT_TIMESTAMP",
          "FROM_TIMESTAMP"
        ),
        ShardId: Input.maybe(Schema.String),
        Timestamp: Input.maybe(time)
      }))
    }),
  (server, input) =>
    Either.gen(function*() {
      const { ExclusiveStartShardId, MaxResults, NextToken, ShardFilter: asked } = input
      if (NextToken !== undefined) {
        if (input.StreamName !== undefined || ExclusiveStartShardId !== undefined) {
          return yield* Either.left(
            Wire.invalidArgument("NextToken stands for the stream: leave StreamName and ExclusiveStartShardId out")
          )
        }
        const { filter, token } = Tokens.splitFilter(NextToken)
        const stream = Tokens.streamOfPage(server, token)?.arn ?? input.StreamARN
        if (stream === undefined) return yield* Either.left(Wire.invalidArgument("NextToken is none of a stream"))
        return yield* listPage(server, { stream, token, filter, limit: MaxResults })
      }
      const filter = asked === undefined
        ? undefined
        : { type: asked.Type, shardId: asked.ShardId, time: asked.Timestamp }
      const stream = yield* Input.addressed(input)
      return yield* listPage(server, { stream, after: ExclusiveStartShardId, filter, limit: MaxResults })
    })
)

const listPage = (server: Server.Server, options: {
  readonly stream: string
  readonly token?: string | undefined
  readonly after?: string | undefined
  readonly filter?: ShardFilter.ShardFilter | undefined
  readonly limit?: number | undefined
}): Result<Answer> =>
  Either.gen(function*() {
    const { after = "", filter, limit = server.pageSize, token } = options
    const where = { operation: "ListShards", stream: options.stream }
    const stream = yield* Server.findActive(server, where)
    const last = token === undefined ? -1 : yield* Server.readToken(server, stream, token, where)
    const isIncluded = filter === undefined ? () => true : ShardFilter.includes(filter, stream, server.now())
    const rest = Array.from(stream.shards.values())
      .filter((shard) => shard.index > last && shard.shardId > after && isIncluded(shard))
    const page = rest.slice(0, Math.min(server.pageSize, limit))
    const end = page.at(-1)
    return {
      members: {
        Shards: page.map(shardMembers),
        NextToken: end !== undefined && rest.length > page.length
          ? Tokens.withFilter(Server.makeToken(server, stream, end.index), filter)
          : undefined
      }
    }
  })

const getShardIterator = Operations.make(
  ({ time }) =>
    Schema.Struct({
      ...Input.address,
      ShardId: Schema.String,
      ShardIteratorType: positionType,
      StartingSequenceNumber: Input.maybe(Schema.String),
      Timestamp: Input.maybe(time)
    }),
  (server, { ShardId: shardId, ShardIteratorType: type, StartingSequenceNumber, Timestamp, ...input }) =>
    Either.gen(function*() {
      const [stream, where] = yield* findActive(server, input, "GetShardIterator")
      const shard = yield* TestStream.findShard(stream, shardId, where)
      const position = yield* positionOf(shard, { type, sequenceNumber: StartingSequenceNumber, time: Timestamp })
      const iterator = yield* Server.getShardIterator(server, shardId, position, { ...where, shardId })
      return { members: { ShardIterator: iterator } }
    })
)

const hashKey = Schema.String.pipe(Schema.pattern(/^(0|[1-9]\d{0,38})$/))

const splitShard = Operations.make(
  () => Schema.Struct({ ...Input.address, ShardToSplit: Schema.String, NewStartingHashKey: hashKey }),
  (server, { NewStartingHashKey, ShardToSplit, ...input }) =>
    Either.gen(function*() {
      const [stream, where] = yield* findActive(server, input, "SplitShard")
      yield* TestStream.split(stream, ShardToSplit, BigInt(NewStartingHashKey), server.now(), where)
      return Operations.nothing
    })
)

const mergeShards = Operations.make(
  () => Schema.Struct({ ...Input.address, ShardToMerge: Schema.String, AdjacentShardToMerge: Schema.String }),
  (server, { AdjacentShardToMerge, ShardToMerge, ...input }) =>
    Either.gen(function*() {
      const [stream, where] = yield* findActive(server, input, "MergeShards")
      yield* TestStream.merge(stream, ShardToMerge, AdjacentShardToMerge, server.now(), where)
      return Operations.nothing
    })
)

const updateShardCount = Operations.make(
  () =>
    Schema.Struct({
      ...Input.address,
      TargetShardCount: Schema.Int.pipe(Schema.positive()),
      ScalingType: Schema.Literal("UNIFORM_SCALING")
    }),
  (server, { TargetShardCount: target, ...input }) =>
    Either.gen(function*() {
      const [stream] = yield* findActive(server, input, "UpdateShardCount")
      const before = TestStream.openShards(stream).length
      if (server.limits && (target > 2 * before || target < before / 2)) {
        return yield* Either.left(
          Wire.invalidArgument(`UpdateShardCount goes from ${before} to half or twice as many shards, not to ${target}`)
        )
      }
      TestStream.reshard(stream, target, server.now())
      return {
        members: {
          StreamName: stream.name,
          StreamARN: stream.arn,
          CurrentShardCount: before,
          TargetShardCount: target
        }
      }
    })
)

/** @internal */
export const operations: Readonly<Record<string, Operation>> = {
  ListShards: listShards,
  GetShardIterator: getShardIterator,
  SplitShard: splitShard,
  MergeShards: mergeShards,
  UpdateShardCount: updateShardCount
}
