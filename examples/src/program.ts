/** How a program of the examples ends: what failed is told in a line, and by the exit code. */
import { ValidationError } from "@effect/cli"
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import { Cause, Console, Effect, Exit } from "effect"

export const fail = Effect.sync(() => {
  process.exitCode = 1
})

export const run = (
  name: "demo" | "example",
  main: Effect.Effect<void, ValidationError.ValidationError | { readonly message: string }, NodeContext.NodeContext>
): void =>
  NodeRuntime.runMain(
    main.pipe(
      Effect.catchAll((error) =>
        Effect.zipRight(
          fail,
          // What is wrong with the options is told by now.
          ValidationError.isValidationError(error)
            ? Effect.void
            : Console.error(`The ${name} ends early: ${error.message}`)
        )
      ),
      Effect.provide(NodeContext.layer)
    ),
    { teardown: (exit, onExit) => onExit(Exit.isSuccess(exit) ? 0 : Cause.isInterruptedOnly(exit.cause) ? 130 : 1) }
  )
