/** Shows the board: a table that is redrawn on a terminal, plain lines elsewhere. */
import Table from "cli-table3"
import { Console, Effect, Layer, Ref, Schedule } from "effect"
import logUpdate from "log-update"
import type { Consumer, Note, State } from "./board.js"
import { Board } from "./board.js"
import * as Ledger from "./ledger.js"

/** Shows the board until its scope is closed, and then once more. */
export const layer: Layer.Layer<never, never, Board> = Layer.scopedDiscard(
  Effect.suspend(() => process.stdout.isTTY ? terminal : plain)
)

const terminal = Effect.gen(function*() {
  const { state } = yield* Board
  const draw = Effect.map(state, (state) => logUpdate(picture(state)))
  yield* Effect.addFinalizer(() => Effect.zipRight(draw, Effect.sync(() => logUpdate.done())))
  yield* Effect.forkScoped(Effect.repeat(draw, Schedule.spaced("500 millis")))
})

const plain = Effect.gen(function*() {
  const { state } = yield* Board
  const shown = yield* Ref.make(0)
  const notes = Effect.gen(function*() {
    const { notes } = yield* state
    const first = yield* Ref.getAndSet(shown, notes.length)
    yield* Effect.forEach(notes.slice(first), (note) => Console.log(noteLine(note)))
  })
  const status = Effect.zipRight(notes, Effect.flatMap(state, (state) => Console.log(statusLine(state))))
  yield* Effect.addFinalizer(() => status)
  yield* Effect.delay(notes, "250 millis").pipe(
    Effect.repeatN(7),
    Effect.zipRight(status),
    Effect.forever,
    Effect.forkScoped
  )
})

/** The last notes only: what is redrawn must fit on the screen. */
export const picture = (state: State): string => {
  const table = new Table({
    head: ["consumer", "process", "shards", "records", "lag"],
    style: { head: ["bold"] },
    // No lines between the rows.
    chars: { mid: "", "left-mid": "", "mid-mid": "", "right-mid": "" },
    colAligns: ["left", "left", "left", "right", "right"]
  })
  table.push(...state.consumers.map((consumer) => [
    consumer.id,
    processOf(consumer),
    consumer.shards.join(" "),
    `${consumer.records}`,
    lagOf(consumer)
  ]))
  return [`${clock(state.seconds)}  ${totals(state)}`, table.toString(), ...state.notes.slice(-8).map(noteLine)].join(
    "\n"
  )
}

export const statusLine = (state: State): string =>
  [
    `${clock(state.seconds)}  ${totals(state)}`,
    ...state.consumers.map((consumer) =>
      consumer.state === "running"
        ? `${consumer.id}: ${consumer.shards.join(" ") || "no shards"}, ${consumer.records} records, lag ${
          lagOf(consumer)
        }`
        : `${consumer.id}: ${consumer.state}, ${consumer.records} records`
    )
  ].join(" | ")

export const noteLine = ({ after, text }: Note): string => `${clock(after)}  ${text}`

const totals = ({ ledger, rebalances }: State): string => {
  const { distinct, duplicates, put } = Ledger.balance(ledger)
  return `put ${put}, delivered ${distinct}, repeated ${duplicates}, rebalances ${rebalances}`
}

const processOf = ({ pid, state }: Consumer): string => `${pid} ${state}`

const lagOf = ({ lag }: Consumer): string => lag === undefined ? "-" : `${(lag / 1000).toFixed(1)} s`

const clock = (seconds: number): string => `${seconds.toFixed(1).padStart(6)} s`
