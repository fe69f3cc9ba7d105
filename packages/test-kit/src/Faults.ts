/**
 * Faults between a member and its services: calls that fail, hang, come late, take effect without an answer, or answer
 * what is not so. A rule says which calls, and an action says what happens to them; both are values. All calls are
 * logged, with and without faults.
 *
 * @since 0.1.0
 */
import { KinesisClient } from "@kinesumer/core/KinesisClient"
import { StateStore } from "@kinesumer/core/StateStore"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Actions from "./internal/faultActions.js"
import * as FaultEngine from "./internal/faultEngine.js"
import type {
  Action,
  AnyCall,
  Call,
  CommonAction,
  KinesisOperation,
  Match,
  MatchSome,
  Operation,
  Rule,
  StoreOperation,
  Where
} from "./internal/faultModel.js"
import * as FaultyClients from "./internal/faultyClients.js"

export {
  delay,
  die,
  dropAnswer,
  endEvents,
  fail,
  failEvents,
  failItems,
  hang,
  hangAfter,
  hangEvents,
  hold,
  holdItems,
  loseItems,
  redirect,
  rewrite,
  rewriteEvents,
  stale,
  twice
} from "./internal/faultActions.js"

export type {
  Action,
  Answer,
  AnyCall,
  Args,
  Call,
  CommonAction,
  Completed,
  Failure,
  KinesisOperation,
  Match,
  MatchSome,
  Operation,
  Reason,
  Rule,
  StoreOperation,
  StreamAction,
  StreamOperation,
  When,
  Where
} from "./internal/faultModel.js"

/**
 * The rules that are in force, and the log of all calls through the wrapped services.
 *
 * Several rules can act on one call; the one that was added first stands nearest to the member. A rule counts every call
 * that it is about, also one that another rule keeps from the service.
 *
 * @since 0.1.0
 * @category context
 * @example
 * import { Faults } from "@kinesumer/test-kit"
 * import { Effect } from "effect"
 *
 * export const thirdLookupFails = Effect.gen(function*() {
 *   const faults = yield* Faults.Faults
 *   return yield* faults.add({ on: "listCheckpoints", member: "b", nth: 3 }, Faults.fail("Unavailable"))
 * })
 */
export class Faults extends Context.Tag("@kinesumer/test-kit/Faults")<Faults, {
  /** Adds a fault of one operation. */
  readonly add: <O extends Operation>(match: Match<O>, action: NoInfer<Action<O>>) => Effect.Effect<Rule>

  /** Adds a fault of several operations of `KinesisClient`, or of all of them. They are counted together. */
  readonly addKinesis: (
    match: MatchSome<KinesisOperation>,
    action: CommonAction<KinesisOperation>
  ) => Effect.Effect<Rule>

  /** Adds a fault of several operations of `StateStore`, or of all of them. They are counted together. */
  readonly addStore: (
    match: MatchSome<StoreOperation>,
    action: CommonAction<"listMembers">
  ) => Effect.Effect<Rule>

  /**
   * Cuts a member off from the state store until the rule is healed: its calls `fail` with `Unavailable`, or `hold`, and
   * then go on. Defaults to `fail`.
   */
  readonly partition: (member: string, how?: "fail" | "hold") => Effect.Effect<Rule>

  /** Ends all faults. */
  readonly healAll: Effect.Effect<void>

  /** All calls, oldest first, those that have no answer yet included; none without a log. */
  readonly calls: Effect.Effect<ReadonlyArray<AnyCall>>

  /** The calls of one operation, oldest first. */
  readonly callsOf: <O extends Operation>(operation: O, where?: Where) => Effect.Effect<ReadonlyArray<Call<O>>>

  readonly clearCalls: Effect.Effect<void>

  /** A client whose calls go through the faults; `member` is the label for rules and the log. */
  readonly wrapKinesis: (client: KinesisClient["Type"], member?: string) => KinesisClient["Type"]

  /** A store whose calls go through the faults; `member` is the label for rules and the log. */
  readonly wrapStateStore: (store: StateStore["Type"], member?: string) => StateStore["Type"]
}>() {}

/**
 * @since 0.1.0
 * @category options
 */
export interface Options {
  /** Decides on which calls a rule with a `chance` acts: the same ones for the same order of calls. Defaults to 0. */
  readonly seed?: number | undefined
  /** Whether calls are kept in the log, which grows with each of them. Defaults to `true`. */
  readonly log?: boolean | undefined
}

/**
 * Makes a control of its own, without rules.
 *
 * @since 0.1.0
 * @category constructors
 */
export const makeWith = (options: Options): Effect.Effect<Faults["Type"]> =>
  Effect.sync(() => {
    const engine = FaultEngine.make({ seed: options.seed ?? 0, log: options.log ?? true })
    const addStore = (match: MatchSome<StoreOperation>, action: CommonAction<"listMembers">) =>
      Effect.sync(() => engine.addStore(match, action))
    return Faults.of({
      add: (match, action) => Effect.sync(() => engine.add(match.on, match, action)),
      addKinesis: (match, action) => Effect.sync(() => engine.addKinesis(match, action)),
      addStore,
      partition: (member, how = "fail") =>
        addStore({ member }, how === "fail" ? Actions.fail("Unavailable") : Actions.hold),
      healAll: engine.healAll,
      calls: Effect.sync(engine.calls),
      callsOf: (operation, where = {}) => Effect.sync(() => engine.callsOf(operation, where)),
      clearCalls: Effect.sync(engine.clearCalls),
      wrapKinesis: (client, member) => FaultyClients.kinesis(engine, client, member),
      wrapStateStore: (store, member) => FaultyClients.stateStore(engine, store, member)
    })
  })

/**
 * `makeWith` with the defaults.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make: Effect.Effect<Faults["Type"]> = makeWith({})

/**
 * One control for all members of a test. Bind the result: each call makes a layer, and so a control, of its own.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerWith = (options: Options): Layer.Layer<Faults> => Layer.effect(Faults, makeWith(options))

/**
 * `layerWith` with the defaults.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer: Layer.Layer<Faults> = layerWith({})

/**
 * Puts the faults before a Kinesis. Give each member a layer of its own, with its label.
 *
 * @since 0.1.0
 * @category layers
 */
export const kinesis = (
  options: { readonly member?: string | undefined } = {}
): Layer.Layer<KinesisClient, never, KinesisClient | Faults> =>
  Layer.effect(
    KinesisClient,
    Effect.zipWith(Faults, KinesisClient, (faults, client) => faults.wrapKinesis(client, options.member))
  )

/**
 * Puts the faults before a state store. Give each member a layer of its own, with its label.
 *
 * @since 0.1.0
 * @category layers
 */
export const stateStore = (
  options: { readonly member?: string | undefined } = {}
): Layer.Layer<StateStore, never, StateStore | Faults> =>
  Layer.effect(
    StateStore,
    Effect.zipWith(Faults, StateStore, (faults, store) => faults.wrapStateStore(store, options.member))
  )
