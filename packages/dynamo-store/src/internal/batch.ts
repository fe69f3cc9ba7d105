/** Many independent writes. */
import type * as StateStoreError from "@kinesumer/core/StateStoreError"
import * as Effect from "effect/Effect"
import { onFreshTurn } from "./freshTurn.js"

// Enough to hide the way to DynamoDB and back, few enough to leave sockets for the heartbeat.
const concurrency = 16

// What fails one write in this way, after its own tries, fails the next as well.
const outage = (error: StateStoreError.StateStoreError): boolean =>
  error.reason === "Timeout" || error.reason === "Unavailable" || error.reason === "AccessDenied" ||
  error.reason === "TableMissing"

/**
 * Runs a write for each element, in order of the elements; a failed one becomes a value. While nothing can be reached
 * the writes not yet begun fail at once, so that a long list takes no longer than one write to find out.
 *
 * @internal
 */
export const each = <A, B>(
  elements: ReadonlyArray<A>,
  write: (element: A) => Effect.Effect<B, StateStoreError.StateStoreError>,
  onFailure: (error: StateStoreError.StateStoreError) => B
): Effect.Effect<ReadonlyArray<B>> =>
  Effect.suspend(() => {
    let down: StateStoreError.StateStoreError | undefined
    return onFreshTurn(Effect.forEach(
      elements,
      (element) =>
        Effect.suspend(() => down === undefined ? write(element) : down).pipe(
          Effect.catchAll((error) =>
            Effect.sync(() => {
              if (outage(error)) down = error
              return onFailure(error)
            })
          )
        ),
      { concurrency }
    ))
  })

/**
 * As `each`, for writes that answer nothing: all are tried, then the first failure fails.
 *
 * @internal
 */
export const all = <A>(
  elements: ReadonlyArray<A>,
  write: (element: A) => Effect.Effect<void, StateStoreError.StateStoreError>
): Effect.Effect<void, StateStoreError.StateStoreError> =>
  each<A, StateStoreError.StateStoreError | undefined>(
    elements,
    (element) => Effect.as(write(element), undefined),
    (error) => error
  ).pipe(
    Effect.flatMap((errors) => errors.find((error) => error !== undefined) ?? Effect.void)
  )
