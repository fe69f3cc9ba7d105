/** Checks of settings: each gives the value, or says which field is wrong, its value, and what is allowed. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { InvalidConfig } from "../KinesumerError.js"

/** A setting that counts something. */
export const wholeNumber = (
  field: string,
  value: number,
  min: number,
  max: number
): Effect.Effect<number, InvalidConfig> =>
  Number.isSafeInteger(value) && value >= min && value <= max
    ? Effect.succeed(value)
    : new InvalidConfig({
      field,
      value,
      allowed: max === Number.MAX_SAFE_INTEGER ? `a whole number from ${min}` : `a whole number from ${min} to ${max}`
    })

export const boolean = (field: string, value: boolean): Effect.Effect<boolean, InvalidConfig> =>
  typeof value === "boolean" ? Effect.succeed(value) : new InvalidConfig({ field, value, allowed: "true or false" })

export const oneOf = <A extends string>(
  field: string,
  value: A,
  allowed: ReadonlyArray<A>
): Effect.Effect<A, InvalidConfig> =>
  allowed.includes(value)
    ? Effect.succeed(value)
    : new InvalidConfig({ field, value, allowed: alternatives.format(allowed.map((one) => `"${one}"`)) })

// British, which has no comma before the "or".
const alternatives = new Intl.ListFormat("en-GB", { type: "disjunction" })

/** A setting that is waited for. */
export const duration = (
  field: string,
  value: Duration.DurationInput,
  min: Duration.DurationInput
): Effect.Effect<Duration.Duration, InvalidConfig> =>
  Option.match(Option.filter(Duration.decodeUnknown(value), Duration.isFinite), {
    onNone: () => new InvalidConfig({ field, value: asGiven(value), allowed: `a finite duration such as "5 seconds"` }),
    onSome: (decoded) =>
      Duration.greaterThanOrEqualTo(decoded, min) && !isBelowZero(value)
        ? Effect.succeed(decoded)
        : new InvalidConfig({
          field,
          value: asGiven(value),
          allowed: `at least ${Duration.format(Duration.decode(min))}`
        })
  })

/** A duration takes it, and anything that is no number, for zero. */
const isBelowZero = (value: Duration.DurationInput): boolean => typeof value === "number" && !(value >= 0)

const asGiven = (value: Duration.DurationInput): unknown => Duration.isDuration(value) ? Duration.format(value) : value
