/** What every part of a member shares. */
import { assert, describe, it } from "@effect/vitest"
import { KinesumerConfig, StateStore } from "@kinesumer/core"
import { TestKinesis } from "@kinesumer/test-kit"
import { Effect, Metric, MetricKeyType, type MetricLabel } from "effect"
import * as Environment from "../../src/internal/environment.js"

const environment = Effect.gen(function*() {
  return yield* Environment.make({
    config: yield* KinesumerConfig.make({ app: "app", streams: ["orders"] }),
    self: { memberId: "a", incarnation: "1" },
    kinesis: (yield* TestKinesis.make()).client,
    store: yield* StateStore.makeMemory
  })
})

describe("metrics", () => {
  it.effect("are tagged with the app and what they belong to, once for each stream", () =>
    Effect.gen(function*() {
      const env = yield* environment
      const labels: Array<ReadonlyArray<MetricLabel.MetricLabel>> = []
      const counter: Metric.Metric.Counter<number> = Metric.make(
        MetricKeyType.counter<number>(),
        (_: number, tags) => {
          labels.push(tags)
        },
        () => Effect.runSync(Metric.value(Metric.counter("unused"))),
        () => {}
      )
      for (const stream of ["orders", "payments", "orders", "payments"]) yield* env.count(counter, 1, { stream })
      assert.deepStrictEqual(
        labels.slice(0, 2).map((tags) => tags.map(({ key, value }) => [key, value])),
        [[["app", "app"], ["stream", "orders"]], [["app", "app"], ["stream", "payments"]]]
      )
      assert.strictEqual(labels[2], labels[0])
      assert.strictEqual(labels[3], labels[1])
    }))
})
