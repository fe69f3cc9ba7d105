import type { KinesisClient } from "@kinesumer/core/KinesisClient"
import type { KinesisErrorReason } from "@kinesumer/core/KinesisError"
import type { Position } from "@kinesumer/core/Position"
import type { AcquireResult, CommitResult, Lease, LeaseRequest, StateStore } from "@kinesumer/core/StateStore"
import type { StateStoreErrorReason } from "@kinesumer/core/StateStoreError"
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import type * as Option from "effect/Option"
import type * as Stream from "effect/Stream"

type Services = KinesisClient["Type"] & StateStore["Type"]

/**
 * An operation of `KinesisClient`.
 *
 * @since 0.1.0
 * @category operations
 */
export type KinesisOperation = Exclude<keyof KinesisClient["Type"], "fallback">

/**
 * An operation of `StateStore`.
 *
 * @since 0.1.0
 * @category operations
 */
export type StoreOperation = keyof StateStore["Type"]

/**
 * @since 0.1.0
 * @category operations
 */
export type Operation = KinesisOperation | StoreOperation

/**
 * What an operation is called with.
 *
 * @since 0.1.0
 * @category operations
 */
export type Args<O extends Operation> = Services[O] extends (...args: infer A) => unknown ? Readonly<A> : readonly []

type Result<O extends Operation> = Services[O] extends (...args: infer _) => infer R ? R : Services[O]

/**
 * An operation that answers with a stream.
 *
 * @since 0.1.0
 * @category operations
 */
export type StreamOperation = "subscribeToShard"

/**
 * What an operation answers; of a stream, one of its events.
 *
 * @since 0.1.0
 * @category operations
 */
export type Answer<O extends Operation> = Result<O> extends Effect.Effect<infer A, infer _> ? A
  : Result<O> extends Stream.Stream<infer A, infer _> ? A
  : never

/**
 * What a call ends with: its answer, but `undefined` of a stream.
 *
 * @since 0.1.0
 * @category operations
 */
export type Completed<O extends Operation> = Answer<O> | (O extends StreamOperation ? undefined : never)

/**
 * What an operation fails with.
 *
 * @since 0.1.0
 * @category operations
 */
export type Failure<O extends Operation> = Result<O> extends Effect.Effect<infer _, infer E> ? E
  : Result<O> extends Stream.Stream<infer _, infer E> ? E
  : never

/**
 * The reasons that the error of an operation can have.
 *
 * @since 0.1.0
 * @category operations
 */
export type Reason<O extends Operation> = O extends KinesisOperation ? KinesisErrorReason : StateStoreErrorReason

/**
 * One of several things that a call asks for at once.
 *
 * @since 0.1.0
 * @category operations
 */
export type Item<O extends Operation> = O extends "acquireLeases" ? LeaseRequest
  : O extends "commitCheckpoints" ? Lease & { readonly position: Position }
  : never

/**
 * The answer for one of several things that a call asks for at once.
 *
 * @since 0.1.0
 * @category operations
 */
export type ItemAnswer<O extends Operation> = O extends "acquireLeases" ? AcquireResult
  : O extends "commitCheckpoints" ? CommitResult
  : never

/**
 * Which calls a rule is about. What is left out matches everything.
 *
 * @since 0.1.0
 * @category rules
 */
export interface Where {
  /** The label that the client or the store was wrapped with, or the `memberId` in the call. */
  readonly member?: string | undefined
  readonly app?: string | undefined
  /** A name, an ARN, or a stream key of the store. */
  readonly stream?: string | undefined
  readonly shardId?: string | undefined
}

/**
 * On which of these calls it acts, counted from the moment the rule was added. By default on each, until it is healed.
 *
 * @since 0.1.0
 * @category rules
 */
export interface When {
  /** Only on the nth, from 1. */
  readonly nth?: number | undefined
  /** On every kth: 2 means the second, the fourth, … */
  readonly every?: number | undefined
  /** From the nth on. */
  readonly from?: number | undefined
  /** So many times, no more. */
  readonly times?: number | undefined
  /** On those that are left with this probability, from 0 to 1. The seed of the control decides on which. */
  readonly chance?: number | undefined
}

/**
 * @since 0.1.0
 * @category rules
 */
export interface Match<O extends Operation> extends Where, When {
  readonly on: O
}

/**
 * @since 0.1.0
 * @category rules
 */
export interface MatchSome<O extends Operation> extends Where, When {
  /** Defaults to all operations of the service. */
  readonly on?: ReadonlyArray<O> | undefined
}

/**
 * A fault that was added.
 *
 * @since 0.1.0
 * @category rules
 */
export interface Rule {
  /** Ends the fault. Calls that it holds go on. */
  readonly heal: Effect.Effect<void>
  /** How many calls it was about. */
  readonly matched: Effect.Effect<number>
  /** On how many it acted. */
  readonly fired: Effect.Effect<number>
}

/**
 * @since 0.1.0
 * @category actions
 */
export interface GivenFailure<E> {
  readonly _tag: "Given"
  readonly error: E
}

