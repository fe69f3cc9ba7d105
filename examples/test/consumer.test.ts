import { assert, it } from "@effect/vitest"
import { Kinesumer, Position, StateStore } from "@kinesumer/core"
import { TestKinesis } from "@kinesumer/test-kit"
import { Effect, Equal, Layer, Option, Ref, Stream, TestClock } from "effect"

const Services = Layer.merge(TestKinesis.layer, StateStore.layerMemory)

it.scoped("handles each order, and remembers up to where", () =>
  Effect.gen(function*() {
    const kinesis = yield* TestKinesis.TestKinesis
    yield* kinesis.createStream({ name: "orders" })
    const put = yield* kinesis.put({ stream: "orders", partitionKey: "customer-7", data: "two books" })

    const handled = yield* Ref.make<ReadonlyArray<string>>([])
    const { records } = yield* Kinesumer.make({ app: "shop", streams: ["orders"] })
    yield* Effect.fork(
      Stream.runForEach(records, ({ data }) => Ref.update(handled, (all) => [...all, new TextDecoder().decode(data)]))
    )
    yield* TestClock.adjust("10 seconds")

    assert.deepStrictEqual(yield* Ref.get(handled), ["two books"])
    const [row] = yield* (yield* StateStore.StateStore).listCheckpoints("shop", "orders")
    assert.isTrue(Equal.equals(row?.position, Option.some(Position.afterSequence(put.sequenceNumber))))
  }).pipe(Effect.provide(Services)))
