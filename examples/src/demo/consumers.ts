/** The consumer processes, seen from outside: started, listened to, ended. */
import { Command, CommandExecutor, type Error as PlatformError } from "@effect/platform"
import { Context, Data, Deferred, Effect, Fiber, Layer, Option, Ref, type Scope, Stream } from "effect"
import { fileURLToPath } from "node:url"
import { Board, type Ending } from "./board.js"
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

const lines = <E>(output: Stream.Stream<Uint8Array, E>): Stream.Stream<string, E> =>
  Stream.splitLines(Stream.decodeText(output))

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
        const listening = yield* Stream.merge(lines(child.stdout), lines(child.stderr)).pipe(
          Stream.runForEach((line) =>
            Option.match(Report.parse(line), {
              onNone: () => Ref.update(words, (before) => [...before, line].slice(-20)),
              onSome: (report) => board.reported(id, report)
            })
          ),
          Effect.ignore,
          Effect.forkScoped
        )

        const wanted = yield* Ref.make(Option.none<Ending>())
        const watching = yield* Effect.gen(function*() {
          // A process that a signal ended has no exit code.
          const exit = yield* Effect.option(child.exitCode)
          yield* Fiber.await(listening)
          const ending = yield* Ref.get(wanted)
          if (Option.isSome(ending)) return yield* board.ended(id, ending.value)
          yield* board.note(`${id} ends by itself`)
          if (Option.isNone(exit)) return yield* board.ended(id, "killed")
          if (exit.value === 0) return yield* board.ended(id, "stopped")
          yield* board.ended(id, "failed")
          yield* Deferred.fail(failed, new ConsumerFailed({ id, exitCode: exit.value, words: yield* words }))
        }).pipe(Effect.forkScoped)

        const end = (ending: Ending, signal: CommandExecutor.Signal) =>
          Ref.update(wanted, Option.orElseSome(() => ending)).pipe(
            Effect.zipRight(Effect.ignore(Effect.whenEffect(child.kill(signal), child.isRunning))),
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
