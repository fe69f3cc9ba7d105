/** Consumers with a throughput of their own, on the AWS SDK. */
import * as Sdk from "@aws-sdk/client-kinesis"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Stream from "effect/Stream"
import type { ConsumerDescription, SubscriptionEvent } from "../KinesisClient.js"
import type { KinesisError } from "../KinesisError.js"
import * as Answers from "./answers.js"
import * as Calls from "./kinesisCalls.js"
import * as Cbor from "./kinesisCbor.js"
import * as KinesisErrors from "./kinesisErrors.js"
import type { Protocol } from "./kinesisProtocol.js"
import type { Answer } from "./recordsCbor.js"

type Service = Pick<
  Calls.Service,
  "registerConsumer" | "describeConsumer" | "listConsumers" | "deregisterConsumer" | "subscribeToShard"
>

const toConsumer = (
  where: KinesisErrors.Where,
  consumer: Sdk.Consumer | undefined
): Effect.Effect<ConsumerDescription, KinesisError> => {
  const {
    ConsumerARN: arn,
    ConsumerCreationTimestamp: createdAt,
    ConsumerName: name,
    ConsumerStatus: status
  } = consumer ?? {}
  return !name || !arn || !status || !createdAt
    ? Calls.malformed(where, "a consumer without its name, ARN, status or time of creation")
    : Effect.succeed({ name, arn, status, createdAt: DateTime.unsafeFromDate(createdAt) })
}

const toEvent = (
  where: KinesisErrors.Where,
  event: Sdk.SubscribeToShardEvent | Answer
): Effect.Effect<SubscriptionEvent, KinesisError> =>
  Effect.zipWith(
    "records" in event ? Calls.whole(where, event.records) : Calls.toRecords(where, event.Records ?? []),
    Calls.toChildren(where, event.ChildShards),
    (records, childShards) =>
      Answers.make(records, {
        continuation: Calls.nonEmpty(event.ContinuationSequenceNumber),
        millisBehindLatest: Option.fromNullable(event.MillisBehindLatest),
        childShards
      })
  )

/**
 * Asks for one event after the other, each when it is wanted. The connection is broken off by who owns it, not by the
 * iterator, whose `return` would wait for an event that is still to come.
 */
const events = (
  where: KinesisErrors.Where,
  iterator: AsyncIterator<Sdk.SubscribeToShardEventStream>
): Stream.Stream<SubscriptionEvent, KinesisError> =>
  Stream.repeatEffectOption(
    Effect.tryPromise({
      try: () => iterator.next(),
      catch: (cause) => Option.some(KinesisErrors.fromCause(where, cause))
    }).pipe(
      Effect.flatMap((next) => next.done === true ? Effect.fail(Option.none()) : Effect.succeed(next.value))
    )
  ).pipe(
    Stream.filterMap((event) => Option.fromNullable(Cbor.answerOf(event) ?? event.SubscribeToShardEvent)),
    Stream.mapEffect((event) => Calls.read(where, () => toEvent(where, event)))
  )

/** The fan-out calls of the service. */
export const make = (client: Sdk.KinesisClient, protocol: Protocol): Service => {
  const registerConsumer: Service["registerConsumer"] = Effect.fnUntraced(function*(streamArn, name) {
    const at = Calls.where("registerConsumer", "RegisterStreamConsumer", streamArn)
    const command = new Sdk.RegisterStreamConsumerCommand({ StreamARN: streamArn, ConsumerName: name })
    const output = yield* Calls.call(at, (abortSignal) => client.send(command, { abortSignal }))
    return yield* toConsumer(at, output.Consumer)
  })

  const describeConsumer: Service["describeConsumer"] = Effect.fnUntraced(function*(streamArn, name) {
    const at = Calls.where("describeConsumer", "DescribeStreamConsumer", streamArn)
    const command = new Sdk.DescribeStreamConsumerCommand({ StreamARN: streamArn, ConsumerName: name })
    const output = yield* Calls.call(at, (abortSignal) => client.send(command, { abortSignal }))
    return yield* toConsumer(at, output.ConsumerDescription)
  })

  const listConsumers: Service["listConsumers"] = Effect.fnUntraced(function*(streamArn, nextToken) {
    const at = Calls.where("listConsumers", "ListStreamConsumers", streamArn)
    const command = new Sdk.ListStreamConsumersCommand({
      StreamARN: streamArn,
      NextToken: Option.getOrUndefined(nextToken)
    })
    const output = yield* Calls.call(at, (abortSignal) => client.send(command, { abortSignal }))
    const consumers = yield* Calls.read(
      at,
      () => Effect.all((output.Consumers ?? []).map((consumer) => toConsumer(at, consumer)))
    )
    return { consumers, nextToken: Calls.nonEmpty(output.NextToken) }
  })

  const deregisterConsumer: Service["deregisterConsumer"] = (streamArn, name) => {
    const at = Calls.where("deregisterConsumer", "DeregisterStreamConsumer", streamArn)
    const command = new Sdk.DeregisterStreamConsumerCommand({ StreamARN: streamArn, ConsumerName: name })
    return Effect.asVoid(Calls.call(at, (abortSignal) => client.send(command, { abortSignal })))
  }

  const subscribeToShard: Service["subscribeToShard"] = (stream, shardId, { consumerArn, position }) => {
    const at = Calls.where("subscribeToShard", "SubscribeToShard", stream, shardId)
    return Stream.unwrapScoped(Effect.gen(function*() {
      const start = yield* Calls.startOf(at, position)
      const connection = yield* Effect.acquireRelease(
        Effect.sync(() => new AbortController()),
        (connection) => Effect.sync(() => connection.abort())
      )
      const input: Sdk.SubscribeToShardInput = {
        ConsumerARN: consumerArn,
        ShardId: shardId,
        StartingPosition: {
          Type: start.type,
          SequenceNumber: start.sequenceNumber,
          Timestamp: start.timestamp
        }
      }
      const { signal: abortSignal } = connection
      const output = yield* protocol.ask({
        json: Calls.call(at, () => client.send(new Sdk.SubscribeToShardCommand(input), { abortSignal })),
        cbor: (onCbor) => Calls.call(at, () => Cbor.subscribeToShard({ client, abortSignal, onCbor }, input))
      })
      if (Predicate.isNullable(output.EventStream)) {
        return Stream.fail(yield* Effect.flip(Calls.malformed(at, "no events")))
      }
      return events(at, output.EventStream[Symbol.asyncIterator]())
    }))
  }

  return { registerConsumer, describeConsumer, listConsumers, deregisterConsumer, subscribeToShard }
}
