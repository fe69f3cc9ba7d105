/**
 * Shard lists. A list of any length is cut into chunks, which are written first, under a key of this very write; then
 * the head flips to them by condition. The heads of an app are small and stand together, so that all versions are one
 * read. Old chunks are removed last; a reader that finds its chunks gone asks the head again.
 */
import type { AttributeValue } from "@aws-sdk/client-dynamodb"
import type * as Shard from "@kinesumer/core/Shard"
import type * as StateStore from "@kinesumer/core/StateStore"
import type * as StateStoreError from "@kinesumer/core/StateStoreError"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { Decoded, Item, Key } from "./attributes.js"
import { flag, getCount, getNumber, getText, list, malformed, map, number, text } from "./attributes.js"
import * as Batch from "./batch.js"
import type { Table } from "./client.js"
import * as Rows from "./rows.js"

// --- Chunks ---

const Chunk = Schema.parseJson(Schema.Array(Schema.Struct({
  shardId: Schema.String,
  parents: Schema.Array(Schema.String),
  hashKeyRange: Schema.Struct({ start: Schema.String, end: Schema.String }),
  closed: Schema.Boolean
})))

const decodeJson = Schema.decodeEither(Chunk)

// An item holds 400 KB, of which some are for keys and names; smaller ones are cheaper to try again.
const chunkBytes = 256 * 1024

const encoder = new TextEncoder()

/**
 * Cuts a list into JSON texts of at most `chunkBytes`: none for an empty one.
 *
 * @internal
 */
export const toChunks = (shards: ReadonlyArray<Shard.Shard>): ReadonlyArray<string> => {
  const chunks: Array<string> = []
  let pieces: Array<string> = []
  let size = 0
  const flush = () => {
    if (pieces.length > 0) chunks.push(`[${pieces.join(",")}]`)
    pieces = []
    size = 0
  }
  for (const { closed, hashKeyRange, parents, shardId } of shards) {
    const { end, start } = hashKeyRange
    const piece = JSON.stringify({ shardId, parents, hashKeyRange: { start, end }, closed })
    const bytes = encoder.encode(piece).length + 1
    if (size + bytes > chunkBytes) flush()
    pieces.push(piece)
    size += bytes
  }
  flush()
  return chunks
}

const padded = (number: number): string => `${number}`.padStart(16, "0")

const decodeChunk = (item: Item): Decoded<ReadonlyArray<Shard.Shard>> =>
  Either.flatMap(
    getText(item, "shards"),
    (json) => Either.orElse(decodeJson(json), () => malformed(item, "shards", "a JSON list of shards"))
  )

// --- Heads ---

interface Head {
  readonly list: Omit<StateStore.ShardList, "shards">
  readonly writeKey: string
  readonly chunks: number
}

const decodeVersion = (item: Item) => getCount(item, "version", 1)

const decodeHead = (item: Item): Decoded<Head> =>
  Either.gen(function*() {
    const start = yield* Rows.decodePosition(item)
    return {
      list: {
        version: yield* decodeVersion(item),
        createdAt: yield* getNumber(item, "created_at"),
        checkpointKey: yield* getText(item, "checkpoint_key"),
        start: Option.isSome(start) ? start.value : yield* malformed(item, "position_type", "the start of the stream")
      },
      writeKey: yield* getText(item, "write_key"),
      chunks: yield* getCount(item, "chunks")
    }
  })

const headKey = (app: string, stream: string): Key => ({ pk: Rows.listsPk(app), sk: stream })

/** @internal */
export const versions = (table: Table, app: string) =>
  table.query("listShardVersions", {
    condition: "#pk = :pk",
    values: { pk: text(Rows.listsPk(app)) },
    projection: "#pk, #sk, #version"
  }).pipe(
    Effect.flatMap(Effect.forEach((item) =>
      table.decode(
        "listShardVersions",
        Either.all([getText(item, "sk"), decodeVersion(item)])
      )
    )),
    Effect.map((entries): ReadonlyMap<string, number> => new Map(entries))
  )

// --- Reading ---

