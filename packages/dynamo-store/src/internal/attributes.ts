/**
 * Attribute values: written by hand, and read with an error that names the attribute. Hand-written since a row that
 * the store cannot have written must be told by name, and never be read as something near it.
 */
import type { AttributeValue } from "@aws-sdk/client-dynamodb"
import * as Data from "effect/Data"
import * as Either from "effect/Either"

/** @internal */
export type Item = Readonly<Record<string, AttributeValue>>

/** @internal */
export type Key = { readonly pk: string; readonly sk: string }

/** @internal */
export const text = (value: string): AttributeValue => ({ S: value })

/** @internal */
export const number = (value: number): AttributeValue => ({ N: `${value}` })

/** @internal */
export const flag = (value: boolean): AttributeValue => ({ BOOL: value })

/** @internal */
export const list = (values: ReadonlyArray<AttributeValue>): AttributeValue => ({ L: [...values] })

/** @internal */
export const map = (value: Record<string, AttributeValue>): AttributeValue => ({ M: value })

/** @internal */
export const keyOf = (key: Key) => ({ pk: text(key.pk), sk: text(key.sk) })

/**
 * A row holds something that the store cannot have written.
 *
 * @internal
 */
export class Malformed extends Data.TaggedError("Malformed")<{
  readonly item: Item
  readonly attribute: string
  readonly expected: string
}> {}

/** @internal */
export type Decoded<A> = Either.Either<A, Malformed>

/** @internal */
export const malformed = (item: Item, attribute: string, expected: string): Either.Either<never, Malformed> =>
  Either.left(new Malformed({ item, attribute, expected }))

/** @internal */
export const getText = (item: Item, attribute: string): Decoded<string> => {
  const value = item[attribute]?.S
  return value === undefined ? malformed(item, attribute, "a string") : Either.right(value)
}

/** @internal */
export const getNumber = (item: Item, attribute: string): Decoded<number> => {
  const value = Number(item[attribute]?.N ?? NaN)
  return Number.isFinite(value) ? Either.right(value) : malformed(item, attribute, "a number")
}

/**
 * A whole number from `minimum` up, exact as a JavaScript number.
 *
 * @internal
 */
export const getCount = (item: Item, attribute: string, minimum = 0): Decoded<number> => {
  const value = Number(item[attribute]?.N ?? NaN)
  return Number.isSafeInteger(value) && value >= minimum
    ? Either.right(value)
    : malformed(item, attribute, `a whole number of at least ${minimum}`)
}

/** @internal */
export const getTexts = (item: Item, attribute: string): Decoded<ReadonlyArray<string>> => {
  const values = item[attribute]?.L
  const texts = values?.flatMap((value) => value.S ?? [])
  return texts === undefined || texts.length !== values?.length
    ? malformed(item, attribute, "a list of strings")
    : Either.right(texts)
}
