import type * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FiberId from "effect/FiberId"
import * as Option from "effect/Option"
import { PCGRandom } from "effect/Utils"
import type * as Model from "./faultModel.js"

/**
 * One call on its way through the faults.
 *
 * @internal
 */
export interface Request<O extends Model.Operation> extends Subject {
  readonly operation: O
  readonly args: Model.Args<O>
  /** Which page of a longer answer is asked for. */
  readonly page?: string | undefined
  readonly error: (reason: Model.Reason<O>) => Model.Failure<O>
}

/** @internal */
export interface EffectRequest<O extends Exclude<Model.Operation, Model.StreamOperation>> extends Request<O> {
  readonly send: (
    args: Model.Args<O>,
    items: ReadonlyArray<Model.Items<Model.Item<O>, Model.ItemAnswer<O>>>
  ) => Effect.Effect<Model.Answer<O>, Model.Failure<O>>
}

interface RuleState {
  readonly match: Model.Where & Model.When
  readonly healed: Deferred.Deferred<void>
  matched: number
  fired: number
}

/** @internal */
export interface RuleOf<A> {
  readonly state: RuleState
  readonly action: A
}

interface LoggedCall<O extends Model.Operation> extends Model.Call<O>, Subject {
  readonly order: number
  endedAt: Option.Option<number>
  exit: Model.Call<O>["exit"]
  outcome: Model.Call<O>["outcome"]
  applied: number
  events: number
}

/** A call that has met its rules. */
interface Begun<O extends Model.Operation> {
  readonly call: LoggedCall<O>
  /** The rules that act on it, the nearest to the member first. */
  readonly firing: ReadonlyArray<RuleOf<Model.Action<O>>>
  /** The last true answer to such a call. */
  readonly previous: () => Option.Option<Model.Answer<O>>
  readonly remember: (answer: Model.Answer<O>) => void
  readonly end: (exit: Exit.Exit<Model.Completed<O>, Model.Failure<O>>) => void
}

interface Slot<O extends Model.Operation> {
  rules: Array<RuleOf<Model.Action<O>>>
  calls: Array<LoggedCall<O>>
  /** The last true answers, by member and target. */
  readonly answers: Map<string, Model.Answer<O>>
}

const slot = <O extends Model.Operation>(): Slot<O> => ({ rules: [], calls: [], answers: new Map() })

const makeSlots = (): { readonly [O in Model.Operation]: Slot<O> } => ({
  region: slot(),
  describeStream: slot(),
  listShards: slot(),
  getShardIterator: slot(),
  getRecords: slot(),
  registerConsumer: slot(),
  describeConsumer: slot(),
  listConsumers: slot(),
  deregisterConsumer: slot(),
  subscribeToShard: slot(),
  registerMember: slot(),
  heartbeat: slot(),
  deregisterMember: slot(),
  listMembers: slot(),
  pruneMembers: slot(),
  listShardVersions: slot(),
  getShards: slot(),
  updateShards: slot(),
  listCheckpoints: slot(),
  acquireLeases: slot(),
  releaseLeases: slot(),
  commitCheckpoints: slot(),
  removeCheckpoints: slot()
})

/** @internal */
export const kinesisOperations: ReadonlyArray<Model.KinesisOperation> = [
  "region",
  "describeStream",
  "listShards",
  "getShardIterator",
  "getRecords",
  "registerConsumer",
  "describeConsumer",
  "listConsumers",
  "deregisterConsumer",
  "subscribeToShard"
]

/** @internal */
export const storeOperations: ReadonlyArray<Model.StoreOperation> = [
  "registerMember",
  "heartbeat",
  "deregisterMember",
  "listMembers",
  "pruneMembers",
  "listShardVersions",
  "getShards",
  "updateShards",
  "listCheckpoints",
  "acquireLeases",
  "releaseLeases",
  "commitCheckpoints",
  "removeCheckpoints"
]

const operations: ReadonlyArray<Model.Operation> = [...kinesisOperations, ...storeOperations]

/** What a rule or a filter looks at. */
interface Subject {
  readonly members: ReadonlyArray<string>
  readonly app?: string | undefined
  /** The streams, by all their names, and shards that a call is about. */
  readonly targets: ReadonlyArray<{ readonly streams: ReadonlyArray<string>; readonly shardId?: string | undefined }>
}

