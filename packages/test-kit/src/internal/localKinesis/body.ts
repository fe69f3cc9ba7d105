/**
 * The body of a request. `@effect/platform-node` would put it together anew with each part that comes, which takes
 * seconds for some MiB in the small parts of HTTP/2.
 */
import type * as HttpIncomingMessage from "@effect/platform/HttpIncomingMessage"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { WireError } from "./wireError.js"
import * as Wire from "./wireError.js"

/** A record of 10 MiB in base64, and what stands around it. */
const mostBytes = 16 * 1024 * 1024

/**
 * What is too large is read to its end and thrown away: a client that is still writing would see a broken connection
 * instead of the refusal.
 *
 * @internal
 */
export const read = <E>(
  request: HttpIncomingMessage.HttpIncomingMessage<E>
): Effect.Effect<Uint8Array, WireError> =>
  request.stream.pipe(
    Stream.mapError(() => Wire.serialization("The body broke off")),
    Stream.runFold({ parts: Chunk.empty<Uint8Array>(), bytes: 0 }, (sum, part) => {
      const bytes = sum.bytes + part.byteLength
      return { parts: bytes > mostBytes ? Chunk.empty<Uint8Array>() : Chunk.append(sum.parts, part), bytes }
    }),
    Effect.flatMap(({ bytes, parts }) =>
      bytes > mostBytes
        ? Effect.fail(Wire.make("RequestEntityTooLarge", `The body is larger than ${mostBytes} bytes`, 413))
        : Effect.sync(() => Buffer.concat(Chunk.toReadonlyArray(parts), bytes))
    )
  )