/** @internal */
export const get = Effect.fnUntraced(function*(table: Table, app: string, stream: string) {
  const operation = "getShards"
  let before: string | undefined
  for (;;) {
    const item = yield* table.get(operation, headKey(app, stream))
    if (item === undefined) return Option.none<StateStore.ShardList>()
    const { chunks, list, writeKey } = yield* table.decode(operation, decodeHead(item))
    const items = yield* table.query(operation, {
      condition: "#pk = :pk AND begins_with(#sk, :writeKey)",
      values: { pk: text(Rows.chunksPk(app, stream)), writeKey: text(writeKey) }
    })
    if (items.length === chunks) {
      const shards = yield* Effect.forEach(items, (item) => table.decode(operation, decodeChunk(item)))
      return Option.some<StateStore.ShardList>({ ...list, shards: shards.flat() })
    }
    // The head has moved on, unless it names the same chunks again: then they are lost for good.
    if (writeKey === before) {
      return yield* table.decode(
        operation,
        malformed(item, "chunks", `${items.length}, the number of its rows under pk "${Rows.chunksPk(app, stream)}"`)
      )
    }
    before = writeKey
  }
})

// --- Writing ---

/** @internal */
export const update = Effect.fnUntraced(
  function*(table: Table, app: string, stream: string, shardList: StateStore.ShardList) {
    const operation = "updateShards"
    const { checkpointKey, createdAt, shards, start, version } = shardList
    const unique = yield* Effect.sync(() => crypto.randomUUID())
    const writeKey = `${padded(version)}#${unique}#`
    const pk = Rows.chunksPk(app, stream)
    const chunks = toChunks(shards).map((json, index): Item => ({
      pk: text(pk),
      sk: text(`${writeKey}${padded(index)}`),
      shards: text(json)
    }))
    yield* Batch.all(chunks, (chunk) => table.put(operation, chunk))

    const head: Item = {
      pk: text(Rows.listsPk(app)),
      sk: text(stream),
      version: number(version),
      created_at: number(createdAt),
      checkpoint_key: text(checkpointKey),
      ...Rows.encodePosition(start).set,
      write_key: text(writeKey),
      chunks: number(chunks.length),
      last_update: yield* Rows.lastUpdate
    }
    const flipped = yield* table.putIf(
      operation,
      head,
      version === 1
        ? { condition: "attribute_not_exists(#pk)" }
        : { condition: "#version = :before", values: { before: number(version - 1) } }
    ).pipe(
      Effect.as(true),
      // Refused, it can still be our own write, whose answer was lost.
      Effect.catchTag("Refused", (refused) => Effect.map(refused.row, (row) => row?.["write_key"]?.S === writeKey))
    )
    // The list stands or it does not: what follows is tidying, and the next write does it again.
    yield* (flipped
      ? Effect.zipRight(removeBefore(table, pk, version), mirror(table, app, stream, shardList))
      : removeChunks(table, pk, chunks)).pipe(
        Effect.catchTag("StateStoreError", (error) => Effect.logDebug(`Left behind rows of "${pk}": ${error.message}`))
      )
    return flipped
  }
)

const removeChunks = (table: Table, pk: string, items: ReadonlyArray<Item>) =>
  Batch.all(
    items,
    (item) =>
      table.remove("updateShards", { pk, sk: item["sk"]?.S ?? "" }, { condition: "attribute_exists(#pk)" }).pipe(
        Effect.catchTag("Refused", () => Effect.void),
        Effect.asVoid
      )
  )

/** The chunks of all versions before this one, those of writers that died half-way included. */
const removeBefore = (table: Table, pk: string, version: number) =>
  table.query("updateShards", {
    condition: "#pk = :pk AND #sk < :version",
    values: { pk: text(pk), version: text(padded(version)) },
    projection: "#sk"
  }).pipe(
    Effect.flatMap((items) => removeChunks(table, pk, items))
  )

// The Go library keeps the list of a stream in one item, so a long one has no place there.
const mirrored = 1000

/** The list as the Go library reads it, for a group that goes back. */
const mirror = (
  table: Table,
  app: string,
  stream: string,
  { shards, version }: StateStore.ShardList
): Effect.Effect<void, StateStoreError.StateStoreError> =>
  shards.length > mirrored ? Effect.void : table.update(
    "updateShards",
    { pk: Rows.goShardsPk(app), sk: stream },
    {
      update: "SET #shards = :shards, #list_version = :version",
      condition: "attribute_not_exists(#list_version) OR #list_version < :version",
      values: { shards: list(shards.map(goShard)), version: number(version) }
    }
  ).pipe(
    Effect.catchTag("Refused", () => Effect.void),
    Effect.asVoid
  )

const goShard = ({ closed, shardId }: Shard.Shard): AttributeValue => map({ ID: text(shardId), Closed: flag(closed) })
