import { addEqualityTesters, chai } from "@effect/vitest"
import { Option } from "effect"

addEqualityTesters()

/** chai looks at own properties alone, and `none` has none: it takes `some(1)` for equal to it. */
const apart = (left: unknown, right: unknown): boolean | null =>
  Option.isOption(left) && Option.isOption(right) && left._tag !== right._tag ? false : null

chai.config.deepEqual = (expected, actual) => chai.util.eql(expected, actual, { comparator: apart })
