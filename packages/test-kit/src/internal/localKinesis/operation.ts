import type { KinesisError } from "@kinesumer/core/KinesisError"
import type * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import type { Page, Server } from "../testServer.js"
import type { Event } from "../testSubscription.js"
import type { Members } from "./format.js"
import type { Leaves } from "./input.js"
import { decode } from "./input.js"
import type { WireError } from "./wireError.js"

/** @internal */
export type Result<A> = Either.Either<A, KinesisError | WireError>

/** @internal */
export interface Answer {
  /** Left out where nothing is answered. */
  readonly members?: Members | undefined
  /** What `Records` holds besides the members. */
  readonly page?: Page | undefined
  /** Is opened for as long as somebody listens. */
  readonly events?: Effect.Effect<Stream.Stream<Event, KinesisError>, KinesisError, Scope.Scope> | undefined
}

/**
 * An operation, once it is known in which form its requests come.
 *
 * @internal
 */
export type Operation = (leaves: Leaves) => (server: Server, input: unknown) => Result<Answer>

/** @internal */
export const make = <A, I>(
  schema: (leaves: Leaves) => Schema.Schema<A, I>,
  handle: (server: Server, input: A) => Result<Answer>
): Operation =>
(leaves) => {
  const decodeInput = decode(schema(leaves))
  return (server, input) => Either.flatMap(decodeInput(input), (decoded) => handle(server, decoded))
}

/** @internal */
export const nothing: Answer = {}
