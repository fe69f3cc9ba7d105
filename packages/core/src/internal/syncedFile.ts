/** Files that are on the disk, and not only on their way to it, when the write is answered. */
import type { PlatformError } from "@effect/platform/Error"
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"

export const write = (
  fs: FileSystem.FileSystem,
  path: string,
  content: Uint8Array
): Effect.Effect<void, PlatformError> =>
  Effect.scoped(Effect.gen(function*() {
    const file = yield* fs.open(path, { flag: "w" })
    yield* file.writeAll(content)
    yield* file.sync
  }))
