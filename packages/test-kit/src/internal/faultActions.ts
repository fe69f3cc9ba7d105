import type { KinesisError, KinesisErrorReason } from "@kinesumer/core/KinesisError"
import type { Checkpoint, Owner } from "@kinesumer/core/StateStore"
import { AcquireResult, CommitResult } from "@kinesumer/core/StateStore"
import type { MemberMissing, MemberReplaced, StateStoreErrorReason } from "@kinesumer/core/StateStoreError"
import { StateStoreError } from "@kinesumer/core/StateStoreError"
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"
import type * as Model from "./faultModel.js"

type AnyReason = KinesisErrorReason | StateStoreErrorReason
type AnyError = KinesisError | StateStoreError | MemberMissing | MemberReplaced

interface ItemOptions {
  readonly shardIds?: ReadonlyArray<string> | undefined
  readonly applied?: boolean | undefined
}

/**
 * The call does not reach the service and fails: with this error, or with one of this reason that names the call.
 *
 * @since 0.1.0
 * @category actions
 */
export function fail<const R extends AnyReason>(reason: R): Model.Fail<Model.NamedFailure<R>>
export function fail<E extends AnyError>(error: E): Model.Fail<Model.GivenFailure<E>>
export function fail(failure: AnyReason | AnyError) {
  return { _tag: "Fail", applied: false, failure: toFailure(failure) }
}

/**
 * The call takes effect, but its answer is lost: the member gets an error. Defaults to one of reason `Timeout`. A
 * subscription has taken effect with its first event, which is lost as well.
 *
 * @since 0.1.0
 * @category actions
 */
export function dropAnswer<const R extends AnyReason = "Timeout">(reason?: R): Model.Fail<Model.NamedFailure<R>>
export function dropAnswer<E extends AnyError>(error: E): Model.Fail<Model.GivenFailure<E>>
export function dropAnswer(failure: AnyReason | AnyError = "Timeout") {
  return { _tag: "Fail", applied: true, failure: toFailure(failure) }
}

const toFailure = (failure: AnyReason | AnyError) =>
  typeof failure === "string" ? { _tag: "Named", reason: failure } : { _tag: "Given", error: failure }

/**
 * The call dies with a defect, and does not reach the service.
 *
 * @since 0.1.0
 * @category actions
 */
export const die = (defect: unknown): Model.Die => ({ _tag: "Die", defect })

/**
 * The call takes longer, `before` it takes effect or `after`. Defaults to `before`. Of a subscription it is the first
 * event that comes later.
 *
 * @since 0.1.0
 * @category actions
 */
export const delay = (duration: Duration.DurationInput, when: "before" | "after" = "before"): Model.Delay => ({
  _tag: "Delay",
  duration: Duration.decode(duration),
  when
})

/**
 * The call is never answered, and does not reach the service. It can be interrupted.
 *
 * @since 0.1.0
 * @category actions
 */
export const hang: Model.Hang = { _tag: "Hang", when: "before" }

/**
 * The call takes effect and is never answered. It can be interrupted.
 *
 * @since 0.1.0
 * @category actions
 */
export const hangAfter: Model.Hang = { _tag: "Hang", when: "after" }

/**
 * The call waits until the rule is healed, and goes on then. It can be interrupted.
 *
 * @since 0.1.0
 * @category actions
 */
export const hold: Model.Hold = { _tag: "Hold" }

/**
 * The call is made twice, and the second answer counts.
 *
 * @since 0.1.0
 * @category actions
 */
export const twice: Model.Twice = { _tag: "Twice" }

/**
 * The call does not reach the service. The member gets the last true answer to such a call of its own (the same
 * operation, app, stream and shards) again. The first call of its kind is not touched, nor is a subscription.
 *
 * @since 0.1.0
 * @category actions
 */
export const stale: Model.Stale = { _tag: "Stale" }

/**
 * The answer is changed on its way to the member; of a subscription, each event.
 *
 * @since 0.1.0
 * @category actions
 */
export const rewrite = <O extends Model.Operation>(rewrite: Model.Rewrite<O>["rewrite"]): Model.Rewrite<O> => ({
  _tag: "Rewrite",
  rewrite
})

interface BreakOptions {
  /** How many events come before. Defaults to 0. */
  readonly after?: number | undefined
}

