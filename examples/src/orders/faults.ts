/** What goes wrong in this example on purpose: a sink that fails now and then, and a process that dies. */
import { SqlError } from "@effect/sql"
import { Effect, Layer, Random, Ref } from "effect"
import { Orders } from "./orders.js"

/** Every twentieth write fails: half of these before anything is written, half after, as if the answer had been lost. */
export const shaky = Layer.effect(
  Orders,
  Effect.map(Orders, (orders) =>
    Orders.of({
      store: (order, record) =>
        Effect.flatMap(Random.nextIntBetween(0, 40), (chance) => {
          const failure = new SqlError.SqlError({ message: "the connection is gone", cause: undefined })
          if (chance === 0) return failure
          const stored = orders.store(order, record)
          return chance === 1 ? Effect.zipRight(stored, failure) : stored
        })
    }))
)

/** Kills this process after so many orders, at the worst moment: when one is stored, and not marked. */
export const dying = (after: number) =>
  Layer.effect(
    Orders,
    Effect.gen(function*() {
      const orders = yield* Orders
      const stored = yield* Ref.make(0)
      return Orders.of({
        store: (order, record) =>
          Effect.zipRight(
            orders.store(order, record),
            Effect.map(Ref.updateAndGet(stored, (count) => count + 1), (count) => {
              if (count === after) process.kill(process.pid, "SIGKILL")
            })
          )
      })
    })
  )
