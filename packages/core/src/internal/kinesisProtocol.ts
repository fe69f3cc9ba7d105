/** In which form records are asked for: CBOR, or JSON where the server does not know better. */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type { KinesisClientOptions } from "../KinesisClient.js"
import type { KinesisError } from "../KinesisError.js"
import * as KinesisErrors from "./kinesisErrors.js"

export interface Protocol {
  /** Makes a call in the form that the server is known, or hoped, to speak. */
  readonly ask: <A>(forms: {
    readonly json: Effect.Effect<A, KinesisError>
    /** `onCbor` is to be called when a refusal comes in CBOR. */
    readonly cbor: (onCbor: () => void) => Effect.Effect<A, KinesisError>
  }) => Effect.Effect<A, KinesisError>
  /** Waits until it is JSON for want of anything better, and gives the refusal that made it so. */
  readonly fallback: Effect.Effect<KinesisError>
}

export const make = (chosen: NonNullable<KinesisClientOptions["protocol"]>): Effect.Effect<Protocol> =>
  Effect.map(Deferred.make<KinesisError>(), (fellBack) => {
    // `auto` until the server has shown what it speaks.
    let form = chosen

    const onCbor = () => {
      if (form === "auto") form = "cbor"
    }

    const onJson = (refusal: KinesisError) =>
      Effect.suspend(() => {
        if (form !== "auto") return Effect.void
        form = "json"
        return Effect.zipRight(
          Deferred.succeed(fellBack, refusal),
          Effect.logWarning(
            "The endpoint of Kinesis does not speak CBOR: records are asked for in JSON from now on, which takes more " +
              `time. It answered ${refusal.message}`
          )
        )
      })

    return {
      fallback: Deferred.await(fellBack),
      ask: ({ cbor, json }) =>
        Effect.suspend(() => {
          if (form === "json") return json
          if (form === "cbor") return cbor(onCbor)
          return Effect.catchIf(
            Effect.tap(cbor(onCbor), () => Effect.sync(onCbor)),
            (error) => form !== "cbor" && KinesisErrors.isNotUnderstood(error),
            (refusal) =>
              json.pipe(
                Effect.tap(onJson(refusal)),
                Effect.tapError((error) => KinesisErrors.isUnderstood(error) ? onJson(refusal) : Effect.void)
              )
          )
        })
    }
  })
