/**
 * What can go wrong with a local server.
 *
 * @since 0.1.0
 */
import * as Data from "effect/Data"

/**
 * A local server does not run: its package is not installed (`NotInstalled`), or it did not come up (`StartFailed`).
 *
 * @since 0.1.0
 * @category errors
 */
export class LocalServerError extends Data.TaggedError("LocalServerError")<{
  readonly server: "kinesis-local" | "dynalite" | "local-kinesis"
  readonly reason: "NotInstalled" | "StartFailed"
  /** What happened and what to do, in words. */
  readonly detail: string
  readonly cause?: unknown
}> {
  override get message(): string {
    return `${this.server}: ${this.reason}: ${this.detail}`
  }
}
