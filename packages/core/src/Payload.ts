/**
 * From bytes to typed values: schemas over the data of records, and operators that keep the record with its value, so
 * that it can still be marked.
 *
 * @since 0.1.0
 */
import * as Channel from "effect/Channel"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { constants } from "node:buffer"
import { oneOf, wholeNumber } from "./internal/checks.js"
import { DecodedRecord as Decoded } from "./internal/decodedRecord.js"
import * as Decompress from "./internal/decompress.js"
import { Kinesumer } from "./Kinesumer.js"
import { DecodeError, type InvalidConfig, type UnsupportedCompression } from "./KinesumerError.js"
import type { KinesumerRecord } from "./KinesumerRecord.js"

/**
 * A record and the value of its data. It goes wherever a record goes, `mark` included.
 *
 * @since 0.1.0
 * @category models
 */
export interface DecodedRecord<out A> extends KinesumerRecord {
  readonly value: A
}

/**
 * @since 0.1.0
 * @category models
 */
export interface DecodeOptions {
  /**
   * How the data are compressed; not at all by default. `zstd` needs Node.js 22.15 or later: without it everything fails
   * with `UnsupportedCompression`, whatever becomes of records that do not decode.
   */
  readonly compression?: "gzip" | "zstd" | undefined
  /**
   * So many bytes may come of a compressed record, from 1 on; any other number is an `InvalidConfig`. A record that holds
   * more does not decode. Defaults to 16 MiB.
   */
  readonly maxBytes?: number | undefined
}

/**
 * What becomes of a record that does not decode:
 *
 * - `fail`: the stream fails with a `DecodeError`, after what came before the record. The record comes again
 * - `skip`: it counts as processed, and is told and counted (`RecordSkipped`, `kinesumer_skipped_records_total`)
 * - a function, such as one that writes to a dead-letter stream: it counts as processed when its effect has succeeded. If
 *   the effect fails, so does the stream, and the record comes again
 *
 * @since 0.1.0
 * @category models
 */
export type OnInvalid<E = never, R = never> =
  | "fail"
  | "skip"
  | ((error: DecodeError) => Effect.Effect<unknown, E, R>)

// ---------------------------------------------------------------------------------------------------------------------
// Schemas
// ---------------------------------------------------------------------------------------------------------------------

const utf8 = new TextDecoder("utf-8", { fatal: true })
const toUtf8 = new TextEncoder()

/**
 * Data that are text in UTF-8.
 *
 * @since 0.1.0
 * @category schemas
 */
export const text: Schema.Schema<string, Uint8Array> = Schema.transformOrFail(
  Schema.Uint8ArrayFromSelf,
  Schema.String,
  {
    strict: true,
    decode: (data, _, ast) =>
      ParseResult.try({
        try: () => utf8.decode(data),
        catch: () => new ParseResult.Type(ast, data, "the data are no text in UTF-8")
      }),
    encode: (value) => ParseResult.succeed(toUtf8.encode(value))
  }
).annotations({ identifier: "Text" })

/**
 * Data that are JSON, of the shape that the schema says.
 *
 * @since 0.1.0
 * @category schemas
 * @example
 * import { Payload } from "@kinesumer/core"
 * import { Schema } from "effect"
 *
 * export const Order = Payload.json(Schema.Struct({ id: Schema.String, amount: Schema.Number }))
 */
export const json = <A, I, R>(schema: Schema.Schema<A, I, R>): Schema.Schema<A, Uint8Array, R> =>
  Schema.compose(text, Schema.parseJson(schema))

// ---------------------------------------------------------------------------------------------------------------------
// Operators
// ---------------------------------------------------------------------------------------------------------------------

const defaultMaxBytes = 16 * 1024 * 1024

type DecodeRecord<A, R> = (record: KinesumerRecord) => Effect.Effect<DecodedRecord<A>, DecodeError, R>