const isAbout = (where: Model.Where, request: Subject): boolean =>
  (where.member === undefined || request.members.includes(where.member)) &&
  (where.app === undefined || where.app === request.app) &&
  ((where.stream === undefined && where.shardId === undefined) ||
    request.targets.some((target) =>
      (where.stream === undefined || target.streams.includes(where.stream)) &&
      (where.shardId === undefined || where.shardId === target.shardId)
    ))

/** Counts a call, and says whether the rule acts on it. */
const fires = (rule: RuleState, random: PCGRandom): boolean => {
  const { chance, every, from, nth, times } = rule.match
  const count = ++rule.matched
  const acts = (nth === undefined || count === nth) &&
    (every === undefined || count % every === 0) &&
    (from === undefined || count >= from) &&
    (times === undefined || rule.fired < times) &&
    (chance === undefined || random.number() < chance)
  if (acts) rule.fired++
  return acts
}

/** So many answers are kept for later calls: more than a test looks back, and a bound for a run without end. */
const mostAnswers = 1000

const keep = <A>(answers: Map<string, A>, key: string, answer: A): void => {
  answers.delete(key)
  answers.set(key, answer)
  const [oldest] = answers.keys()
  if (answers.size > mostAnswers && oldest !== undefined) answers.delete(oldest)
}

/**
 * Neither answers nor keeps the process alive, as the timer of `Effect.never` does.
 *
 * @internal
 */
export const silence: Effect.Effect<never> = Effect.async<never>(() => {})

/** @internal */
export const failureOf = <E, R>(failure: Model.GivenFailure<E> | Model.NamedFailure<R>, error: (reason: R) => E): E =>
  failure._tag === "Given" ? failure.error : error(failure.reason)

/**
 * What an action does to any call, whatever it answers with.
 *
 * @internal
 */
export const around = <O extends Model.Operation, A, R>(
  { action, state }: RuleOf<Model.Action<O>>,
  next: (args: Model.Args<O>) => Effect.Effect<A, Model.Failure<O>, R>,
  error: (reason: Model.Reason<O>) => Model.Failure<O>
): (args: Model.Args<O>) => Effect.Effect<A, Model.Failure<O>, R> => {
  switch (action._tag) {
    case "Fail": {
      const failure = Effect.failSync(() => failureOf(action.failure, error))
      return action.applied ? (args) => Effect.zipRight(Effect.exit(next(args)), failure) : () => failure
    }
    case "Die":
      return () => Effect.die(action.defect)
    case "Delay":
      return action.when === "before"
        ? (args) => Effect.zipRight(Effect.sleep(action.duration), next(args))
        : (args) => Effect.zipLeft(next(args), Effect.sleep(action.duration))
    case "Hang":
      return action.when === "before"
        ? () => silence
        : (args) => Effect.zipRight(Effect.exit(next(args)), silence)
    case "Hold":
      return (args) => Effect.zipRight(Deferred.await(state.healed), next(args))
    case "Redirect":
      return (args) => next(action.redirect(...args))
    default:
      return next
  }
}

