/** The consumer processes, seen from outside: started, listened to, ended. */
import { Command, CommandExecutor, type Error as PlatformError } from "@effect/platform"
import { Context, Data, Deferred, Effect, Exit, Fiber, Layer, Option, Ref, type Scope, Stream } from "effect"
import { fileURLToPath } from "node:url"
import { Board } from "./board.js"
import * as Report from "./report.js"

/** A consumer ended by itself. */
export class ConsumerFailed extends Data.TaggedError("ConsumerFailed")<{
  readonly id: string
  readonly exitCode: number
  /** The last of what it said beside its reports. */
  readonly words: ReadonlyArray<string>
}> {
  override get message(): string {
    return [`${this.id} ended by itself with exit code ${this.exitCode}`, ...this.words].join("\n")
  }
}

export interface Consumer {
  /** Ends the process without a chance to tell anybody: what a crash looks like to the others. */
  readonly kill: Effect.Effect<void>
  /** Lets it commit, hand its shards over and leave the group. Done when its last report is read. */
  readonly stop: Effect.Effect<void>
}

export class Consumers extends Context.Tag("@kinesumer/examples/Consumers")<Consumers, {
  /** Starts a process, which ends with the scope at the latest. */
  readonly start: (id: string) => Effect.Effect<Consumer, PlatformError.PlatformError, Scope.Scope>
  /** Fails when the program of one fails. A signal from outside is no failure: the others go on. */
  readonly failure: Effect.Effect<never, ConsumerFailed>
}>() {}

const program = fileURLToPath(new URL("./consumer.js", import.meta.url))

export const layer = (
  environment: Readonly<Record<string, string>>
): Layer.Layer<Consumers, never, Board | CommandExecutor.CommandExecutor> =>
  Layer.effect(
    Consumers,
    Effect.gen(function*() {
      const board = yield* Board
      const executor = yield* CommandExecutor.CommandExecutor
      const failed = yield* Deferred.make<never, ConsumerFailed>()

      const start = Effect.fnUntraced(function*(id: string) {
        const child = yield* executor.start(
          Command.env(Command.make(process.execPath, program), { ...environment, MEMBER_ID: id })
        )
        yield* board.started(id, child.pid)
        yield* board.note(`${id} starts`)

        const words = yield* Ref.make<ReadonlyArray<string>>([])
        const listening = yield* Stream.merge(child.stdout, child.stderr).pipe(
          Stream.decodeText(),
          Stream.splitLines,
          Stream.runForEach((line) =>
            Option.match(Report.parse(line), {
              onNone: () => Ref.update(words, (before) => [...before, line].slice(-20)),
              onSome: (report) => board.reported(id, report)
            })
          ),
          Effect.ignore,
          Effect.forkScoped
        )

        const wanted = yield* Ref.make<"killed" | "stopped" | undefined>(undefined)
        const watching = yield* Effect.gen(function*() {
          const exit = yield* Effect.exit(child.exitCode)
          yield* Fiber.await(listening)
          const how = yield* Ref.get(wanted)
          if (how !== undefined) return yield* board.ended(id, how)
          if (Exit.isSuccess(exit) && exit.value !== 0) {
            yield* Deferred.fail(failed, new ConsumerFailed({ id, exitCode: exit.value, words: yield* words }))
          }
          yield* board.ended(id, Exit.isSuccess(exit) ? "stopped" : "killed")
          yield* board.note(`${id} ends by itself`)
        }).pipe(Effect.forkScoped)

        const end = (how: "killed" | "stopped", signal: CommandExecutor.Signal) =>
          Ref.update(wanted, (before) => before ?? how).pipe(
            Effect.zipRight(Effect.ignore(child.kill(signal))),
            Effect.zipRight(Fiber.await(watching)),
            Effect.asVoid
          )
        const kill = end("killed", "SIGKILL")
        const stop = Effect.raceFirst(end("stopped", "SIGTERM"), Effect.delay(kill, "10 seconds"))
        yield* Effect.addFinalizer(() => Effect.interruptible(stop))
        return { kill, stop }
      })

      return { start, failure: Deferred.await(failed) }
    })
  )
