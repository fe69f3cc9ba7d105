/** The local Kinesis at its limits, and when its clients or its streams go away. */
import * as Sdk from "@aws-sdk/client-kinesis"
import { assert, describe, it } from "@effect/vitest"
import { LocalKinesis } from "@kinesumer/test-kit"
import { Array, Cause, Effect, Exit, Fiber, Order, Scope } from "effect"
import { connect as connectHttp2 } from "node:http2"
import { connect as connectSocket } from "node:net"
import { connect, protocols, region } from "./utils/sdk.js"

const StreamARN = `arn:aws:kinesis:${region}:000000000000:stream/orders`
const shardId = "shardId-000000000000"
const mebibyte = 1024 * 1024

type Connection = Effect.Effect.Success<ReturnType<typeof connect>>

const iteratorOf = (call: Connection) =>
  Effect.map(
    call((client) =>
      client.send(
        new Sdk.GetShardIteratorCommand({ StreamARN, ShardId: shardId, ShardIteratorType: "TRIM_HORIZON" })
      )
    ),
    ({ ShardIterator }) => ShardIterator
  )

const subscribe = (
  call: Connection,
  { abortSignal, name = "reader" }: { readonly abortSignal?: AbortSignal; readonly name?: string } = {}
) =>
  Effect.gen(function*() {
    const { Consumer } = yield* call((client) =>
      client.send(new Sdk.RegisterStreamConsumerCommand({ StreamARN, ConsumerName: name }))
    )
    const { EventStream } = yield* call((client) =>
      client.send(
        new Sdk.SubscribeToShardCommand({
          ConsumerARN: Consumer?.ConsumerARN,
          ShardId: shardId,
          StartingPosition: { Type: "TRIM_HORIZON" }
        }),
        abortSignal === undefined ? {} : { abortSignal }
      )
    )
    return yield* Effect.fromNullable(EventStream)
  })

const exhaust = (call: Connection, events: AsyncIterable<unknown>) =>
  call(async () => {
    for await (const _ of events);
  })

/** The name of the error that a call of the SDK ends with. */
const nameOf = <A>(effect: Effect.Effect<A, Cause.UnknownException>) =>
  Effect.map(Effect.flip(effect), ({ error }) => error instanceof Error ? error.name : String(error))

const subscriptionsLeft = (kinesis: LocalKinesis.LocalKinesis["Type"]["kinesis"], count: number) =>
  kinesis.subscriptions().pipe(
    Effect.delay("10 millis"),
    Effect.repeat({ until: (left) => left.length === count }),
    Effect.timeout("5 seconds")
  )

for (const [name, configure] of protocols) {
  describe(name, () => {
    it.scopedLive("takes and gives a record of 1 MiB", () =>
      Effect.gen(function*() {
        const { endpoint } = yield* LocalKinesis.make({ streams: [{ name: "orders" }] })
        const call = yield* connect(endpoint, configure)
        const put = (size: number) =>
          call((client) =>
            client.send(
              new Sdk.PutRecordCommand({ StreamARN, PartitionKey: "key", Data: new Uint8Array(size).fill(7) })
            )
          )
        yield* put(mebibyte)
        const ShardIterator = yield* iteratorOf(call)
        const { Records } = yield* call((client) => client.send(new Sdk.GetRecordsCommand({ ShardIterator })))
        assert.deepStrictEqual(Records?.map(({ Data }) => Data?.byteLength), [mebibyte])
        assert.isTrue(Records?.[0]?.Data?.every((byte) => byte === 7))
      }))

    it.scopedLive("takes a call of 10 MiB, and refuses a larger body, at once", () =>
      Effect.gen(function*() {
        const { endpoint } = yield* LocalKinesis.make({ limits: false, streams: [{ name: "orders" }] })
        const call = yield* connect(endpoint, configure)
        const put = (records: number) =>
          call((client) =>
            client.send(
              new Sdk.PutRecordsCommand({
                StreamARN,
                Records: Array.makeBy(records, () => ({ PartitionKey: "key", Data: new Uint8Array(mebibyte - 3) }))
              })
            )
          ).pipe(Effect.timeoutFail({ duration: "10 seconds", onTimeout: () => new Cause.UnknownException("slow") }))
        assert.strictEqual((yield* put(10)).FailedRecordCount, 0)
        assert.strictEqual(yield* nameOf(put(17)), "RequestEntityTooLarge")
        yield* iteratorOf(call)
      }))

    it.scopedLive("names the errors, also those of a subscription whose stream is deleted", () =>
      Effect.gen(function*() {
        const { endpoint, kinesis } = yield* LocalKinesis.make({ streams: [{ name: "orders" }] })
        const call = yield* connect(endpoint, configure)
        const ShardIterator = yield* iteratorOf(call)
        yield* kinesis.expireIterators
        const expired = yield* nameOf(call((client) => client.send(new Sdk.GetRecordsCommand({ ShardIterator }))))
        assert.strictEqual(expired, "ExpiredIteratorException")
        const events = yield* subscribe(call)
        const end = yield* Effect.fork(nameOf(exhaust(call, events)))
        yield* kinesis.deleteStream("orders")
        assert.strictEqual(yield* Fiber.join(end), "ResourceNotFoundException")
        yield* subscriptionsLeft(kinesis, 0)
      }))

    it.scopedLive("ends the subscription of a client that leaves", () =>
      Effect.gen(function*() {
        const { endpoint, kinesis } = yield* LocalKinesis.make({ streams: [{ name: "orders" }] })
        const call = yield* connect(endpoint, configure)
        const client = new AbortController()
        const events = yield* subscribe(call, { abortSignal: client.signal })
        yield* Effect.fork(Effect.ignore(exhaust(call, events)))
        yield* subscriptionsLeft(kinesis, 1)
        client.abort()
        yield* subscriptionsLeft(kinesis, 0)
      }))

    it.scopedLive("gives no more than 10 MiB at once, also when another client breaks off", () =>
      Effect.gen(function*() {
        const { endpoint, kinesis } = yield* LocalKinesis.make({ limits: false, streams: [{ name: "orders" }] })
        const data = new Uint8Array(mebibyte - 3)
        yield* Effect.replicateEffect(kinesis.put({ stream: "orders", partitionKey: "key", data }), 12)
        const call = yield* connect(endpoint, configure)
        const ShardIterator = yield* iteratorOf(call)
        const other = yield* Scope.make()
        const broken = yield* Scope.extend(connect(endpoint, configure), other)
        yield* Effect.fork(Effect.ignore(
          broken((client) => client.send(new Sdk.GetRecordsCommand({ ShardIterator })))
        ))
        const page = yield* Effect.fork(call((client) => client.send(new Sdk.GetRecordsCommand({ ShardIterator }))))
        yield* Effect.sleep("20 millis")
        yield* Scope.close(other, Exit.void)
        const { NextShardIterator, Records } = yield* Fiber.join(page)
        assert.lengthOf(Records ?? [], 10)
        const rest = yield* call((client) =>
          client.send(new Sdk.GetRecordsCommand({ ShardIterator: NextShardIterator }))
        )
        assert.lengthOf(rest.Records ?? [], 2)
      }))
  })
}

