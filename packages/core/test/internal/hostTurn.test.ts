/** Giving way to timers and sockets. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Ref } from "effect"
import * as HostTurn from "../../src/internal/hostTurn.js"
import { mostBetweenHostTurns } from "../utils/hostTurns.js"

describe("a host's turn", () => {
  it.effect("comes after so many steps, whichever fiber does them", () =>
    Effect.gen(function*() {
      const hostTurn = yield* HostTurn.make
      const done = yield* Ref.make(0)
      const worker = Effect.repeatN(Effect.zipRight(hostTurn, Ref.update(done, (steps) => steps + 1)), 999)
      const workers = Effect.forEach(Array.from({ length: 30 }), () => worker, { concurrency: "unbounded" })
      const most = yield* mostBetweenHostTurns(done, workers)
      assert.strictEqual(yield* Ref.get(done), 30_000)
      // As many as there are fibers may have been waiting.
      assert.isAtMost(most, 256 + 30)
    }))

  it.effect("holds nobody up when who waits for it is interrupted", () =>
    Effect.gen(function*() {
      const hostTurn = yield* HostTurn.make
      yield* Effect.repeatN(hostTurn, 255)
      const first = yield* Effect.fork(hostTurn)
      const second = yield* Effect.fork(hostTurn)
      yield* Effect.yieldNow()
      yield* Fiber.interrupt(first)
      yield* Fiber.join(second)
      yield* hostTurn
    }))
})
