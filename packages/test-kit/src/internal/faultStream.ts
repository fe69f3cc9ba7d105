import type { SubscriptionEvent } from "@kinesumer/core/KinesisClient"
import type { KinesisError } from "@kinesumer/core/KinesisError"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { Engine, Request, RuleOf } from "./faultEngine.js"
import { around, failureOf, silence } from "./faultEngine.js"
import type * as Model from "./faultModel.js"

type Operation = "subscribeToShard"

interface StreamRequest extends Request<Operation> {
  readonly send: (args: Model.Args<Operation>) => Stream.Stream<SubscriptionEvent, KinesisError>
}

/** An event, and the true one before it. */
interface Told {
  readonly event: SubscriptionEvent
  readonly previous: Option.Option<SubscriptionEvent>
}

type Events = Stream.Stream<Told, KinesisError>

type Send = (args: Model.Args<Operation>) => Effect.Effect<Events, KinesisError, Scope.Scope>

/**
 * Pulls a stream once, so that what it asks the service for has happened; the rest comes when it is pulled.
 */
const begun = (stream: Events): Effect.Effect<Events, KinesisError, Scope.Scope> =>
  Effect.flatMap(Stream.toPull(stream), (pull) =>
    Effect.matchEffect(pull, {
      onFailure: Option.match({
        onNone: () => Effect.succeed<Events>(Stream.empty),
        onSome: (error) => Effect.fail(error)
      }),
      onSuccess: (first) => Effect.succeed(Stream.concat(Stream.fromChunk(first), Stream.repeatEffectChunkOption(pull)))
    }))

const broken = (
  events: Events,
  { after, how }: Extract<Model.StreamAction<Operation>, { readonly _tag: "Break" }>,
  error: StreamRequest["error"]
): Events => {
  const first = Stream.take(events, after)
  switch (how) {
    case "end":
      return first
    case "hang":
      return Stream.concat(first, Stream.fromEffect(silence))
    default:
      return Stream.concat(first, Stream.failSync(() => failureOf(how, error)))
  }
}

const rewritten = (events: Events, rewrite: (told: Told) => ReadonlyArray<SubscriptionEvent>): Events =>
  Stream.mapConcat(events, (told) => rewrite(told).map((event) => ({ ...told, event })))

/**
 * Leads a call that answers with a stream through the faults, each time the stream is run.
 *
 * @internal
 */
export const run = (engine: Engine, request: StreamRequest): Stream.Stream<SubscriptionEvent, KinesisError> =>
  Stream.unwrapScoped(Effect.map(Effect.clock, (clock) => {
    const { args, error, send } = request
    const { call, end, firing, previous, remember } = engine.begin(clock, request)
    const sendAndKeep: Send = (args) =>
      Effect.suspend(() => {
        call.applied++
        return begun(Stream.map(send(args), (event) => {
          const told = { event, previous: previous() }
          remember(event)
          return told
        }))
      })
    const change = (next: Send, how: (events: Events, args: Model.Args<Operation>) => Events): Send => (args) =>
      Effect.map(next(args), (events) => how(events, args))
    const aroundEvents = (rule: RuleOf<Model.Action<Operation>>, next: Send): Send => {
      const { action } = rule
      switch (action._tag) {
        case "Twice":
          return (args) => Effect.zipRight(Effect.scoped(Effect.exit(next(args))), next(args))
        case "Rewrite":
          return change(
            next,
            (events, args) => rewritten(events, ({ event, previous }) => [action.rewrite(event, { args, previous })])
          )
        case "RewriteEvents":
          return change(
            next,
            (events, args) => rewritten(events, ({ event, previous }) => action.rewrite(event, { args, previous }))
          )
        case "Break":
          return change(next, (events) => broken(events, action, error))
        default:
          return around(rule, next, error)
      }
    }
    const open = firing.reduceRight((next, rule) => aroundEvents(rule, next), sendAndKeep)
    return Stream.unwrapScoped(open(args)).pipe(
      Stream.map(({ event }) => {
        call.events++
        return event
      }),
      Stream.ensuringWith((exit) => Effect.sync(() => end(Exit.as(exit, undefined))))
    )
  }))