/**
 * @since 0.1.0
 * @category actions
 */
export interface NamedFailure<R> {
  readonly _tag: "Named"
  readonly reason: R
}

/**
 * @since 0.1.0
 * @category actions
 */
export interface Fail<F> {
  readonly _tag: "Fail"
  /** Whether the call takes effect all the same: then only its answer is lost. */
  readonly applied: boolean
  readonly failure: F
}

/**
 * @since 0.1.0
 * @category actions
 */
export interface Die {
  readonly _tag: "Die"
  readonly defect: unknown
}

/**
 * @since 0.1.0
 * @category actions
 */
export interface Delay {
  readonly _tag: "Delay"
  readonly duration: Duration.Duration
  readonly when: "before" | "after"
}

/**
 * @since 0.1.0
 * @category actions
 */
export interface Hang {
  readonly _tag: "Hang"
  readonly when: "before" | "after"
}

/**
 * @since 0.1.0
 * @category actions
 */
export interface Hold {
  readonly _tag: "Hold"
}

/**
 * @since 0.1.0
 * @category actions
 */
export interface Twice {
  readonly _tag: "Twice"
}

/**
 * @since 0.1.0
 * @category actions
 */
export interface Stale {
  readonly _tag: "Stale"
}

/**
 * @since 0.1.0
 * @category actions
 */
export interface Rewrite<O extends Operation> {
  readonly _tag: "Rewrite"
  readonly rewrite: (answer: Answer<O>, call: {
    readonly args: Args<O>
    /** The last answer to this member, before any rewriting, for the same operation and the same shard. */
    readonly previous: Option.Option<Answer<O>>
  }) => Answer<O>
}

/**
 * @since 0.1.0
 * @category actions
 */
export interface Redirect<O extends Operation> {
  readonly _tag: "Redirect"
  readonly redirect: (...args: Args<O>) => Args<O>
}

/**
 * @since 0.1.0
 * @category actions
 */
export interface Items<I, A> {
  readonly _tag: "Items"
  /** Defaults to the shard of the rule, or all. */
  readonly shardIds: ReadonlyArray<string> | undefined
  /** Whether they take effect all the same: then only their answers are wrong. */
  readonly applied: boolean
  readonly answer: (item: I, operation: string) => A
}

/**
 * @since 0.1.0
 * @category actions
 */
export interface Break<F> {
  readonly _tag: "Break"
  /** How many events come before. */
  readonly after: number
  readonly how: "end" | "hang" | F
}

/**
 * @since 0.1.0
 * @category actions
 */
export interface RewriteEvents<O extends StreamOperation> {
  readonly _tag: "RewriteEvents"
  readonly rewrite: (event: Answer<O>, call: {
    readonly args: Args<O>
    /** The last event to this member, before any rewriting, for the same shard. */
    readonly previous: Option.Option<Answer<O>>
  }) => ReadonlyArray<Answer<O>>
}

/**
 * What can happen to the events of a stream.
 *
 * @since 0.1.0
 * @category actions
 */
export type StreamAction<O extends Operation> = O extends StreamOperation ?
    | Break<GivenFailure<Failure<O>> | NamedFailure<Reason<O>>>
    | RewriteEvents<O>
  : never

/**
 * What can happen to a call of any operation.
 *
 * @since 0.1.0
 * @category actions
 */
export type CommonAction<O extends Operation> =
  | Fail<GivenFailure<Failure<O>> | NamedFailure<Reason<O>>>
  | Die
  | Delay
  | Hang
  | Hold
  | Twice
  | Stale

/**
 * What happens to a call. Actions are values: they can be kept, chosen and used again.
 *
 * @since 0.1.0
 * @category actions
 */
export type Action<O extends Operation> =
  | CommonAction<O>
  | Rewrite<O>
  | Redirect<O>
  | Items<Item<O>, ItemAnswer<O>>
  | StreamAction<O>

/**
 * A call that a member made, as the member saw it.
 *
 * @since 0.1.0
 * @category calls
 */
export interface Call<O extends Operation> {
  readonly operation: O
  /** The label of the wrapper, or else the `memberId` in the call. */
  readonly member: string | undefined
  readonly args: Args<O>
  /** When it was made, in milliseconds. */
  readonly at: number
  /** When it ended; `none` while it has no answer. */
  readonly endedAt: Option.Option<number>
  readonly exit: Option.Option<Exit.Exit<Completed<O>, Failure<O>>>
  /** `exit` in a word. A defect is a failure. */
  readonly outcome: "pending" | "success" | "failure" | "interrupted"
  /** How often it reached the service behind the faults: 0 or 1, or 2 if it was doubled. */
  readonly applied: number
  /** How many rules acted on it. */
  readonly faults: number
  /** How many events of its stream the member has got. */
  readonly events: number
}

/**
 * A call of any operation; `operation` tells which.
 *
 * @since 0.1.0
 * @category calls
 */
export type AnyCall = { readonly [O in Operation]: Call<O> }[Operation]
