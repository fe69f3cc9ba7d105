/** The table itself: is it there, has it the right keys, and if wanted, make it. */
import type { TableDescription } from "@aws-sdk/client-dynamodb"
import { CreateTableCommand, DescribeTableCommand } from "@aws-sdk/client-dynamodb"
import * as StateStoreError from "@kinesumer/core/StateStoreError"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import type { Call, Table } from "./client.js"
import * as Errors from "./errors.js"
import { onFreshTurn } from "./freshTurn.js"

const operation = "layer"

const schema = `partition key "pk" (String) and sort key "sk" (String)`

const keys = [
  { name: "pk", type: "HASH", title: "partition key" },
  { name: "sk", type: "RANGE", title: "sort key" }
] as const

const problem = (table: Table, reason: StateStoreError.StateStoreErrorReason, detail: string, cause?: unknown) =>
  new StateStoreError.StateStoreError({
    reason,
    operation,
    detail: `table "${table.tableName}" (${table.where}) ${detail}`,
    cause
  })

// A local table is there at once, one of AWS within seconds. A big one restored from a backup is not waited for.
const looks = Schedule.union(Schedule.exponential(Duration.millis(50)), Schedule.spaced(Duration.seconds(1)))
const patience = Duration.minutes(1)

/**
 * Succeeds once the table is there, active and of the right shape.
 *
 * @internal
 */
export const ensure = (table: Table, createTable: boolean): Effect.Effect<void, StateStoreError.StateStoreError> => {
  const ready = Effect.gen(function*() {
    const found = yield* describe(table)
    if (Option.isNone(found)) {
      if (!createTable) {
        return yield* problem(
          table,
          "TableMissing",
          `does not exist. Pass createTable: true, or create it with ${schema}; no index is needed`
        )
      }
      yield* create(table)
      return false
    }
    switch (found.value.TableStatus) {
      case "ACTIVE":
      case "UPDATING":
        yield* check(table, found.value)
        return true
      case "CREATING":
      case "DELETING":
      case undefined:
        return false
      default:
        return yield* problem(table, "TableInvalid", `cannot be used: its status is ${found.value.TableStatus}`)
    }
  })
  return ready.pipe(
    Effect.repeat({ schedule: looks, until: (isReady) => isReady }),
    Effect.timeoutFail({
      duration: patience,
      onTimeout: () => problem(table, "Timeout", `is not active after ${Duration.format(patience)}`)
    }),
    onFreshTurn,
    Effect.asVoid
  )
}

const describe = (table: Table): Effect.Effect<Option.Option<TableDescription>, StateStoreError.StateStoreError> =>
  call(table, (client, options) => client.send(new DescribeTableCommand({ TableName: table.tableName }), options)).pipe(
    Effect.map(({ Table }) => Option.fromNullable(Table)),
    Effect.catchIf((error) => error.reason === "TableMissing", () => Effect.succeedNone),
    Effect.mapError((error) => {
      switch (Errors.nameOf(error.cause)) {
        case "ValidationException":
          return problem(table, "TableInvalid", `cannot exist: ${Errors.messageOf(error.cause)}`, error.cause)
        case "CredentialsProviderError":
          return problem(
            table,
            "AccessDenied",
            `cannot be reached without credentials: ${Errors.messageOf(error.cause)}. ` +
              "Pass `credentials`, or provide them as the AWS SDK expects them (environment, profile, role)",
            error.cause
          )
        default:
          return error
      }
    })
  )

const create = (table: Table): Effect.Effect<void, StateStoreError.StateStoreError> =>
  call(table, (client, options) =>
    client.send(
      new CreateTableCommand({
        TableName: table.tableName,
        BillingMode: "PAY_PER_REQUEST",
        AttributeDefinitions: keys.map(({ name }) => ({ AttributeName: name, AttributeType: "S" })),
        KeySchema: keys.map(({ name, type }) => ({ AttributeName: name, KeyType: type }))
      }),
      options
    )).pipe(
      // Somebody else was faster.
      Effect.catchIf((error) => Errors.nameOf(error.cause) === "ResourceInUseException", () => Effect.void),
      Effect.asVoid
    )

const check = (table: Table, description: TableDescription): Effect.Effect<void, StateStoreError.StateStoreError> => {
  const wrong = keys.flatMap(({ name, title, type }) => {
    const key = description.KeySchema?.find(({ KeyType }) => KeyType === type)
    if (key?.AttributeName !== name) {
      return [
        `the ${title} "${name}" is missing${key === undefined ? "" : ` ("${key.AttributeName ?? ""}" is in its place)`}`
      ]
    }
    const definition = description.AttributeDefinitions?.find(({ AttributeName }) => AttributeName === name)
    return definition?.AttributeType === "S" ? [] : [`the ${title} "${name}" is not a String`]
  })
  return wrong.length === 0
    ? Effect.void
    : problem(table, "TableInvalid", `has another shape: ${wrong.join(", ")}. It needs ${schema}: name another table`)
}

const call = <A>(
  table: Table,
  request: Call<A>
): Effect.Effect<A, StateStoreError.StateStoreError> =>
  table.send(operation, request).pipe(
    // These calls have no condition.
    Effect.catchTag("Conflict", (error) => Effect.die(error)),
    Effect.map(({ answer }) => answer)
  )
