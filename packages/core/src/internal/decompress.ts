/** Compressed payloads, with the codecs that Node brings, and no further than a bound. */
import * as Effect from "effect/Effect"
import { versions } from "node:process"
import * as Zlib from "node:zlib"
import { UnsupportedCompression } from "../KinesumerError.js"
import * as ZstdFrames from "./zstdFrames.js"

/** What comes of the data. Fails where it is more than so many bytes; see `isTooLarge`. */
export type Codec = (data: Uint8Array, maxBytes: number) => Effect.Effect<Uint8Array, Error>

interface Unpack {
  (
    data: Uint8Array,
    options: { readonly maxOutputLength: number },
    done: (error: Error | null, result: Uint8Array) => void
  ): void
}

const isUnpack = (value: unknown): value is Unpack => typeof value === "function"

/** It came with Node 22.15 and 23.8. */
const zstd = "zstdDecompress" in Zlib ? Zlib.zstdDecompress : undefined

/** The codec of a format; fails where this Node has none. */
export const codecOf = (compression: "gzip" | "zstd"): Effect.Effect<Codec, UnsupportedCompression> => {
  switch (compression) {
    case "gzip":
      return Effect.succeed(within(codecFrom(Zlib.gunzip)))
    case "zstd":
      return isUnpack(zstd)
        ? Effect.succeed(within(frameByFrame(codecFrom(zstd))))
        : Effect.fail(new UnsupportedCompression({ compression, node: versions.node }))
  }
}

/** It runs on a thread of Node's pool, so that what is large does not hold up the heartbeats. */
const codecFrom = (unpack: Unpack): Codec => (data, maxBytes) =>
  Effect.async((resume) => {
    unpack(data, { maxOutputLength: maxBytes }, (error, result) => {
      resume(error === null ? Effect.succeed(result) : Effect.fail(error))
    })
  })

/** All of the data, where Node's codec reads no more than the first frame. */
const frameByFrame = (codec: Codec): Codec => (data, maxBytes) =>
  Effect.gen(function*() {
    const parts: Array<Uint8Array> = []
    let left = maxBytes
    for (const frame of yield* ZstdFrames.split(data)) {
      // Node refuses a bound of 0. An empty frame may still follow.
      const part = yield* codec(frame, Math.max(1, left))
      left -= part.length
      if (left < 0) return yield* Effect.fail(new TooLarge(maxBytes))
      parts.push(part)
    }
    const [only, ...more] = parts
    return only !== undefined && more.length === 0 ? only : Buffer.concat(parts)
  })

/** Node names no bound that a user knows, and for a later frame only what was left of it. */
const within = (codec: Codec): Codec => (data, maxBytes) =>
  Effect.mapError(
    codec(data, maxBytes),
    (error) => "code" in error && error.code === "ERR_BUFFER_TOO_LARGE" ? new TooLarge(maxBytes) : error
  )

class TooLarge extends Error {
  constructor(maxBytes: number) {
    super(`The data hold more than ${maxBytes} bytes (maxBytes)`)
  }
}

export const isTooLarge = (error: Error): boolean => error instanceof TooLarge
