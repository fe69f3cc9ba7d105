import type { ConsumerDescription } from "@kinesumer/core/KinesisClient"
import type { KinesisError } from "@kinesumer/core/KinesisError"
import * as DateTime from "effect/DateTime"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as RateLimit from "./rateLimit.js"
import type { Where } from "./refusal.js"
import { refuse } from "./refusal.js"
import type { Consumers, TestConsumer } from "./testConsumer.js"
import type { Server } from "./testServer.js"
import * as TestServer from "./testServer.js"
import * as TestShard from "./testShard.js"
import type { TestStream } from "./testStream.js"

type Result<A> = Either.Either<A, KinesisError>

const mostConsumers = 20
const mostCreated = 5
const largestPage = 100

/** @internal */
export const statusOf = (server: Server, consumer: TestConsumer): ConsumerDescription["status"] =>
  consumer.deregisteredAt !== undefined
    ? "DELETING"
    : server.now() < consumer.createdAt + server.consumerDelay
    ? "CREATING"
    : "ACTIVE"

/** @internal */
export const toDescription = (server: Server, consumer: TestConsumer): ConsumerDescription => ({
  name: consumer.name,
  arn: consumer.arn,
  status: statusOf(server, consumer),
  createdAt: DateTime.unsafeMake(consumer.createdAt)
})

/** The consumers that are left: those that were deregistered are gone after a while. */
const present = (server: Server, stream: TestStream): ReadonlyArray<TestConsumer> => {
  const { byName } = stream.consumers
  const horizon = server.now() - server.consumerDelay
  for (const { deregisteredAt, name } of byName.values()) {
    if (deregisteredAt !== undefined && deregisteredAt <= horizon) byName.delete(name)
  }
  return Array.from(byName.values())
}

const findNamed = (server: Server, stream: TestStream, name: string, where: Where): Result<TestConsumer> =>
  Option.match(Option.fromNullable(present(server, stream).find((consumer) => consumer.name === name)), {
    onNone: () => refuse(where, "NotFound", `Stream ${stream.name} has no consumer "${name}"`),
    onSome: Either.right
  })

/**
 * The stream and the consumer that an ARN of a consumer stands for.
 *
 * @internal
 */
export const find = (
  server: Server,
  consumerArn: string,
  where: Where
): Result<{ readonly stream: TestStream; readonly consumer: TestConsumer }> =>
  Either.gen(function*() {
    const [streamArn = ""] = consumerArn.split("/consumer/")
    const stream = yield* TestServer.findActive(server, { ...where, stream: streamArn })
    const consumer = present(server, stream).find((consumer) => consumer.arn === consumerArn)
    return consumer === undefined
      ? yield* refuse(where, "NotFound", `Consumer ${consumerArn} does not exist. Was it registered anew?`)
      : { stream, consumer }
  })

const admit = (
  server: Server,
  stream: TestStream,
  operation: Exclude<keyof Consumers, "byName" | "made">,
  most: number,
  where: Where
): Result<void> => {
  const now = server.now()
  const window = stream.consumers[operation]
  if (!server.limits) return Either.right(undefined)
  if (RateLimit.total(window, now) >= most) {
    return refuse(where, "Throttled", `More than ${most} calls of ${where.operation} in a second for this stream`)
  }
  RateLimit.add(window, now, 1)
  return Either.right(undefined)
}

const checkNew = (server: Server, stream: TestStream, name: string, where: Where): Result<void> => {
  const consumers = present(server, stream)
  if (!/^[\w.-]{1,128}$/.test(name)) {
    return refuse(where, "InvalidArgument", `The name of a consumer is 1 to 128 of a-z A-Z 0-9 _ . -, not "${name}"`)
  }
  if (consumers.some((consumer) => consumer.name === name)) {
    return refuse(where, "ResourceInUse", `Stream ${stream.name} has a consumer "${name}" already`)
  }
  if (server.limits && consumers.length >= mostConsumers) {
    return refuse(where, "LimitExceeded", `Stream ${stream.name} has its ${mostConsumers} consumers`)
  }
  return server.limits &&
      consumers.filter((consumer) => statusOf(server, consumer) === "CREATING").length >= mostCreated
    ? refuse(where, "Throttled", `${mostCreated} consumers of stream ${stream.name} are still being created`)
    : Either.right(undefined)
}

/** @internal */
export const register = (server: Server, name: string, where: Where): Result<TestConsumer> =>
  Either.gen(function*() {
    const stream = yield* TestServer.findActive(server, where)
    yield* admit(server, stream, "register", 5, where)
    yield* checkNew(server, stream, name, where)
    const createdAt = server.now()
    const consumer: TestConsumer = {
      index: stream.consumers.made++,
      name,
      arn: `${stream.arn}/consumer/${name}:${Math.floor(createdAt / 1000)}`,
      createdAt,
      deregisteredAt: undefined,
      calls: new Map(),
      subscribedAt: new Map()
    }
    stream.consumers.byName.set(name, consumer)
    return consumer
  })

/** @internal */
export const describe = (server: Server, name: string, where: Where): Result<TestConsumer> =>
  Either.gen(function*() {
    const stream = yield* TestServer.find(server, where.stream, where)
    yield* admit(server, stream, "describe", 20, where)
    return yield* findNamed(server, stream, name, where)
  })

/** @internal */
export const list = (
  server: Server,
  nextToken: Option.Option<string>,
  where: Where
): Result<{ readonly consumers: ReadonlyArray<TestConsumer>; readonly nextToken: Option.Option<string> }> =>
  Either.gen(function*() {
    const stream = yield* TestServer.find(server, where.stream, where)
    yield* admit(server, stream, "list", 5, where)
    const after = Option.isSome(nextToken) ? yield* TestServer.readToken(server, stream, nextToken.value, where) : -1
    const rest = present(server, stream).filter((consumer) => consumer.index > after)
    const consumers = rest.slice(0, Math.min(server.pageSize, largestPage))
    const last = consumers.at(-1)
    return {
      consumers,
      nextToken: last !== undefined && rest.length > consumers.length
        ? Option.some(TestServer.makeToken(server, stream, last.index))
        : Option.none()
    }
  })

/** @internal */
export const deregister = (server: Server, name: string, where: Where): Result<TestConsumer> =>
  Either.gen(function*() {
    const stream = yield* TestServer.find(server, where.stream, where)
    yield* admit(server, stream, "deregister", 5, where)
    const consumer = yield* findNamed(server, stream, name, where)
    consumer.deregisteredAt ??= server.now()
    for (const shard of stream.shards.values()) TestShard.wake(shard)
    return consumer
  })