describe("two puts at once", () => {
  it.scopedLive("are taken one after the other", () =>
    Effect.gen(function*() {
      const { endpoint } = yield* LocalKinesis.make({ limits: false, streams: [{ name: "orders" }] })
      const puts = yield* Effect.forEach(Array.range(0, 7), (call) =>
        Effect.flatMap(connect(endpoint, protocols[call % protocols.length]?.[1]), (send) =>
          Effect.map(
            send((client) =>
              client.send(
                new Sdk.PutRecordsCommand({
                  StreamARN,
                  Records: Array.makeBy(500, (n) => ({ PartitionKey: "key", Data: Buffer.from(`${call}/${n}`) }))
                })
              )
            ),
            ({ Records = [] }) =>
              Records.map(({ SequenceNumber = "" }, n) => [SequenceNumber, `${call}/${n}`] as const)
          )), { concurrency: "unbounded" })
      const call = yield* connect(endpoint)
      const ShardIterator = yield* iteratorOf(call)
      const { Records = [] } = yield* call((client) =>
        client.send(new Sdk.GetRecordsCommand({ ShardIterator }))
      )
      const read = Records.map(({ Data = new Uint8Array(0), SequenceNumber = "" }) =>
        [SequenceNumber, Buffer.from(Data).toString()] as const
      )
      const bySequence = Order.mapInput(Order.bigint, ([sequence]: readonly [string, string]) => BigInt(sequence))
      assert.deepStrictEqual(read, Array.sort(puts.flat(), bySequence))
    }))
})

describe("closing", () => {
  it.scopedLive("waits for nobody", () =>
    Effect.gen(function*() {
      const scope = yield* Scope.make()
      const { endpoint, kinesis, port } = yield* Scope.extend(
        LocalKinesis.make({ streams: [{ name: "orders" }] }),
        scope
      )
      yield* kinesis.put({ stream: "orders", partitionKey: "key", data: new Uint8Array(8 * mebibyte) })
      const subscribers = yield* Effect.forEach(protocols, ([name, configure]) =>
        Effect.gen(function*() {
          const call = yield* connect(endpoint, configure)
          const events = yield* subscribe(call, { name: name.replaceAll(/[ /]/g, "-") })
          return yield* Effect.fork(Effect.ignore(exhaust(call, events)))
        }))
      const session = yield* Effect.acquireRelease(
        Effect.sync(() => connectHttp2(endpoint).on("error", () => {})),
        (session) => Effect.sync(() => session.destroy())
      )
      // A client that says nothing, one that stops in the middle of its request, and one that does not read the answer.
      const head = `POST / HTTP/1.1\r\nhost: any\r\ncontent-type: application/x-amz-json-1.1\r\n` +
        `x-amz-target: Kinesis_20131202.GetRecords\r\ncontent-length: `
      const ShardIterator = yield* Effect.flatMap(connect(endpoint), iteratorOf)
      const body = JSON.stringify({ ShardIterator })
      yield* Effect.forEach(["", "PRI", `${head}7\r\n\r\n{`, `${head}${body.length}\r\n\r\n${body}`], (text) =>
        Effect.acquireRelease(
          Effect.sync(() => {
            const socket = connectSocket(port, "127.0.0.1").on("error", () => {}).pause()
            socket.write(text)
            return socket
          }),
          (socket) =>
            Effect.sync(() => socket.destroy())
        ))
      session.request({ ":method": "POST" }).on("error", () => {})
      yield* subscriptionsLeft(kinesis, protocols.length)
      yield* Effect.sleep("100 millis")
      yield* Scope.close(scope, Exit.void).pipe(Effect.disconnect, Effect.timeout("2 seconds"))
      yield* Effect.forEach(subscribers, Fiber.await)
      const again = yield* LocalKinesis.make({ port })
      assert.strictEqual(again.port, port)
    }))
})
