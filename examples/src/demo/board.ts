/** All that the demo knows, in one place: the books, the consumers, and what happened when. */
import { Clock, Context, Effect, Layer, Ref } from "effect"
import * as Ledger from "./ledger.js"
import type { Report } from "./report.js"

/** How a process ended: by a signal that left it no time, as it should, or by an error of its own. */
export type Ending = "killed" | "stopped" | "failed"

export interface Consumer {
  readonly id: string
  readonly pid: number
  readonly state: "running" | Ending
  readonly shards: ReadonlyArray<string>
  /** Records that its user code was given. */
  readonly records: number
  /** How long its last record had been in the stream, in milliseconds; `undefined` before the first. */
  readonly lag: number | undefined
}

export interface Note {
  /** Seconds since the start. */
  readonly after: number
  readonly text: string
}

export interface State {
  readonly seconds: number
  readonly ledger: Ledger.Ledger
  readonly consumers: ReadonlyArray<Consumer>
  readonly notes: ReadonlyArray<Note>
  /** How many times a consumer that was running took or gave shards. */
  readonly rebalances: number
}

export class Board extends Context.Tag("@kinesumer/examples/Board")<Board, {
  readonly state: Effect.Effect<State>
  readonly note: (text: string) => Effect.Effect<void>
  readonly put: (puts: ReadonlyArray<Ledger.Put>) => Effect.Effect<void>
  readonly started: (id: string, pid: number) => Effect.Effect<void>
  readonly reported: (id: string, report: Report) => Effect.Effect<void>
  readonly ended: (id: string, ending: Ending) => Effect.Effect<void>
}>() {}

export const layer: Layer.Layer<Board> = Layer.effect(
  Board,
  Effect.gen(function*() {
    const start = yield* Clock.currentTimeMillis
    const state = yield* Ref.make<State>({
      seconds: 0,
      ledger: Ledger.empty,
      consumers: [],
      notes: [],
      rebalances: 0
    })
    const update = (change: (state: State) => State) =>
      Effect.flatMap(
        Clock.currentTimeMillis,
        (now) => Ref.updateAndGet(state, (before) => change({ ...before, seconds: (now - start) / 1000 }))
      )
    const note = (text: string) => update((state) => noted(state, text))
    return {
      state: update((state) => state),
      note,
      put: (puts) => update((state) => ({ ...state, ledger: Ledger.put(state.ledger, puts) })),
      started: (id, pid) =>
        update((state) => ({
          ...state,
          consumers: [...state.consumers, { id, pid, state: "running", shards: [], records: 0, lag: undefined }]
        })),
      reported: (id, report) => update((state) => reported(state, id, report)),
      ended: (id, ending) => update((state) => changed(state, id, { state: ending, shards: [], lag: undefined }))
    }
  })
)

const noted = (state: State, text: string): State => ({
  ...state,
  notes: [...state.notes, { after: state.seconds, text }]
})

const changed = (state: State, id: string, change: Partial<Consumer>): State => ({
  ...state,
  consumers: state.consumers.map((consumer) => consumer.id === id ? { ...consumer, ...change } : consumer)
})

const reported = (state: State, id: string, report: Report): State => {
  switch (report._tag) {
    case "Delivered": {
      const { _tag, waited, ...delivery } = report
      const records = state.consumers.find((consumer) => consumer.id === id)?.records ?? 0
      return {
        ...changed(state, id, { records: records + 1, lag: waited }),
        ledger: Ledger.delivered(state.ledger, { ...delivery, member: id })
      }
    }
    case "Running":
      return changed(state, id, { shards: report.shards })
    case "Event": {
      const rebalances = state.rebalances + (report.event === "AssignmentChanged" ? 1 : 0)
      return { ...noted(state, `${id} ${report.text}`), rebalances }
    }
  }
}