/**
 * Of `subscribeToShard`: the subscription begins, and fails after some events, as when its connection breaks or another
 * one takes over.
 *
 * @since 0.1.0
 * @category actions
 */
export function failEvents<const R extends KinesisErrorReason>(
  reason: R,
  options?: BreakOptions
): Model.Break<Model.NamedFailure<R>>
export function failEvents(error: KinesisError, options?: BreakOptions): Model.Break<Model.GivenFailure<KinesisError>>
export function failEvents(
  failure: KinesisErrorReason | KinesisError,
  options: BreakOptions = {}
): Model.Break<Model.NamedFailure<KinesisErrorReason> | Model.GivenFailure<KinesisError>> {
  return {
    _tag: "Break",
    after: options.after ?? 0,
    how: typeof failure === "string" ? { _tag: "Named", reason: failure } : { _tag: "Given", error: failure }
  }
}

/**
 * Of `subscribeToShard`: the subscription begins, and ends after some events, as it does after 5 minutes.
 *
 * @since 0.1.0
 * @category actions
 */
export const endEvents = (options: BreakOptions = {}): Model.Break<never> => ({
  _tag: "Break",
  after: options.after ?? 0,
  how: "end"
})

/**
 * Of `subscribeToShard`: the subscription begins, and is silent after some events: neither events nor an end come. It
 * lives on in the service, and can be interrupted.
 *
 * @since 0.1.0
 * @category actions
 */
export const hangEvents = (options: BreakOptions = {}): Model.Break<never> => ({
  _tag: "Break",
  after: options.after ?? 0,
  how: "hang"
})

/**
 * Of `subscribeToShard`: each event is replaced by none, one or several.
 *
 * @since 0.1.0
 * @category actions
 */
export const rewriteEvents = (
  rewrite: Model.RewriteEvents<"subscribeToShard">["rewrite"]
): Model.RewriteEvents<"subscribeToShard"> => ({ _tag: "RewriteEvents", rewrite })

/**
 * The service is asked something else than the member asked.
 *
 * @since 0.1.0
 * @category actions
 */
export const redirect = <O extends Model.Operation>(redirect: Model.Redirect<O>["redirect"]): Model.Redirect<O> => ({
  _tag: "Redirect",
  redirect
})

const items = <I, A>(options: ItemOptions, answer: (item: I, operation: string) => A): Model.Items<I, A> => ({
  _tag: "Items",
  shardIds: options.shardIds,
  applied: options.applied ?? false,
  answer
})

/**
 * Of `acquireLeases` or `commitCheckpoints`: the items of these shards are answered with `Failed`; the others go on.
 * By default they are those of the rule's shard, or all, and they do not reach the store. With `applied` they do, and
 * only the answer is wrong.
 *
 * @since 0.1.0
 * @category actions
 */
export const failItems = (
  failure: StateStoreErrorReason | StateStoreError,
  options: ItemOptions = {}
): Model.Items<unknown, { readonly _tag: "Failed"; readonly error: StateStoreError }> =>
  items(options, (_item, operation) =>
    CommitResult.Failed({
      error: typeof failure === "string"
        ? new StateStoreError({ reason: failure, operation, detail: "a fault of the test" })
        : failure
    }))

const held = (item: { readonly shardId: string }, by: Owner, epoch: number): Checkpoint => ({
  shardId: item.shardId,
  position: Option.none(),
  owner: Option.some(by),
  epoch
})

/**
 * Of `acquireLeases`: the leases of these shards are `Held` by somebody else.
 *
 * @since 0.1.0
 * @category actions
 */
export const holdItems = (
  by: Owner,
  options: ItemOptions & { readonly epoch?: number | undefined } = {}
): Model.Items<{ readonly shardId: string }, AcquireResult> =>
  items(options, (item) => AcquireResult.Held({ checkpoint: held(item, by, options.epoch ?? 1) }))

/**
 * Of `commitCheckpoints`: the leases of these shards are `Lost` to somebody else.
 *
 * @since 0.1.0
 * @category actions
 */
export const loseItems = (
  to: Owner,
  options: ItemOptions & { readonly epoch?: number | undefined } = {}
): Model.Items<{ readonly shardId: string; readonly epoch: number }, CommitResult> =>
  items(options, (item) => CommitResult.Lost({ checkpoint: held(item, to, options.epoch ?? item.epoch + 1) }))
