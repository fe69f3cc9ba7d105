/**
 * A state store on the `KeyValueStore` of `@effect/platform`, for a group of one process: on files it is the durable
 * store that needs no server.
 *
 * A key-value store has no update that several processes could agree by. Members of one process may share this store;
 * a second process must not use the same one at the same time. On files that is enforced, elsewhere it is up to you.
 *
 * @since 0.1.0
 */
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as KeyValueStore from "@effect/platform/KeyValueStore"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as DirectoryLock from "./internal/directoryLock.js"
import * as KeyValueRows from "./internal/keyValueRows.js"
import { fromPlatform } from "./internal/platformErrors.js"
import * as StoredRows from "./internal/storedRows.js"
import * as SyncedFile from "./internal/syncedFile.js"
import * as TableStateStore from "./internal/tableStateStore.js"
import { StateStore } from "./StateStore.js"
import type { StateStoreError } from "./StateStoreError.js"

/**
 * Keeps the whole contract of `StateStore` in a key-value store. A write that a crash has cut short is passed over in
 * favour of the one before it. A value that this store cannot have written fails with `MalformedRow`, which names the
 * key.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make: Effect.Effect<StateStore["Type"], never, KeyValueStore.KeyValueStore> = Effect.flatMap(
  KeyValueStore.KeyValueStore,
  (store) =>
    Effect.map(
      Effect.all({
        members: KeyValueRows.make(store, { kind: "members", buckets: 1, schema: StoredRows.members }),
        // Apart, since one list may be some megabytes.
        shardLists: KeyValueRows.make(store, { kind: "shards", buckets: 16, schema: StoredRows.shardLists }),
        checkpoints: KeyValueRows.make(store, { kind: "checkpoints", buckets: 64, schema: StoredRows.checkpoints })
      }),
      TableStateStore.make
    )
)

/**
 * Provides `make`, over any `KeyValueStore` that this process alone uses.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer: Layer.Layer<StateStore, never, KeyValueStore.KeyValueStore> = Layer.effect(StateStore, make)

/**
 * Keeps the state in files of a directory, which is made if it is not there. What was answered is on the disk.
 *
 * The directory is locked for as long as the layer lives. A second process fails with `Locked`, and is told which one
 * holds it; the lock of a process that has died on the same host is taken over.
 *
 * @since 0.1.0
 * @category layers
 * @example
 * import { NodeContext } from "@effect/platform-node"
 * import { KeyValueStateStore } from "@kinesumer/core"
 * import { Layer } from "effect"
 *
 * export const StateStoreLive = KeyValueStateStore.layerFileSystem("./state").pipe(Layer.provide(NodeContext.layer))
 */
export const layerFileSystem = (
  directory: string
): Layer.Layer<StateStore, StateStoreError, FileSystem.FileSystem | Path.Path> =>
  Layer.scoped(
    StateStore,
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      yield* Effect.mapError(fs.makeDirectory(directory, { recursive: true }), openError(directory))
      yield* DirectoryLock.acquire(directory)
      const files = yield* Effect.mapError(openFiles(directory), openError(directory))
      return yield* Effect.provideService(make, KeyValueStore.KeyValueStore, files)
    })
  )

/** The platform's store on files, with writes that wait for the disk. */
const openFiles = Effect.fnUntraced(function*(directory: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const files = yield* Effect.provide(KeyValueStore.KeyValueStore, KeyValueStore.layerFileSystem(directory))
  return KeyValueStore.make({
    ...files,
    set: (key, value) =>
      SyncedFile.write(
        fs,
        path.join(directory, encodeURIComponent(key)),
        typeof value === "string" ? new TextEncoder().encode(value) : value
      )
  })
})

const openError = (directory: string): (error: PlatformError) => StateStoreError =>
  fromPlatform("open", `The directory "${directory}"`)
