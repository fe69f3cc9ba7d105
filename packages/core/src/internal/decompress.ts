/** Compressed payloads, with the codecs that Node brings, and no further than a bound. */
import * as Effect from "effect/Effect"
import { versions } from "node:process"
import * as Zlib from "node:zlib"
import { UnsupportedCompression } from "../KinesumerError.js"

interface Codec {
  (
    data: Uint8Array,
    options: { readonly maxOutputLength: number },
    done: (error: Error | null, result: Uint8Array) => void
  ): void
}

const isCodec = (value: unknown): value is Codec => typeof value === "function"

/** It came with Node 22.15 and 23.8. */
const zstd = "zstdDecompress" in Zlib ? Zlib.zstdDecompress : undefined

/** The codec of a format; fails where this Node has none. */
export const codecOf = (compression: "gzip" | "zstd"): Effect.Effect<Codec, UnsupportedCompression> => {
  switch (compression) {
    case "gzip":
      return Effect.succeed(Zlib.gunzip)
    case "zstd":
      return isCodec(zstd)
        ? Effect.succeed(zstd)
        : Effect.fail(new UnsupportedCompression({ compression, node: versions.node }))
  }
}

/** It runs on a thread of Node's pool, so that what is large does not hold up the heartbeats. */
export const decompress = (codec: Codec, data: Uint8Array, maxBytes: number): Effect.Effect<Uint8Array, Error> =>
  Effect.async((resume) => {
    codec(data, { maxOutputLength: maxBytes }, (error, result) => {
      resume(error === null ? Effect.succeed(result) : Effect.fail(error))
    })
  })

export const isTooLarge = (error: Error): boolean => "code" in error && error.code === "ERR_BUFFER_TOO_LARGE"
