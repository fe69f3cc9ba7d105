import { assert, describe, it } from "@effect/vitest"
import * as LocalServerError from "@kinesumer/test-kit/LocalServerError"
import * as LocalServers from "@kinesumer/test-kit/LocalServers"
import { Deferred, Effect, Either, Exit, Fiber, Scope } from "effect"
import * as kinesisLocalServer from "../src/internal/kinesisLocalServer.js"
import * as localServer from "../src/internal/localServer.js"

/** One call of the JSON protocol. The servers look at the form of a signature, not at what it signs. */
const call = (endpoint: string, service: string, target: string, body: object) =>
  Effect.tryPromise(async (signal) => {
    const response = await fetch(endpoint, {
      method: "POST",
      headers: {
        "content-type": `application/x-amz-json-1.${service === "kinesis" ? 1 : 0}`,
        "x-amz-target": target,
        "x-amz-date": "20250101T000000Z",
        "authorization": `AWS4-HMAC-SHA256 Credential=test/20250101/us-east-1/${service}/aws4_request, ` +
          "SignedHeaders=host, Signature=test"
      },
      body: JSON.stringify(body),
      signal
    })
    return { status: response.status, body: await response.text() }
  })

/** Node.js lets go of a process some ticks after its end. */
const untilChildProcesses = (count: number) =>
  Effect.sync(() => process.getActiveResourcesInfo().filter((resource) => resource === "ProcessWrap").length).pipe(
    Effect.delay(5),
    Effect.repeat({ until: (actual) => actual === count })
  )

describe("LocalServers", () => {
  it.live("kinesisLocal answers until its scope closes", () =>
    Effect.gen(function*() {
      const scope = yield* Scope.make()
      const server = yield* Scope.extend(LocalServers.kinesisLocal(), scope)
      assert.strictEqual(server.endpoint, `http://127.0.0.1:${server.port}`)
      yield* untilChildProcesses(1)
      const { body, status } = yield* call(server.endpoint, "kinesis", "Kinesis_20131202.ListStreams", {})
      assert.strictEqual(status, 200)
      assert.deepInclude(JSON.parse(body), { HasMoreStreams: false, StreamNames: [] })
      yield* Scope.close(scope, Exit.void)
      yield* untilChildProcesses(0)
      yield* Effect.flip(call(server.endpoint, "kinesis", "Kinesis_20131202.ListStreams", {}))
    }), 30_000)

  it.scopedLive("several run side by side, none of them on ports that were asked for", () =>
    Effect.gen(function*() {
      const servers = yield* Effect.all([LocalServers.kinesisLocal(), LocalServers.kinesisLocal()], {
        concurrency: "unbounded"
      })
      assert.strictEqual(new Set(servers.map((server) => server.port)).size, 2)
      for (const { port } of servers) assert.notInclude([4567, 4568], port)
    }), 30_000)

  it.scopedLive("kinesisLocal allows as many shards as its options say", () =>
    Effect.gen(function*() {
      const { endpoint } = yield* LocalServers.kinesisLocal({ shardLimit: 2 })
      const create = (StreamName: string) =>
        call(endpoint, "kinesis", "Kinesis_20131202.CreateStream", { StreamName, ShardCount: 2 })
      assert.strictEqual((yield* create("fits")).status, 200)
      assert.include((yield* create("does-not-fit")).body, "LimitExceededException")
    }), 30_000)

  it.scopedLive("kinesisLocal leaves no process behind when its start is interrupted", () =>
    Effect.gen(function*() {
      yield* untilChildProcesses(0)
      const fiber = yield* Effect.fork(Effect.scoped(LocalServers.kinesisLocal()))
      yield* untilChildProcesses(1)
      yield* Fiber.interrupt(fiber)
      yield* untilChildProcesses(0)
    }), 30_000)

  it.scopedLive("kinesisLocal says so when it does not come up in time", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(LocalServers.kinesisLocal({ startTimeout: 1 }))
      assert.instanceOf(error, LocalServerError.LocalServerError)
      assert.strictEqual(error.message, "kinesis-local: StartFailed: it has not come up within 1ms")
    }), 30_000)

  it.scopedLive("kinesisLocal tells why its process ended", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(LocalServers.kinesisLocal({ environment: { SHARD_LIMIT: "many" } }))
      assert.strictEqual(error.reason, "StartFailed")
      assert.include(error.detail, "exit code")
      assert.include(error.detail, "SHARD_LIMIT")
    }), 30_000)

  it.scopedLive(
    "the process of kinesisLocal ends when the channel to its parent breaks, as at the parent's death",
    () =>
      Effect.gen(function*() {
        const main = yield* localServer.resolve("kinesis-local")
        const program = yield* kinesisLocalServer.run(main, {})
        yield* Effect.addFinalizer(() => Effect.sync(() => program.child.kill("SIGKILL")))
        yield* Deferred.await(program.port)
        program.child.disconnect()
        yield* Deferred.await(program.ended)
        assert.strictEqual(program.child.exitCode, 0)
      }),
    30_000
  )

  it.live("dynalite answers until its scope closes, which waits for no client", () =>
    Effect.gen(function*() {
      const scope = yield* Scope.make()
      const server = yield* Scope.extend(LocalServers.dynalite(), scope)
      const listTables = call(server.endpoint, "dynamodb", "DynamoDB_20120810.ListTables", {})
      assert.deepStrictEqual(yield* listTables, { status: 200, body: `{"TableNames":[]}` })
      yield* Scope.close(scope, Exit.void).pipe(Effect.timeout("2 seconds"))
      yield* Effect.flip(listTables)
    }))

  it.effect("the layers give the same servers", () =>
    Effect.gen(function*() {
      const kinesis = yield* LocalServers.KinesisLocal
      const dynamo = yield* LocalServers.Dynalite
      assert.notStrictEqual(kinesis.port, dynamo.port)
    }).pipe(
      Effect.provide(LocalServers.layerKinesisLocal()),
      Effect.provide(LocalServers.layerDynalite())
    ), 30_000)

  it.effect("a package that is missing is a typed error that says what to install", () =>
    Effect.gen(function*() {
      // @ts-expect-error no such server
      const missing: "dynalite" = "no-such-server"
      const errors = yield* Effect.all([localServer.resolve(missing), localServer.load(missing)], { mode: "either" })
      for (const result of errors) {
        if (Either.isRight(result)) return assert.fail("it is not there")
        assert.strictEqual(result.left.reason, "NotInstalled")
        assert.include(result.left.message, "npm install --save-dev no-such-server")
      }
    }))
})
