import type { KinesisErrorReason } from "@kinesumer/core/KinesisError"
import { KinesisError } from "@kinesumer/core/KinesisError"
import * as Either from "effect/Either"

/**
 * The call that is being answered, for its errors.
 *
 * @internal
 */
export interface Where {
  readonly operation: string
  readonly stream: string
  readonly shardId?: string | undefined
}

/** @internal */
export const refuse = (
  where: Where,
  reason: KinesisErrorReason,
  detail: string
): Either.Either<never, KinesisError> => Either.left(new KinesisError({ ...where, reason, detail }))
