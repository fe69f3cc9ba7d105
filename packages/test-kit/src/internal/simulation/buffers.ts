/**
 * Looks every second at how much each member holds ahead of its consumer.
 *
 * @internal
 */
import * as Effect from "effect/Effect"
import type { Stage } from "./stage.js"

const lookEvery = 1_000

/** @internal */
export const watchBuffers = (stage: Stage): Effect.Effect<never> =>
  Effect.forever(Effect.zipRight(
    Effect.sleep(lookEvery),
    Effect.suspend(() =>
      Effect.forEach(stage.members, ({ member: { process, service, spec } }) =>
        service === undefined
          ? Effect.void
          : service.health.pipe(
            Effect.tap(({ bufferedRecords }) =>
              Effect.sync(() => {
                if (bufferedRecords <= stage.scenario.bufferSize) return
                stage.journal.violation(
                  "P9",
                  `${spec.member} holds ${bufferedRecords} records; ${stage.scenario.bufferSize} are allowed`
                )
              })
            ),
            process.within,
            Effect.forkDaemon
          ), { discard: true })
    )
  ))
