/**
 * The operations on streams as a whole.
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import type { Where } from "../refusal.js"
import * as Server from "../testServer.js"
import * as TestStream from "../testStream.js"
import * as Input from "./input.js"
import type { Operation, Result } from "./operation.js"
import * as Operations from "./operation.js"
import { shardMembers } from "./shardMembers.js"
import { notesOf } from "./streamNotes.js"
import * as Wire from "./wireError.js"

/**
 * The stream that a request is about, whatever its status.
 *
 * @internal
 */
export const find = (
  server: Server.Server,
  input: Input.Address,
  operation: string
): Result<readonly [TestStream.TestStream, Where]> =>
  Either.flatMap(Input.addressed(input), (stream) => {
    const where = { operation, stream }
    return Either.map(Server.find(server, stream, where), (found) => [found, where] as const)
  })

/**
 * The stream that a request is about, which must not be in the making or going.
 *
 * @internal
 */
export const findActive = (
  server: Server.Server,
  input: Input.Address,
  operation: string
): Result<readonly [TestStream.TestStream, Where]> =>
  Either.flatMap(Input.addressed(input), (stream) => {
    const where = { operation, stream }
    return Either.map(Server.findActive(server, where), (found) => [found, where] as const)
  })

const hour = 3_600_000
const defaultRetention = 24
const longestRetention = 8760

const mostShards = 10_000

const mode = Schema.Struct({ StreamMode: Schema.Literal("PROVISIONED", "ON_DEMAND") })

const tags = Schema.Record({ key: Schema.String, value: Schema.String })

const openShardsOf = (server: Server.Server) =>
  Array.from(server.streams.values()).reduce((sum, stream) => sum + TestStream.openShards(stream).length, 0)

const createStream = Operations.make(
  () =>
    Schema.Struct({
      StreamName: Input.streamName,
      ShardCount: Input.maybe(Schema.Int),
      StreamModeDetails: Input.maybe(mode),
      Tags: Input.maybe(tags)
    }),
  (server, { ShardCount, StreamModeDetails, StreamName: name, Tags = {} }) => {
    const onDemand = StreamModeDetails?.StreamMode === "ON_DEMAND"
    const shards = ShardCount ?? (onDemand ? 4 : undefined)
    if (shards === undefined || shards < 1) {
      return Either.left(Wire.validation(`ShardCount is 1 or more, not ${shards}`))
    }
    if (server.limits && openShardsOf(server) + shards > mostShards) {
      return Either.left(Wire.make("LimitExceededException", `The account has at most ${mostShards} shards`))
    }
    const options = {
      name,
      arn: Server.arnOf(server, name),
      shards,
      retention: defaultRetention * hour,
      status: "ACTIVE",
      firstSequenceNumber: undefined
    } as const
    return Either.map(Server.createStream(server, options, { operation: "CreateStream", stream: name }), (stream) => {
      const notes = notesOf(stream)
      notes.onDemand = onDemand
      for (const [key, value] of Object.entries(Tags)) notes.tags.set(key, value)
      return Operations.nothing
    })
  }
)

const consumersOf = (stream: TestStream.TestStream) =>
  Array.from(stream.consumers.byName.values()).filter(({ deregisteredAt }) => deregisteredAt === undefined).length

const deleteStream = Operations.make(
  () => Schema.Struct({ ...Input.address, EnforceConsumerDeletion: Input.maybe(Schema.Boolean) }),
  (server, input) =>
    Either.flatMap(find(server, input, "DeleteStream"), ([stream]) => {
      if (consumersOf(stream) > 0 && input.EnforceConsumerDeletion !== true) {
        return Either.left(
          Wire.make(
            "ResourceInUseException",
            `Stream ${stream.name} has consumers; EnforceConsumerDeletion deletes both`
          )
        )
      }
      Server.deleteStream(server, stream)
      return Either.right(Operations.nothing)
    })
)

const commonMembers = (stream: TestStream.TestStream) => ({
  StreamName: stream.name,
  StreamARN: stream.arn,
  StreamStatus: stream.status,
  StreamCreationTimestamp: new Date(stream.createdAt),
  StreamModeDetails: { StreamMode: notesOf(stream).onDemand ? "ON_DEMAND" : "PROVISIONED" },
  RetentionPeriodHours: Math.floor(stream.retention / hour),
  EnhancedMonitoring: [{ ShardLevelMetrics: [] }],
  EncryptionType: "NONE"
})

const describeStream = Operations.make(
  () =>
    Schema.Struct({
      ...Input.address,
      Limit: Input.maybe(Input.within(1, 10_000)),
      ExclusiveStartShardId: Input.maybe(Schema.String)
    }),
  (server, { ExclusiveStartShardId: after = "", Limit: limit = 100, ...input }) =>
    Either.map(find(server, input, "DescribeStream"), ([stream]) => {
      const rest = Array.from(stream.shards.values()).filter(({ shardId }) => shardId > after)
      return {
        members: {
          StreamDescription: {
            ...commonMembers(stream),
            Shards: rest.slice(0, limit).map(shardMembers),
            HasMoreShards: rest.length > limit
          }
        }
      }
    })
)

