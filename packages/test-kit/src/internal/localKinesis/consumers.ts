/**
 * The operations on consumers and their subscriptions.
 */
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { TestConsumer } from "../testConsumer.js"
import * as FanOut from "../testFanOut.js"
import * as Server from "../testServer.js"
import * as TestStream from "../testStream.js"
import * as Subscription from "../testSubscription.js"
import type { Members } from "./format.js"
import * as Input from "./input.js"
import type { Operation, Result } from "./operation.js"
import * as Operations from "./operation.js"
import { positionOf, positionType } from "./position.js"
import { streamOfConsumer } from "./tokens.js"
import * as Wire from "./wireError.js"

const consumerMembers = (server: Server.Server, consumer: TestConsumer): Members => ({
  ConsumerName: consumer.name,
  ConsumerARN: consumer.arn,
  ConsumerStatus: FanOut.statusOf(server, consumer),
  ConsumerCreationTimestamp: new Date(consumer.createdAt)
})

const named = {
  StreamARN: Input.maybe(Input.streamArn),
  ConsumerName: Input.maybe(Schema.String),
  ConsumerARN: Input.maybe(Schema.String)
}

/** The stream and the name of a consumer, which is given by these or by its ARN. */
const nameOf = (input: {
  readonly StreamARN?: string | undefined
  readonly ConsumerName?: string | undefined
  readonly ConsumerARN?: string | undefined
}): Result<{ readonly stream: string; readonly name: string }> => {
  const { ConsumerARN, ConsumerName, StreamARN } = input
  if (ConsumerARN !== undefined) {
    const parts = streamOfConsumer(ConsumerARN)
    return parts === undefined
      ? Either.left(Wire.invalidArgument(`ConsumerARN ${ConsumerARN} is none of a consumer`))
      : Either.right(parts)
  }
  return StreamARN === undefined || ConsumerName === undefined
    ? Either.left(Wire.invalidArgument("Either ConsumerARN, or StreamARN and ConsumerName are needed"))
    : Either.right({ stream: StreamARN, name: ConsumerName })
}

/** The one that an ARN meant can have been deregistered, and another one registered under its name. */
const isMeant = (consumer: TestConsumer, arn: string | undefined): Result<TestConsumer> =>
  arn === undefined || consumer.arn === arn
    ? Either.right(consumer)
    : Either.left(Wire.make("ResourceNotFoundException", `Consumer ${arn} does not exist. Was it registered anew?`))

const register = Operations.make(
  () => Schema.Struct({ StreamARN: Input.streamArn, ConsumerName: Schema.String }),
  (server, { ConsumerName: name, StreamARN: stream }) =>
    Either.map(FanOut.register(server, name, { operation: "RegisterStreamConsumer", stream }), (consumer) => ({
      members: { Consumer: consumerMembers(server, consumer) }
    }))
)

const describe = Operations.make(
  () => Schema.Struct(named),
  (server, input) =>
    Either.gen(function*() {
      const { name, stream } = yield* nameOf(input)
      const found = yield* FanOut.describe(server, name, { operation: "DescribeStreamConsumer", stream })
      const consumer = yield* isMeant(found, input.ConsumerARN)
      return { members: { ConsumerDescription: { ...consumerMembers(server, consumer), StreamARN: stream } } }
    })
)

const list = Operations.make(
  () =>
    Schema.Struct({
      StreamARN: Input.streamArn,
      NextToken: Input.maybe(Schema.String),
      MaxResults: Input.maybe(Input.within(1, 100))
    }),
  (server, { MaxResults: most = 100, NextToken, StreamARN: stream }) =>
    Either.gen(function*() {
      const where = { operation: "ListStreamConsumers", stream }
      const page = yield* FanOut.list(server, Option.fromNullable(NextToken), where)
      const consumers = page.consumers.slice(0, most)
      const last = consumers.at(-1)
      return {
        members: {
          Consumers: consumers.map((consumer) => consumerMembers(server, consumer)),
          NextToken: last !== undefined && page.consumers.length > most
            ? Server.makeToken(server, yield* Server.find(server, stream, where), last.index)
            : Option.getOrUndefined(page.nextToken)
        }
      }
    })
)

const deregister = Operations.make(
  () => Schema.Struct(named),
  (server, input) =>
    Either.gen(function*() {
      const { name, stream } = yield* nameOf(input)
      const where = { operation: "DeregisterStreamConsumer", stream }
      if (input.ConsumerARN !== undefined) yield* FanOut.find(server, input.ConsumerARN, where)
      yield* FanOut.deregister(server, name, where)
      return Operations.nothing
    })
)

const subscribe = Operations.make(
  ({ time }) =>
    Schema.Struct({
      ConsumerARN: Schema.String,
      ShardId: Schema.String,
      StartingPosition: Schema.Struct({
        Type: positionType,
        SequenceNumber: Input.maybe(Schema.String),
        Timestamp: Input.maybe(time)
      })
    }),
  (server, { ConsumerARN: consumerArn, ShardId: shardId, StartingPosition: { SequenceNumber, Timestamp, Type } }) =>
    Either.gen(function*() {
      const where = { operation: "SubscribeToShard", stream: streamOfConsumer(consumerArn)?.stream ?? "*", shardId }
      const { stream } = yield* FanOut.find(server, consumerArn, where)
      const shard = yield* TestStream.findShard(stream, shardId, where)
      const position = yield* positionOf(shard, { type: Type, sequenceNumber: SequenceNumber, time: Timestamp })
      return { events: Subscription.subscribe(server, shardId, { consumerArn, position }, where) }
    })
)

/** @internal */
export const operations: Readonly<Record<string, Operation>> = {
  RegisterStreamConsumer: register,
  DescribeStreamConsumer: describe,
  ListStreamConsumers: list,
  DeregisterStreamConsumer: deregister,
  SubscribeToShard: subscribe
}