/** @internal */
export const make = (options: { readonly seed: number; readonly log: boolean }) => {
  const slots = makeSlots()
  const random = new PCGRandom(options.seed)
  let callsMade = 0

  const push = <O extends Model.Operation>(operation: O, rule: RuleOf<Model.Action<O>>) => {
    slots[operation].rules.push(rule)
  }

  const makeRule = (match: Model.Where & Model.When) => {
    const state: RuleState = { match, healed: Deferred.unsafeMake(FiberId.none), matched: 0, fired: 0 }
    const rule: Model.Rule = {
      heal: Effect.suspend(() => {
        for (const operation of operations) drop(operation, state)
        return Effect.asVoid(Deferred.succeed(state.healed, undefined))
      }),
      matched: Effect.sync(() => state.matched),
      fired: Effect.sync(() => state.fired)
    }
    return { state, rule }
  }

  const drop = <O extends Model.Operation>(operation: O, state: RuleState) => {
    slots[operation].rules = slots[operation].rules.filter((rule) => rule.state !== state)
  }

  const statesOf = (operation: Model.Operation): ReadonlyArray<RuleState> =>
    slots[operation].rules.map((rule) => rule.state)

  const healAll = Effect.suspend(() => {
    const states = new Set(operations.flatMap(statesOf))
    for (const operation of operations) slots[operation].rules = []
    return Effect.forEach(states, (state) => Deferred.succeed(state.healed, undefined), { discard: true })
  })

  const begin = <O extends Model.Operation>(clock: Clock.Clock, request: Request<O>): Begun<O> => {
    const { args, operation } = request
    const slot = slots[operation]
    const firing = slot.rules.filter((rule) => isAbout(rule.state.match, request) && fires(rule.state, random))
    const call: LoggedCall<O> = {
      order: callsMade++,
      operation,
      members: request.members,
      app: request.app,
      targets: request.targets,
      member: request.members[0],
      args,
      at: clock.unsafeCurrentTimeMillis(),
      endedAt: Option.none(),
      exit: Option.none(),
      outcome: "pending",
      applied: 0,
      faults: firing.length,
      events: 0
    }
    if (options.log) slot.calls.push(call)
    const key = JSON.stringify([request.members[0], request.app, request.targets, request.page])
    return {
      call,
      firing,
      previous: () => Option.fromNullable(slot.answers.get(key)),
      remember: (answer) => keep(slot.answers, key, answer),
      end: (exit) => {
        call.exit = Option.some(exit)
        call.outcome = Exit.isSuccess(exit) ? "success" : Exit.isInterrupted(exit) ? "interrupted" : "failure"
        call.endedAt = Option.some(clock.unsafeCurrentTimeMillis())
      }
    }
  }

  const run = <O extends Exclude<Model.Operation, Model.StreamOperation>>(
    request: EffectRequest<O>
  ): Effect.Effect<Model.Answer<O>, Model.Failure<O>> =>
    Effect.flatMap(Effect.clock, (clock) => {
      const { args, error, send } = request
      const { call, end, firing, remember, ...begun } = begin(clock, request)
      const previous = begun.previous()
      const items = firing.flatMap(({ action, state: { match } }) =>
        action._tag === "Items"
          ? [{ ...action, shardIds: action.shardIds ?? (match.shardId === undefined ? undefined : [match.shardId]) }]
          : []
      )
      type Send = (args: Model.Args<O>) => Effect.Effect<Model.Answer<O>, Model.Failure<O>>
      const sendAndKeep: Send = (args) =>
        Effect.suspend(() => {
          call.applied++
          return Effect.tap(send(args, items), (answer) => remember(answer))
        })
      const aroundAnswer = (rule: RuleOf<Model.Action<O>>, next: Send): Send => {
        const { action } = rule
        switch (action._tag) {
          case "Twice":
            return (args) => Effect.zipRight(Effect.exit(next(args)), next(args))
          case "Stale":
            return Option.match(previous, { onNone: () => next, onSome: (answer) => () => Effect.succeed(answer) })
          case "Rewrite":
            return (args) => Effect.map(next(args), (answer) => action.rewrite(answer, { args, previous }))
          default:
            return around(rule, next, error)
        }
      }
      return firing.reduceRight((next, rule) => aroundAnswer(rule, next), sendAndKeep)(args).pipe(
        Effect.onExit((exit) => Effect.sync(() => end(exit)))
      )
    })

  return {
    begin,
    run,
    healAll,
    add: <O extends Model.Operation>(on: O, match: Model.Where & Model.When, action: Model.Action<O>): Model.Rule => {
      const { rule, state } = makeRule(match)
      push(on, { state, action })
      return rule
    },
    addKinesis: (
      match: Model.MatchSome<Model.KinesisOperation>,
      action: Model.CommonAction<Model.KinesisOperation>
    ): Model.Rule => {
      const { rule, state } = makeRule(match)
      for (const operation of match.on ?? kinesisOperations) push(operation, { state, action })
      return rule
    },
    addStore: (
      match: Model.MatchSome<Model.StoreOperation>,
      action: Model.CommonAction<"listMembers">
    ): Model.Rule => {
      const { rule, state } = makeRule(match)
      for (const operation of match.on ?? storeOperations) push(operation, { state, action })
      return rule
    },
    callsOf: <O extends Model.Operation>(operation: O, where: Model.Where): ReadonlyArray<Model.Call<O>> =>
      slots[operation].calls.filter((call) => isAbout(where, call)).map((call) => ({ ...call })),
    calls: (): ReadonlyArray<Model.AnyCall> =>
      operations.flatMap((operation): ReadonlyArray<Model.AnyCall & { readonly order: number }> =>
        slots[operation].calls
      )
        .sort((a, b) => a.order - b.order).map((call) => ({ ...call })),
    clearCalls: () => {
      for (const operation of operations) slots[operation].calls = []
    }
  }
}

/** @internal */
export type Engine = ReturnType<typeof make>