const describeStreamSummary = Operations.make(
  () => Schema.Struct(Input.address),
  (server, input) =>
    Either.map(find(server, input, "DescribeStreamSummary"), ([stream]) => ({
      members: {
        StreamDescriptionSummary: {
          ...commonMembers(stream),
          OpenShardCount: TestStream.openShards(stream).length,
          ConsumerCount: consumersOf(stream)
        }
      }
    }))
)

const listStreams = Operations.make(
  () =>
    Schema.Struct({
      Limit: Input.maybe(Input.within(1, 10_000)),
      ExclusiveStartStreamName: Input.maybe(Input.streamName),
      NextToken: Input.maybe(Schema.String)
    }),
  (server, { ExclusiveStartStreamName, Limit: limit = 100, NextToken }) => {
    // A token is the name of the last stream of the page before.
    const after = NextToken ?? ExclusiveStartStreamName ?? ""
    const rest = Array.from(server.streams.values())
      .filter((stream) => stream.arn === Server.arnOf(server, stream.name) && stream.name > after)
      .sort((a, b) => a.name < b.name ? -1 : 1)
    const page = rest.slice(0, limit)
    const more = rest.length > page.length
    return Either.right({
      members: {
        StreamNames: page.map(({ name }) => name),
        StreamSummaries: page.map((stream) => {
          const { StreamARN, StreamCreationTimestamp, StreamModeDetails, StreamName, StreamStatus } = commonMembers(
            stream
          )
          return { StreamARN, StreamCreationTimestamp, StreamModeDetails, StreamName, StreamStatus }
        }),
        HasMoreStreams: more,
        NextToken: more ? page.at(-1)?.name : undefined
      }
    })
  }
)

const changeRetention = (operation: string, isChange: (hours: number, before: number) => boolean) =>
  Operations.make(
    () => Schema.Struct({ ...Input.address, RetentionPeriodHours: Schema.Int }),
    (server, { RetentionPeriodHours: hours, ...input }) =>
      Either.flatMap(find(server, input, operation), ([stream]) => {
        const before = Math.floor(stream.retention / hour)
        if (hours < defaultRetention || hours > longestRetention || !isChange(hours, before)) {
          return Either.left(Wire.invalidArgument(
            `${operation} cannot change the retention from ${before} to ${hours} hours; ` +
              `it is ${defaultRetention} to ${longestRetention}`
          ))
        }
        stream.retention = hours * hour
        return Either.right(Operations.nothing)
      })
  )

const describeLimits = Operations.make(() => Schema.Struct({}), (server) =>
  Either.right({
    members: {
      ShardLimit: mostShards,
      OpenShardCount: openShardsOf(server),
      OnDemandStreamCount: Array.from(server.streams.values()).filter((stream) => notesOf(stream).onDemand).length,
      OnDemandStreamCountLimit: 50
    }
  }))

const addTags = Operations.make(
  () => Schema.Struct({ ...Input.address, Tags: tags }),
  (server, { Tags, ...input }) =>
    Either.map(find(server, input, "AddTagsToStream"), ([stream]) => {
      for (const [key, value] of Object.entries(Tags)) notesOf(stream).tags.set(key, value)
      return Operations.nothing
    })
)

const removeTags = Operations.make(
  () => Schema.Struct({ ...Input.address, TagKeys: Schema.Array(Schema.String) }),
  (server, { TagKeys, ...input }) =>
    Either.map(find(server, input, "RemoveTagsFromStream"), ([stream]) => {
      for (const key of TagKeys) notesOf(stream).tags.delete(key)
      return Operations.nothing
    })
)

const listTags = Operations.make(
  () =>
    Schema.Struct({
      ...Input.address,
      ExclusiveStartTagKey: Input.maybe(Schema.String),
      Limit: Input.maybe(Input.within(1, 50))
    }),
  (server, { ExclusiveStartTagKey: after = "", Limit: limit = 50, ...input }) =>
    Either.map(find(server, input, "ListTagsForStream"), ([stream]) => {
      const rest = Array.from(notesOf(stream).tags).filter(([key]) => key > after).sort(([a], [b]) => a < b ? -1 : 1)
      return {
        members: {
          Tags: rest.slice(0, limit).map(([Key, Value]) => ({ Key, Value })),
          HasMoreTags: rest.length > limit
        }
      }
    })
)

/** @internal */
export const operations: Readonly<Record<string, Operation>> = {
  CreateStream: createStream,
  DeleteStream: deleteStream,
  DescribeStream: describeStream,
  DescribeStreamSummary: describeStreamSummary,
  ListStreams: listStreams,
  IncreaseStreamRetentionPeriod: changeRetention("IncreaseStreamRetentionPeriod", (hours, before) => hours >= before),
  DecreaseStreamRetentionPeriod: changeRetention("DecreaseStreamRetentionPeriod", (hours, before) => hours <= before),
  DescribeLimits: describeLimits,
  AddTagsToStream: addTags,
  RemoveTagsFromStream: removeTags,
  ListTagsForStream: listTags
}