/**
 * What decodes one record, for a handler that does it itself. The options are looked at when it is made, so that one that
 * is wrong is no failure of a record.
 *
 * @since 0.1.0
 * @category decoding
 * @example
 * import { Kinesumer, Payload } from "@kinesumer/core"
 * import { Effect, Schema } from "effect"
 *
 * const Order = Payload.json(Schema.Struct({ id: Schema.String }))
 *
 * export const program = Effect.gen(function*() {
 *   const decode = yield* Payload.decoder(Order, { compression: "gzip" })
 *   yield* Kinesumer.process((record) => Effect.flatMap(decode(record), ({ value }) => Effect.log(value.id)))
 * })
 */
export const decoder = <A, R>(
  schema: Schema.Schema<A, Uint8Array, R>,
  { compression, maxBytes = defaultMaxBytes }: DecodeOptions = {}
): Effect.Effect<DecodeRecord<A, R>, InvalidConfig | UnsupportedCompression> => {
  const parse = ParseResult.decode(schema)
  const decode = (record: KinesumerRecord, data: Uint8Array): Effect.Effect<DecodedRecord<A>, DecodeError, R> =>
    Effect.suspend(() => parse(data)).pipe(
      Effect.mapBoth({
        onSuccess: (value) => new Decoded(record, value),
        onFailure: (issue) => new DecodeError({ record, reason: "Invalid", cause: ParseResult.parseError(issue) })
      }),
      // A function of the schema that throws, such as `BigInt`, says that the data are not of its kind.
      Effect.catchAllDefect((thrown) => {
        const cause = thrown instanceof Error ? thrown : new Error("The schema throws", { cause: thrown })
        return Effect.fail(new DecodeError({ record, reason: "Invalid", cause }))
      })
    )
  const checked = wholeNumber("maxBytes", maxBytes, 1, constants.MAX_LENGTH)
  if (compression === undefined) return Effect.as(checked, (record) => decode(record, record.data))
  return Effect.zipWith(
    Effect.flatMap(
      oneOf<NonNullable<DecodeOptions["compression"]>>("compression", compression, ["gzip", "zstd"]),
      Decompress.codecOf
    ),
    checked,
    (codec, most) => (record) =>
      codec(record.data, most).pipe(
        Effect.mapError((cause) =>
          new DecodeError({ record, reason: Decompress.isTooLarge(cause) ? "TooLarge" : "Compression", cause })
        ),
        Effect.flatMap((data) => decode(record, data))
      )
  )
}

/**
 * Decodes the records of `records`, or of a shard, and keeps them as they come: in order, in slices, and each with what
 * `mark` needs.
 *
 * A record that is skipped or handed to a function counts as processed from then on, while those before it in its slice
 * may still be in work: what is committed waits for them.
 *
 * @since 0.1.0
 * @category decoding
 * @example
 * import { Kinesumer, Payload } from "@kinesumer/core"
 * import { Effect, Schema, Stream } from "effect"
 *
 * const Order = Schema.Struct({ id: Schema.String, amount: Schema.Number })
 *
 * export const program = Effect.gen(function*() {
 *   const kinesumer = yield* Kinesumer.Kinesumer
 *   yield* kinesumer.records.pipe(
 *     Payload.decode(Payload.json(Order), { onInvalid: (error) => Effect.logError(error.message) }),
 *     Stream.runForEach((order) => Effect.zipRight(Effect.log(order.value.amount), kinesumer.mark(order)))
 *   )
 * })
 */
