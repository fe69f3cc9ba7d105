import { assert, it } from "@effect/vitest"
import * as Core from "@kinesumer/core"
import { Effect } from "effect"

it.effect("sees the sources of the packages", () => Effect.sync(() => assert.isDefined(Core)))
