/**
 * The calls to DynamoDB, as effects: every one can be interrupted and ends in time, passing faults are tried again by
 * one policy, and a refused condition is a value that can say how the row stands.
 */
import type { AttributeValue, DynamoDBClient } from "@aws-sdk/client-dynamodb"
import {
  ConditionalCheckFailedException,
  DeleteItemCommand,
  GetItemCommand,
  PutItemCommand,
  QueryCommand,
  UpdateItemCommand
} from "@aws-sdk/client-dynamodb"
import * as StateStoreError from "@kinesumer/core/StateStoreError"
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Metric from "effect/Metric"
import * as Random from "effect/Random"
import type { Decoded, Item, Key } from "./attributes.js"
import { keyOf } from "./attributes.js"
import type { Place } from "./errors.js"
import * as Errors from "./errors.js"
import { onFreshTurn } from "./freshTurn.js"

/**
 * The condition of a write does not hold. `row` is the row as it stands, or `undefined` where there is none.
 *
 * @internal
 */
export class Refused extends Data.TaggedError("Refused")<{
  readonly row: Effect.Effect<Item | undefined, StateStoreError.StateStoreError>
}> {}

/**
 * In expressions `#name` stands for the attribute of that name, so that reserved words need no thought, and `:name` for
 * the value of that name.
 *
 * @internal
 */
export interface Condition {
  readonly condition: string
  readonly values?: Readonly<Record<string, AttributeValue>> | undefined
}

/** A refused condition, as the SDK tells it. */
class Conflict extends Data.TaggedError("Conflict")<{ readonly item: Item | undefined }> {}

/** @internal */
export type Call<A> = (client: DynamoDBClient, options: { readonly abortSignal: AbortSignal }) => Promise<A>

type Sent<A> = Effect.Effect<
  { readonly answer: A; readonly attempts: number },
  StateStoreError.StateStoreError | Conflict
>

/** @internal */
export interface Table extends Place {
  /** A call of the SDK under the time limit and the retry policy. `attempts` tells whether one before it failed. */
  readonly send: <A>(operation: string, call: Call<A>) => Sent<A>

  readonly get: (operation: string, key: Key) => Effect.Effect<Item | undefined, StateStoreError.StateStoreError>

  /** All pages. With a `projection`, only these attributes. */
  readonly query: (
    operation: string,
    options: Condition & { readonly projection?: string | undefined }
  ) => Effect.Effect<ReadonlyArray<Item>, StateStoreError.StateStoreError>

  readonly put: (operation: string, item: Item) => Effect.Effect<void, StateStoreError.StateStoreError>

  readonly putIf: (
    operation: string,
    item: Item,
    condition: Condition
  ) => Effect.Effect<void, StateStoreError.StateStoreError | Refused>

  /** The row after the write. */
  readonly update: (
    operation: string,
    key: Key,
    options: Condition & { readonly update: string }
  ) => Effect.Effect<Item, StateStoreError.StateStoreError | Refused>

  /** The row that was removed, if this call was it: after a lost answer nobody can tell. */
  readonly remove: (
    operation: string,
    key: Key,
    condition: Condition
  ) => Effect.Effect<
    { readonly item: Item | undefined; readonly attempts: number },
    StateStoreError.StateStoreError | Refused
  >

  readonly decode: <A>(operation: string, decoded: Decoded<A>) => Effect.Effect<A, StateStoreError.StateStoreError>
}

const retries = Metric.counter("kinesumer_dynamo_retries_total", {
  description: "Calls to DynamoDB that were tried again after a passing fault",
  incremental: true
})

const maxAttempts = 5
// In milliseconds: the longest pause before the second try, doubled with each further one.
const backOff = 100
// No new attempt starts after this time or after one request's limit, whichever is longer, so that a call is over in
// seconds even if each attempt runs into its limit.
const retryFor = Duration.seconds(5)

const passing = (error: StateStoreError.StateStoreError): boolean =>
  error.reason === "Throttled" || error.reason === "Timeout" || error.reason === "Unavailable"