export function decode<A, R>(
  schema: Schema.Schema<A, Uint8Array, R>,
  options?: DecodeOptions & { readonly onInvalid?: "fail" | undefined }
): <E1, R1>(
  records: Stream.Stream<KinesumerRecord, E1, R1>
) => Stream.Stream<DecodedRecord<A>, E1 | DecodeError | InvalidConfig | UnsupportedCompression, R1 | R>
export function decode<A, R, E2 = never, R2 = never>(
  schema: Schema.Schema<A, Uint8Array, R>,
  options: DecodeOptions & { readonly onInvalid: Exclude<OnInvalid<E2, R2>, "fail"> }
): <E1, R1>(
  records: Stream.Stream<KinesumerRecord, E1, R1>
) => Stream.Stream<DecodedRecord<A>, E1 | E2 | InvalidConfig | UnsupportedCompression, R1 | R | R2 | Kinesumer>
export function decode<A, R, E2 = never, R2 = never>(
  schema: Schema.Schema<A, Uint8Array, R>,
  options: DecodeOptions & { readonly onInvalid: OnInvalid<E2, R2> }
): <E1, R1>(
  records: Stream.Stream<KinesumerRecord, E1, R1>
) => Stream.Stream<
  DecodedRecord<A>,
  E1 | E2 | DecodeError | InvalidConfig | UnsupportedCompression,
  R1 | R | R2 | Kinesumer
>
export function decode<A, R, E2, R2>(
  schema: Schema.Schema<A, Uint8Array, R>,
  { onInvalid = "fail", ...options }: DecodeOptions & { readonly onInvalid?: OnInvalid<E2, R2> | undefined } = {}
) {
  const treat = (
    decoded: Effect.Effect<Option.Option<DecodedRecord<A>>, DecodeError, R>
  ): Effect.Effect<Option.Option<DecodedRecord<A>>, DecodeError | E2, R | R2 | Kinesumer> =>
    onInvalid === "fail" ? decoded : Effect.catchAll(decoded, (error) => settle(error, onInvalid))
  return <E1, R1>(records: Stream.Stream<KinesumerRecord, E1, R1>) =>
    Stream.unwrap(
      Effect.map(
        decoder(schema, options),
        (decode) => mapSlices(records, (record) => treat(Effect.asSome(decode(record))))
      )
    )
}

/** What is done with comes no more: the record is marked, as far as its lease is still held. */
const settle = <E, R>(error: DecodeError, onInvalid: Exclude<OnInvalid<E, R>, "fail">) =>
  Effect.gen(function*() {
    const kinesumer = yield* Kinesumer
    if (onInvalid === "skip") {
      yield* Effect.ignore(kinesumer.skip(error.record, error))
    } else {
      yield* onInvalid(error)
      yield* Effect.ignore(kinesumer.mark(error.record))
    }
    return Option.none()
  })

/** Slices stay whole. One that fails in the middle is handed on up to there, before the stream fails. */
const mapSlices = <A, B, E, R, E1, R1>(
  stream: Stream.Stream<A, E1, R1>,
  f: (a: A) => Effect.Effect<Option.Option<B>, E, R>
): Stream.Stream<B, E | E1, R | R1> => {
  const mapSlice = (slice: Chunk.Chunk<A>) =>
    Effect.gen(function*() {
      const mapped: Array<B> = []
      for (const a of slice) {
        const result = yield* Effect.either(f(a))
        if (result._tag === "Left") return { mapped, failure: Option.some(result.left) }
        if (Option.isSome(result.right)) mapped.push(result.right.value)
      }
      return { mapped, failure: Option.none<E>() }
    })
  const loop: Channel.Channel<Chunk.Chunk<B>, Chunk.Chunk<A>, E | E1, E1, unknown, unknown, R> = Channel
    .readWithCause({
      onInput: (slice: Chunk.Chunk<A>) =>
        Channel.flatMap(Channel.fromEffect(mapSlice(slice)), ({ failure, mapped }) =>
          Channel.zipRight(
            mapped.length === 0 ? Channel.void : Channel.write(Chunk.unsafeFromArray(mapped)),
            Option.match(failure, { onNone: () => loop, onSome: Channel.fail })
          )),
      onFailure: Channel.failCause,
      onDone: Channel.succeed
    })
  return Stream.fromChannel(Channel.pipeTo(Stream.toChannel(stream), loop))
}
