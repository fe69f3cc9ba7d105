/** A table in dynalite, a proxy before it, and the store on top. */
import {
  type AttributeValue,
  BatchWriteItemCommand,
  DynamoDBClient,
  GetItemCommand,
  PutItemCommand,
  QueryCommand
} from "@aws-sdk/client-dynamodb"
import * as Position from "@kinesumer/core/Position"
import type * as StateStore from "@kinesumer/core/StateStore"
import { DynamoStateStore } from "@kinesumer/dynamo-store"
import * as LocalServers from "@kinesumer/test-kit/LocalServers"
import { Array as Arr, Effect, Option } from "effect"
import { vi } from "vitest"
import * as Proxy from "./proxy.js"

// Real servers answer when the machine lets them.
vi.setConfig({ testTimeout: 60_000 })

export const tableName = "state"

const access = {
  region: "eu-west-1",
  credentials: { accessKeyId: "key", secretAccessKey: "secret" }
} as const

/** A client of the SDK, for what the store itself does not do. */
export const client = (endpoint: string) =>
  Effect.acquireRelease(
    Effect.sync(() => new DynamoDBClient({ ...access, endpoint })),
    (client) => Effect.sync(() => client.destroy())
  )

export const open = (
  endpoint: string,
  options?: Partial<DynamoStateStore.DynamoStateStoreOptions>
) => DynamoStateStore.make({ ...access, tableName, endpoint, createTable: true, ...options })

export interface Setup {
  readonly store: StateStore.StateStore["Type"]
  readonly proxy: Proxy.Proxy
  /** Speaks to dynalite without the proxy. */
  readonly rows: {
    readonly put: (item: Record<string, AttributeValue>) => Effect.Effect<void>
    readonly putAll: (items: ReadonlyArray<Record<string, AttributeValue>>) => Effect.Effect<void>
    readonly get: (pk: string, sk: string) => Effect.Effect<Record<string, AttributeValue> | undefined>
    readonly keys: (pk: string) => Effect.Effect<ReadonlyArray<string>>
  }
}

export const setup = Effect.fnUntraced(function*(options?: Partial<DynamoStateStore.DynamoStateStoreOptions>) {
  const { endpoint } = yield* LocalServers.dynalite()
  const proxy = yield* Proxy.make(endpoint)
  const store = yield* open(proxy.endpoint, options)
  proxy.calls.length = 0
  const sdk = yield* client(endpoint)
  const setup: Setup = {
    store,
    proxy,
    rows: {
      put: (Item) => Effect.promise(() => sdk.send(new PutItemCommand({ TableName: tableName, Item }))),
      putAll: (items) =>
        Effect.forEach(Arr.chunksOf(items, 25), (chunk) =>
          Effect.promise(() =>
            sdk.send(
              new BatchWriteItemCommand({
                RequestItems: { [tableName]: chunk.map((Item) => ({ PutRequest: { Item } })) }
              })
            )
          ), { discard: true }),
      get: (pk, sk) =>
        Effect.promise(() =>
          sdk.send(
            new GetItemCommand({ TableName: tableName, Key: { pk: { S: pk }, sk: { S: sk } }, ConsistentRead: true })
          )
        ).pipe(Effect.map(({ Item }) => Item)),
      keys: (pk) =>
        Effect.promise(() =>
          sdk.send(
            new QueryCommand({
              TableName: tableName,
              KeyConditionExpression: "pk = :pk",
              ExpressionAttributeValues: { ":pk": { S: pk } },
              ProjectionExpression: "sk"
            })
          )
        ).pipe(Effect.map(({ Items }) => (Items ?? []).map((item) => item["sk"]?.S ?? "")))
    }
  }
  return setup
})

// --- Short forms ---

export const app = "orders-app"
export const stream = "orders"
export const alice: StateStore.Owner = { memberId: "alice", incarnation: "1" }
export const bob: StateStore.Owner = { memberId: "bob", incarnation: "1" }

export const memberOf = (memberId: string, heartbeat = 0): StateStore.Member => ({
  memberId,
  incarnation: "1",
  heartbeat,
  refreshes: 0,
  streams: [stream],
  assignVersion: 1
})

export const request = (
  shardId: string,
  options?: { readonly takeFrom?: StateStore.Owner & { readonly epoch?: number }; readonly epochAbove?: number }
): StateStore.LeaseRequest => ({
  stream,
  shardId,
  takeFrom: Option.map(
    Option.fromNullable(options?.takeFrom),
    ({ epoch, incarnation, memberId }) => ({ memberId, incarnation, epoch: epoch ?? 1 })
  ),
  epochAbove: options?.epochAbove ?? 0
})

export const commitOf = (shardId: string, epoch: number, position: Position.Position) => ({
  stream,
  shardId,
  epoch,
  position
})

export const after = (sequenceNumber: string, part?: number) => Position.afterSequence(sequenceNumber, part)

export const listOf = (version: number, shardIds: ReadonlyArray<string>): StateStore.ShardList => ({
  version,
  createdAt: 1_700_000_000_000,
  checkpointKey: stream,
  start: Position.trimHorizon,
  shards: shardIds.map((shardId) => ({
    shardId,
    parents: [],
    hashKeyRange: { start: "0", end: "340282366920938463463374607431768211455" },
    closed: false
  }))
})
