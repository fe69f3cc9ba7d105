/**
 * `StateStore` on Amazon DynamoDB, in the table layout of the Go library `kinesumer` with attributes added for leases:
 * a Go group that was stopped continues here from its checkpoints.
 *
 * @since 0.1.0
 */
import type { DynamoDBClientConfig } from "@aws-sdk/client-dynamodb"
import { DynamoDBClient } from "@aws-sdk/client-dynamodb"
import * as StateStore from "@kinesumer/core/StateStore"
import * as StateStoreError from "@kinesumer/core/StateStoreError"
import * as Config from "effect/Config"
import type * as ConfigError from "effect/ConfigError"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import * as Checkpoints from "./internal/checkpoints.js"
import * as Client from "./internal/client.js"
import * as Errors from "./internal/errors.js"
import * as Leases from "./internal/leases.js"
import * as Members from "./internal/members.js"
import * as ShardLists from "./internal/shardLists.js"
import * as Table from "./internal/table.js"

/**
 * Credentials that stand fast. A secret in `Redacted` cannot be logged by mistake; plain text is taken too.
 *
 * @since 0.1.0
 * @category options
 */
export interface StaticCredentials {
  readonly accessKeyId: string
  readonly secretAccessKey: string | Redacted.Redacted
  readonly sessionToken?: string | Redacted.Redacted | undefined
}

/**
 * A function that gives credentials and is asked again when they run out: what the functions of
 * `@aws-sdk/credential-providers` return.
 *
 * @since 0.1.0
 * @category options
 */
export type CredentialsProvider = Extract<
  NonNullable<DynamoDBClientConfig["credentials"]>,
  (...args: ReadonlyArray<never>) => unknown
>

/**
 * Which table, and how to reach it. Of region, endpoint and credentials, what is left out is looked up as the AWS SDK
 * does it: in the environment, the profile and the metadata of the machine.
 *
 * @since 0.1.0
 * @category options
 */
export interface DynamoStateStoreOptions {
  /** The name or the ARN of the table. It needs the string keys `pk` and `sk`, and one table serves many apps. */
  readonly tableName: string
  /** The region of the table, such as `ap-northeast-2`. */
  readonly region?: string | undefined
  /** Another address than that of the region, for a local server or a VPC endpoint. `http:` works too. */
  readonly endpoint?: string | undefined
  readonly credentials?: StaticCredentials | CredentialsProvider | undefined
  /** Whether to create the table, billed by request, where there is none. Defaults to `false`. */
  readonly createTable?: boolean | undefined
  /**
   * How long to wait for the answer to one request, before it is tried again or fails as `Timeout`. Defaults to 5
   * seconds.
   */
  readonly requestTimeout?: Duration.DurationInput | undefined
}

/**
 * The store of `layer` as a scoped effect. The table is looked at first: the effect fails with `TableMissing`,
 * `TableInvalid` or `AccessDenied` where a group could not work on it, and waits up to a minute for a table that is
 * just being created.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = Effect.fnUntraced(function*(
  options: DynamoStateStoreOptions
): Effect.fn.Return<StateStore.StateStore["Type"], StateStoreError.StateStoreError, Scope.Scope> {
  const client = yield* Effect.acquireRelease(
    Effect.sync(() => new DynamoDBClient(clientConfig(options))),
    (client) => Effect.sync(() => client.destroy())
  )
  const region = yield* Effect.tryPromise({
    try: () => client.config.region(),
    catch: (cause) =>
      new StateStoreError.StateStoreError({
        reason: "TableMissing",
        operation: "layer",
        detail: `table "${options.tableName}" cannot be found: ${
          Errors.messageOf(cause)
        }. Pass \`region\` or set AWS_REGION`,
        cause
      })
  })
  const table = Client.make(
    client,
    {
      tableName: options.tableName,
      where: `region ${region}${options.endpoint === undefined ? "" : `, endpoint ${options.endpoint}`}`
    },
    Duration.decode(options.requestTimeout ?? Duration.seconds(5))
  )
  yield* Table.ensure(table, options.createTable ?? false)

  return StateStore.StateStore.of({
    registerMember: (app, member) => Members.register(table, app, member),
    heartbeat: (app, member) => Members.heartbeat(table, app, member),
    deregisterMember: (app, member) => Members.deregister(table, app, member),
    listMembers: (app) => Members.list(table, app),
    pruneMembers: (app, members) => Members.prune(table, app, members),
    listShardVersions: (app) => ShardLists.versions(table, app),
    getShards: (app, stream) => ShardLists.get(table, app, stream),
    updateShards: (app, stream, list) => ShardLists.update(table, app, stream, list),
    listCheckpoints: (app, stream) => Checkpoints.list(table, app, stream),
    acquireLeases: (app, owner, requests) => Leases.acquire(table, app, owner, requests),
    releaseLeases: (app, owner, leases) => Leases.release(table, app, owner, leases),
    commitCheckpoints: (app, owner, commits) => Checkpoints.commit(table, app, owner, commits),
    removeCheckpoints: (app, stream, shardIds) => Checkpoints.remove(table, app, stream, shardIds)
  })
})

/**
 * A state store in a DynamoDB table.
 *
 * @since 0.1.0
 * @category layers
 * @example
 * import { DynamoStateStore } from "@kinesumer/dynamo-store"
 *
 * export const StateStoreLive = DynamoStateStore.layer({ tableName: "kinesumer-state-store" })
 */
export const layer = (
  options: DynamoStateStoreOptions
): Layer.Layer<StateStore.StateStore, StateStoreError.StateStoreError> =>
  Layer.scoped(StateStore.StateStore, make(options))

/**
 * As `layer`, with options from `Config`. Leave an option out instead of passing `undefined`.
 *
 * @since 0.1.0
 * @category layers
 * @example
 * import { DynamoStateStore } from "@kinesumer/dynamo-store"
 * import { Config } from "effect"
 *
 * export const StateStoreLive = DynamoStateStore.layerConfig({
 *   tableName: Config.string("STATE_TABLE"),
 *   createTable: Config.boolean("STATE_TABLE_CREATE").pipe(Config.withDefault(false))
 * })
 */
export const layerConfig = (
  config: Config.Config.Wrap<DynamoStateStoreOptions>
): Layer.Layer<StateStore.StateStore, StateStoreError.StateStoreError | ConfigError.ConfigError> =>
  Layer.scoped(StateStore.StateStore, Effect.flatMap(Config.unwrap(config), make))

const clientConfig = ({ credentials, endpoint, region }: DynamoStateStoreOptions): DynamoDBClientConfig => ({
  // One policy for retries, ours: it is counted, logged and interrupted.
  maxAttempts: 1,
  ...(region === undefined ? {} : { region }),
  ...(endpoint === undefined ? {} : { endpoint }),
  ...(credentials === undefined ? {} : { credentials: toSdk(credentials) })
})

const reveal = (secret: string | Redacted.Redacted): string =>
  typeof secret === "string" ? secret : Redacted.value(secret)

const toSdk = (
  credentials: StaticCredentials | CredentialsProvider
): NonNullable<DynamoDBClientConfig["credentials"]> =>
  typeof credentials === "function" ? credentials : {
    accessKeyId: credentials.accessKeyId,
    secretAccessKey: reveal(credentials.secretAccessKey),
    ...(credentials.sessionToken === undefined ? {} : { sessionToken: reveal(credentials.sessionToken) })
  }
