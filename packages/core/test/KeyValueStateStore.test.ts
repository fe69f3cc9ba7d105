import { FileSystem, KeyValueStore } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { KeyValueStateStore } from "@kinesumer/core"
import * as StateStoreContract from "@kinesumer/test-kit/StateStoreContract"
import { Effect, Layer } from "effect"

StateStoreContract.suite(
  "KeyValueStateStore.layer",
  Layer.provide(KeyValueStateStore.layer, KeyValueStore.layerMemory)
)

StateStoreContract.suite(
  "KeyValueStateStore.layerFileSystem",
  Layer.unwrapScoped(Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    return KeyValueStateStore.layerFileSystem(yield* fs.makeTempDirectoryScoped())
  })).pipe(Layer.provide(NodeContext.layer)),
  // Each write waits for the disk.
  { runs: 30 }
)
