import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Simulation } from "@kinesumer/test-kit"
import { Array, Effect, Schema } from "effect"
import * as Regressions from "../src/regressions.js"
import * as Scenario from "../src/scenario.js"

const asJson = (value: unknown): unknown => JSON.parse(JSON.stringify(value))

/** Reads a file with this text. */
const read = (text: string) =>
  Effect.provide(
    Scenario.read("scenario.json"),
    FileSystem.layerNoop({ readFileString: () => Effect.succeed(text) })
  )

const readError = (value: unknown) =>
  Effect.flatMap(Effect.flip(read(JSON.stringify(value))), (error) => {
    assert(error._tag === "ScenarioInvalid")
    return Effect.succeed(error.message)
  })

describe("Scenario", () => {
  it.effect("reads what the generator makes, and writes it again", () =>
    Effect.gen(function*() {
      for (const seed of Array.range(1, 300)) {
        const scenario = Simulation.generate(seed)
        assert.deepStrictEqual(asJson(yield* read(JSON.stringify(scenario))), asJson(scenario))
        assert.deepStrictEqual(asJson(yield* Schema.encode(Scenario.Scenario)(scenario)), asJson(scenario))
      }
    }))

  it.effect("names the field that is wrong", () =>
    Effect.gen(function*() {
      const scenario = Simulation.generate(1)
      const misspelt = yield* readError({ ...scenario, events: [{ at: 0, _tag: "ExpireIterators", milis: 5 }] })
      assert.include(misspelt, "scenario.json is no scenario")
      assert.include(misspelt, "events.0.milis: is unexpected")
      assert.include(yield* readError({ ...scenario, events: [{ at: 0, _tag: "Explode" }] }), "events.0._tag: ")
      assert.include(
        yield* readError({ ...scenario, bufferSize: "many" }),
        "bufferSize: Expected number, actual \"many\""
      )
    }))

  it.effect("refuses events that are not sorted", () =>
    Effect.gen(function*() {
      const event = (at: number) => ({ at, _tag: "ExpireIterators" })
      const message = yield* readError({ ...Simulation.generate(1), events: [event(2), event(1)] })
      assert.include(message, "sorted by their moments")
    }))
})

describe("Regressions", () => {
  it.effect("are all readable", () =>
    Effect.gen(function*() {
      for (const { name, scenario } of yield* Regressions.all) {
        assert.match(name, /\.json$/)
        assert.notProperty(scenario, "broke")
      }
    }).pipe(Effect.provide(NodeContext.layer)))
})
