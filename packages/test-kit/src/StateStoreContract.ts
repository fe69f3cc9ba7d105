/**
 * The contract of a state store as tests. Run it against every store, your own ones included: a group is as safe as
 * its store is exact.
 *
 * It needs `vitest` and `@effect/vitest`, so it has a path of its own: `@kinesumer/test-kit/StateStoreContract`.
 *
 * @since 0.1.0
 */
import { layer as withLayer } from "@effect/vitest"
import * as StateStore from "@kinesumer/core/StateStore"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Commits from "./internal/stateStoreContract/commits.js"
import { newApp } from "./internal/stateStoreContract/fixture.js"
import * as Leases from "./internal/stateStoreContract/leases.js"
import * as Members from "./internal/stateStoreContract/members.js"
import * as Model from "./internal/stateStoreContract/model.js"
import * as Names from "./internal/stateStoreContract/names.js"
import * as Scale from "./internal/stateStoreContract/scale.js"
import * as ShardLists from "./internal/stateStoreContract/shardLists.js"

/**
 * @since 0.1.0
 * @category models
 */
export interface Options {
  /** The shards of the largest stream. Default 10,000. */
  readonly shards?: number | undefined
  /** The members of the largest group. Default 500. */
  readonly members?: number | undefined
  /** How many random sequences of operations are compared with the model. Default 100. */
  readonly runs?: number | undefined
  /** What one test may take, and building the layer too. Default 2 minutes. */
  readonly timeout?: Duration.DurationInput | undefined
}

/**
 * One thing that a store must do. It leaves rows behind, under an app of its own.
 *
 * @since 0.1.0
 * @category models
 */
export interface Case {
  readonly name: string
  readonly program: Effect.Effect<void, unknown, StateStore.StateStore>
}

/**
 * The contract without a test runner: each case is an effect that fails or dies where the store breaks the contract.
 * The cases can run in any order, at the same time, and again on the same tables, since each makes up an app. They do
 * not sleep, so a `TestClock` serves as well as a live clock, if the store's own waiting allows it.
 *
 * @since 0.1.0
 * @category cases
 */
export const cases = (options?: Options): ReadonlyArray<Case> => [
  ...Members.cases,
  ...ShardLists.cases,
  ...Leases.cases,
  ...Commits.cases,
  ...Names.cases,
  ...Scale.cases({ shards: options?.shards ?? 10_000, members: options?.members ?? 500 })
]

/**
 * Registers the whole contract as tests of a store, with a live clock. The layer is built once for all of them.
 *
 * @since 0.1.0
 * @category suites
 * @example
 * import { StateStore } from "@kinesumer/core"
 * import * as StateStoreContract from "@kinesumer/test-kit/StateStoreContract"
 *
 * export const test = (): void => StateStoreContract.suite("StateStore.layerMemory", StateStore.layerMemory)
 */
export const suite = <E>(name: string, layer: Layer.Layer<StateStore.StateStore, E>, options?: Options): void => {
  const timeout = Duration.toMillis(options?.timeout ?? "2 minutes")
  withLayer(layer, { timeout, excludeTestServices: true })(name, (it) => {
    for (const { name, program } of cases(options)) {
      it.effect(name, () => program, timeout)
    }
    it.effect.prop(
      "agrees with the model on any sequence of operations",
      { operations: Model.operations },
      ({ operations }) =>
        Effect.gen(function*() {
          yield* Model.agrees(yield* StateStore.StateStore, yield* newApp, operations)
        }),
      { timeout, fastCheck: { numRuns: options?.runs ?? 100 } }
    )
  })
}
