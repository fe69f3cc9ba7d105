import { assert, it } from "@effect/vitest"
import * as Package from "@kinesumer/test-kit"
import { Effect } from "effect"

it.effect("resolves to the sources of the package", () => Effect.sync(() => assert.isDefined(Package)))
