/** A group whose members are processes, with its Kinesis and DynamoDB in processes of their own. */
import { Command, type CommandExecutor } from "@effect/platform"
import { DynamoStateStore } from "@kinesumer/dynamo-store"
import { Clock, Deferred, Effect, Schema, type Scope, Stream } from "effect"
import { fileURLToPath } from "node:url"
import { BenchFailed } from "../bench.js"
import * as ChildServer from "../childServer.js"
import type { Group } from "./group.js"
import * as Notes from "./notes.js"
import * as Services from "./services.js"
import { Told } from "./told.js"

const stream = "stream-0"
const program = fileURLToPath(new URL("./member.js", import.meta.url))

const failed = (cause: { readonly message: string }) => new BenchFailed({ message: cause.message })

export const make = (
  shards: number
): Effect.Effect<Group, BenchFailed, CommandExecutor.CommandExecutor | Scope.Scope> =>
  Effect.gen(function*() {
    const kinesis = yield* ChildServer.start("rebalance/kinesisServer.js", { SHARDS: `${shards}` })
    const dynamo = yield* ChildServer.start("dynamoServer.js")
    const store = yield* DynamoStateStore.make({
      ...Services.at(dynamo),
      tableName: Services.table,
      createTable: true
    }).pipe(Effect.mapError(failed))
    const services = yield* Effect.context<CommandExecutor.CommandExecutor | Scope.Scope>()
    const notes = Notes.make()

    const start: Group["start"] = (memberId) =>
      Effect.gen(function*() {
        const child = yield* Command.start(
          Command.make(process.execPath, program).pipe(
            Command.env({
              KINESIS_PORT: `${kinesis}`,
              DYNAMO_PORT: `${dynamo}`,
              MEMBER: memberId,
              STREAM: stream
            }),
            Command.stderr("inherit")
          )
        )
        const started = yield* Deferred.make<number, BenchFailed>()
        yield* child.stdout.pipe(
          Stream.decodeText(),
          Stream.splitLines,
          Stream.mapEffect(Schema.decode(Schema.parseJson(Told))),
          Stream.runForEach((told) => {
            switch (told._tag) {
              case "Starting":
                return Deferred.succeed(started, told.at)
              case "Answered":
                return Effect.sync(() => notes.answered(told.stream, told.shardId, memberId, told.at))
              case "Delivered":
                return Effect.sync(() => notes.delivered(told))
            }
          }),
          Effect.catchAll((cause) => Deferred.fail(started, failed(cause))),
          Effect.zipRight(Deferred.fail(started, new BenchFailed({ message: `${memberId} ends as it starts` }))),
          Effect.forkScoped
        )
        const kill = (signal: "SIGTERM" | "SIGKILL") => Effect.mapError(child.kill(signal), failed)
        return {
          memberId,
          startedAt: yield* Deferred.await(started),
          leave: Effect.asVoid(Effect.forkDaemon(kill("SIGTERM"))),
          crash: kill("SIGKILL")
        }
      }).pipe(Effect.provide(services), Effect.mapError(failed))

    return { streams: [stream], shards, store, notes, now: Clock.currentTimeMillis, elapse: Effect.sleep, start }
  })
