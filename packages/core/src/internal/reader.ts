/** Reads one shard for as long as its run goes on, in the way that is configured. */
import type * as Effect from "effect/Effect"
import * as FanOut from "./fanOutReader.js"
import * as Polling from "./pollingReader.js"
import type { ReaderContext } from "./readerSteps.js"
import type { Run } from "./run.js"

export const run = (context: ReaderContext, run: Run): Effect.Effect<never> =>
  context.env.config.mode === "fanOut" ? FanOut.run(context, run) : Polling.run(context, run)
