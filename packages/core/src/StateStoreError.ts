/**
 * What can go wrong between a member and the state store.
 *
 * @since 0.1.0
 */
import * as Data from "effect/Data"

/**
 * - `Throttled`, `Timeout`, `Unavailable`: passing; tried again with back-off
 * - `AccessDenied`: credentials or permissions are missing
 * - `TableMissing`: the table (or file) does not exist
 * - `TableInvalid`: it exists, with another shape than the store needs
 * - `MalformedRow`: a row holds something that the store cannot have written
 * - `Locked`: a store for one process is in use by another
 * - `Unknown`: none of these; `cause` has it
 *
 * @since 0.1.0
 * @category errors
 */
export type StateStoreErrorReason =
  | "Throttled"
  | "Timeout"
  | "Unavailable"
  | "AccessDenied"
  | "TableMissing"
  | "TableInvalid"
  | "MalformedRow"
  | "Locked"
  | "Unknown"

/**
 * An operation of the state store failed: which one, why, and what to do about it.
 *
 * @since 0.1.0
 * @category errors
 */
export class StateStoreError extends Data.TaggedError("StateStoreError")<{
  readonly reason: StateStoreErrorReason
  /** The operation of `StateStore` that failed, for example `listCheckpoints`. */
  readonly operation: string
  /** Where it failed and what to do, in words. */
  readonly detail: string
  readonly cause?: unknown
}> {
  override get message(): string {
    return `${this.operation}: ${this.reason}: ${this.detail}`
  }

  /** Whether trying again can help without anybody's doing. */
  get retryable(): boolean {
    return this.reason === "Throttled" || this.reason === "Timeout" || this.reason === "Unavailable" ||
      this.reason === "Unknown"
  }
}

/**
 * The row of a member is not there: it was removed, since the member was taken for dead or by hand.
 *
 * @since 0.1.0
 * @category errors
 */
export class MemberMissing extends Data.TaggedError("MemberMissing")<{
  readonly app: string
  readonly memberId: string
}> {
  override get message(): string {
    return `The row of member "${this.memberId}" of app "${this.app}" is gone from the state store`
  }
}

/**
 * Another process has started under the same member id and taken over the leases of this one.
 *
 * @since 0.1.0
 * @category errors
 */
export class MemberReplaced extends Data.TaggedError("MemberReplaced")<{
  readonly app: string
  readonly memberId: string
}> {
  override get message(): string {
    return `Another process runs as member "${this.memberId}" of app "${this.app}". ` +
      `Give each process a memberId of its own, or leave the option out`
  }
}