/** @internal */
export const make = (
  client: DynamoDBClient,
  place: Place,
  requestTimeout: Duration.Duration
): Table => {
  const patience = Duration.max(retryFor, requestTimeout)

  const attempt = <A>(operation: string, call: Call<A>): Effect.Effect<A, StateStoreError.StateStoreError | Conflict> =>
    Effect.tryPromise({
      try: (abortSignal) => call(client, { abortSignal }),
      catch: (cause) =>
        cause instanceof ConditionalCheckFailedException
          ? new Conflict({ item: cause.Item })
          : Errors.fromSdk(cause, operation, place)
    }).pipe(
      Effect.timeoutFail({
        duration: requestTimeout,
        onTimeout: () =>
          new StateStoreError.StateStoreError({
            reason: "Timeout",
            operation,
            detail: `table "${place.tableName}" (${place.where}): no answer within ${Duration.format(requestTimeout)}`
          })
      }),
      onFreshTurn
    )

  const send = <A>(operation: string, call: Call<A>): Sent<A> => {
    const loop = (attempts: number, start: bigint): Sent<A> =>
      attempt(operation, call).pipe(
        Effect.map((answer) => ({ answer, attempts })),
        Effect.catchTag("StateStoreError", (error) =>
          Effect.gen(function*() {
            const elapsed = Duration.nanos((yield* Clock.currentTimeNanos) - start)
            if (!passing(error) || attempts >= maxAttempts || Duration.greaterThan(elapsed, patience)) {
              return yield* error
            }
            // Full jitter: writers that were throttled together do not come back together.
            const delay = Duration.millis(yield* Random.nextIntBetween(0, backOff * 2 ** (attempts - 1)))
            yield* Effect.logDebug(`Trying again in ${Duration.format(delay)}: ${error.message}`)
            yield* Metric.increment(Metric.tagged(retries, "operation", operation))
            yield* Effect.sleep(delay)
            return yield* loop(attempts + 1, start)
          }))
      )
    return Effect.flatMap(Clock.currentTimeNanos, (start) => loop(1, start))
  }

  // A refused condition of a call without one cannot be.
  const unconditional = <A>(self: Effect.Effect<A, StateStoreError.StateStoreError | Conflict>) =>
    Effect.catchTag(self, "Conflict", (error) => Effect.die(error))

  const get: Table["get"] = (operation, key) =>
    send(operation, (client, options) =>
      client.send(
        new GetItemCommand({ TableName: place.tableName, Key: keyOf(key), ConsistentRead: true }),
        options
      )).pipe(unconditional, Effect.map(({ answer }) => answer.Item))

  const conditional = (operation: string, key: Key) =>
  <A>(
    self: Effect.Effect<A, StateStoreError.StateStoreError | Conflict>
  ): Effect.Effect<A, StateStoreError.StateStoreError | Refused> =>
    Effect.catchTag(self, "Conflict", ({ item }) =>
      // DynamoDB hands the row over with its refusal; local stand-ins do not.
      new Refused({ row: item === undefined ? get(operation, key) : Effect.succeed(item) }))

  const write = (condition: Condition, ...more: ReadonlyArray<string>) => ({
    ConditionExpression: condition.condition,
    ReturnValuesOnConditionCheckFailure: "ALL_OLD" as const,
    ...placeholders(condition.values, condition.condition, ...more)
  })

  return {
    ...place,
    send,
    get,
    query: (operation, { condition, projection, values }) => {
      const page = (start: Record<string, AttributeValue> | undefined) =>
        send(operation, (client, options) =>
          client.send(
            new QueryCommand({
              TableName: place.tableName,
              ConsistentRead: true,
              KeyConditionExpression: condition,
              ProjectionExpression: projection,
              ExclusiveStartKey: start,
              ...placeholders(values, condition, projection ?? "")
            }),
            options
          )).pipe(unconditional, Effect.map(({ answer }) => answer))
      return Effect.gen(function*() {
        const items: Array<Item> = []
        let start: Record<string, AttributeValue> | undefined
        do {
          const answer = yield* page(start)
          for (const item of answer.Items ?? []) items.push(item)
          start = answer.LastEvaluatedKey
        } while (start !== undefined)
        return items
      })
    },
    put: (operation, item) =>
      send(
        operation,
        (client, options) => client.send(new PutItemCommand({ TableName: place.tableName, Item: item }), options)
      ).pipe(
        unconditional,
        Effect.asVoid
      ),
    putIf: (operation, item, condition) =>
      send(operation, (client, options) =>
        client.send(
          new PutItemCommand({ TableName: place.tableName, Item: item, ...write(condition) }),
          options
        )).pipe(
          conditional(operation, { pk: item["pk"]?.S ?? "", sk: item["sk"]?.S ?? "" }),
          Effect.asVoid
        ),
    update: (operation, key, { update, ...condition }) =>
      send(operation, (client, options) =>
        client.send(
          new UpdateItemCommand({
            TableName: place.tableName,
            Key: keyOf(key),
            UpdateExpression: update,
            ReturnValues: "ALL_NEW",
            ...write(condition, update)
          }),
          options
        )).pipe(conditional(operation, key), Effect.map(({ answer }) => answer.Attributes ?? {})),
    remove: (operation, key, condition) =>
      send(operation, (client, options) =>
        client.send(
          new DeleteItemCommand({
            TableName: place.tableName,
            Key: keyOf(key),
            ReturnValues: "ALL_OLD",
            ...write(condition)
          }),
          options
        )).pipe(
          conditional(operation, key),
          Effect.map(({ answer, attempts }) => ({ item: answer.Attributes, attempts }))
        ),
    decode: (operation, decoded) => Either.mapLeft(decoded, (error) => Errors.fromMalformed(error, operation, place))
  }
}

/** DynamoDB refuses a name or a value that no expression uses, so the expressions decide which are sent. */
const placeholders = (values: Condition["values"], ...expressions: ReadonlyArray<string>) => {
  const all = expressions.join(" ")
  const names = Object.fromEntries(Array.from(all.matchAll(/#(\w+)/g), ([placeholder, name]) => [placeholder, name]))
  const used = new Set(all.match(/:\w+/g))
  const sent = Object.entries(values ?? {}).flatMap(([name, value]) =>
    used.has(`:${name}`) ? [[`:${name}`, value] as const] : []
  )
  return {
    ...(Object.keys(names).length === 0 ? {} : { ExpressionAttributeNames: names as Record<string, string> }),
    ...(sent.length === 0 ? {} : { ExpressionAttributeValues: Object.fromEntries(sent) })
  }
}
