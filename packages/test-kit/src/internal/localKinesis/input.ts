/**
 * What the members of a request may be.
 */
import * as Arr from "effect/Array"
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import * as AST from "effect/SchemaAST"
import type { Format } from "./format.js"
import type { WireError } from "./wireError.js"
import * as Wire from "./wireError.js"

/**
 * The members whose form differs between the forms of a request.
 *
 * @internal
 */
export interface Leaves {
  readonly bytes: Schema.Schema<Uint8Array, unknown>
  /** In milliseconds. */
  readonly time: Schema.Schema<number, unknown>
}

const leaf = <A>(self: Schema.Schema<A>, what: string, decode: (value: unknown) => A | undefined) =>
  Schema.transformOrFail(Schema.Unknown, self, {
    strict: true,
    decode: (value, _options, ast) => {
      const decoded = decode(value)
      return decoded === undefined
        ? ParseResult.fail(new ParseResult.Type(ast, value, `is not ${what}`))
        : ParseResult.succeed(decoded)
    },
    encode: ParseResult.succeed
  })

/** The latest time that a date can have. */
const latest = 8_640_000_000_000_000

/** @internal */
export const leavesOf = (format: Format): Leaves => ({
  bytes: leaf(Schema.Uint8ArrayFromSelf, "binary data", format.bytes),
  time: leaf(Schema.Number.pipe(Schema.between(0, latest)), "a time", format.time)
})

/**
 * A member that may be missing or null.
 *
 * @internal
 */
export const maybe = <A, I>(self: Schema.Schema<A, I>) => Schema.optionalWith(self, { nullable: true })

/** @internal */
export const within = (least: number, most: number) => Schema.Int.pipe(Schema.between(least, most))

const name = Schema.String.pipe(Schema.pattern(/^[a-zA-Z0-9_.-]{1,128}$/))

const arn = Schema.String.pipe(
  Schema.pattern(/^arn:aws[a-z-]*:kinesis:[a-z0-9-]+:\d{12}:stream\/[a-zA-Z0-9_.-]{1,128}$/)
)

/** @internal */
export const streamName = name

/** @internal */
export const streamArn = arn

/** @internal */
export const address = { StreamName: maybe(name), StreamARN: maybe(arn) }

/** @internal */
export interface Address {
  readonly StreamName?: string | undefined
  readonly StreamARN?: string | undefined
}

/**
 * The stream that a request is about: its ARN, or its name.
 *
 * @internal
 */
export const addressed = ({ StreamARN, StreamName }: Address): Either.Either<string, WireError> => {
  if (StreamARN !== undefined && StreamName !== undefined && !StreamARN.endsWith(`/${StreamName}`)) {
    return Either.left(Wire.invalidArgument(`StreamARN ${StreamARN} and StreamName ${StreamName} are two streams`))
  }
  const stream = StreamARN ?? StreamName
  return stream === undefined
    ? Either.left(Wire.invalidArgument("Either StreamARN or StreamName is needed"))
    : Either.right(stream)
}

/** Whether a value has the right type, and is missing or not one of those that are allowed. */
const isInvalid = (issue: ParseResult.ParseIssue): boolean => {
  switch (issue._tag) {
    case "Missing":
      return true
    case "Refinement":
      return issue.kind === "Predicate" || isInvalid(issue.issue)
    case "Pointer":
    case "Transformation":
      return isInvalid(issue.issue)
    case "Composite":
      return Arr.ensure(issue.issues).some(isInvalid)
    case "Type":
      return typeof issue.actual === "string" && (AST.isLiteral(issue.ast) || AST.isUnion(issue.ast))
    case "Unexpected":
    case "Forbidden":
      return false
  }
}

/**
 * A value of the wrong type cannot even be read, and is refused as such; a missing one, or one out of bounds, is not valid.
 *
 * @internal
 */
export const decode = <A, I>(schema: Schema.Schema<A, I>): (input: unknown) => Either.Either<A, WireError> => {
  const decodeInput = Schema.decodeUnknownEither(schema)
  return (input) =>
    Either.mapLeft(decodeInput(input), (error) => {
      const detail = ParseResult.ArrayFormatter.formatErrorSync(error)
        .map(({ message, path }) => `${path.map(String).join(".")}: ${message}`)
        .join("; ")
      return isInvalid(error.issue)
        ? Wire.validation(`Validation error detected: ${detail}`)
        : Wire.serialization(detail)
    })
}
