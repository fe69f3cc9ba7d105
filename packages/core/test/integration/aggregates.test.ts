/** Aggregates over the wire, with the SDK as it is: what is delivered of them, and where a restart goes on. */
import { assert, describe, it } from "@effect/vitest"
import type { KinesumerRecord } from "@kinesumer/core"
import { Effect } from "effect"
import * as Aggregates from "../utils/aggregates.js"
import * as Gateway from "../utils/gateway.js"
import * as Support from "./fanOutSupport.js"

const { join, until, world } = Support

const text = ({ data }: KinesumerRecord.KinesumerRecord) => new TextDecoder().decode(data)

const shown = (records: ReadonlyArray<KinesumerRecord.KinesumerRecord>) =>
  records.map((record) => [record.subSequenceNumber, text(record), record.partitionKey, record.explicitHashKey])

const hashKey = `${2n ** 128n - 1n}`

const puts: ReadonlyArray<Uint8Array> = [
  Buffer.from("before"),
  Aggregates.of([
    { data: "a", partitionKey: "k1" },
    { data: "b", partitionKey: "k2", explicitHashKey: hashKey },
    { data: "c", partitionKey: "k1" },
    // More than a frame of HTTP/2, or a packet, holds.
    { data: "d".repeat(100_000), partitionKey: "k3" }
  ]),
  Buffer.from("between"),
  Aggregates.of([{ data: "e", partitionKey: "k1" }, { data: "f", partitionKey: "k1", explicitHashKey: "0" }])
]

const expected = [
  [undefined, "before", "the key of all", undefined],
  [0, "a", "k1", undefined],
  [1, "b", "k2", hashKey],
  [2, "c", "k1", undefined],
  [3, "d".repeat(100_000), "k3", undefined],
  [undefined, "between", "the key of all", undefined],
  [0, "e", "k1", undefined],
  [1, "f", "k1", "0"]
]

for (const protocol of Gateway.protocols) {
  for (const mode of ["polling", "fanOut"] as const) {
    describe(`${mode} over ${protocol}`, () => {
      const manual = { mode, streams: ["orders"], commit: { mode: "manual" } } as const

      it.scopedLive("delivers part by part, and goes on with the part after the last one that was marked", () =>
        Effect.gen(function*() {
          const w = yield* world(protocol, ["orders"])
          const sequenceNumbers = yield* Effect.forEach(
            puts,
            (data) => Effect.map(w.admin.put("orders", "the key of all", data), ({ sequenceNumber }) => sequenceNumber)
          )

          const first = yield* join(w, { ...manual, memberId: "first" })
          yield* until(Effect.map(first.delivered, ({ length }) => length >= expected.length), "all are delivered")
          const all = yield* first.delivered
          assert.deepStrictEqual(shown(all), expected)
          assert.deepStrictEqual(
            all.map(({ sequenceNumber }) => sequenceNumbers.indexOf(sequenceNumber)),
            [0, 1, 1, 1, 1, 2, 3, 3]
          )
          yield* first.service.mark(all.slice(0, 3))
          yield* first.close

          const second = yield* join(w, { ...manual, memberId: "second" })
          yield* until(Effect.map(second.delivered, ({ length }) => length >= 5), "the rest is delivered")
          yield* w.admin.put("orders", "the key of all", Buffer.from("after"))
          yield* until(Effect.map(second.delivered, ({ length }) => length >= 6), "what follows is delivered")
          assert.deepStrictEqual(shown(yield* second.delivered), [
            ...expected.slice(3),
            [undefined, "after", "the key of all", undefined]
          ])
        }))
    })
  }
}
