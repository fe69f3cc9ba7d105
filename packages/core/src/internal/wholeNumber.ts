/** A setting that counts something. */
import * as Effect from "effect/Effect"
import { InvalidConfig } from "../KinesumerError.js"

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
