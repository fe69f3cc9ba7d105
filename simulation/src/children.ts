/** Child processes that carry out scenarios, seen from outside. */
import { Command, CommandExecutor, type Error as PlatformError } from "@effect/platform"
import { Data, Effect, Fiber, Ref, Schema, Stream } from "effect"
import { fileURLToPath } from "node:url"
import { type Job, Result, Task } from "./task.js"

/** A child has died, or has said nothing for too long. */
export class ChildFailed extends Data.TaggedError("ChildFailed")<{
  readonly how: "died" | "hangs"
  readonly detail: string
}> {
  override get message(): string {
    return `its process ${this.how}${this.detail === "" ? "" : `: ${this.detail}`}`
  }
}

export type Options = Omit<Task, "jobs"> & {
  /** The name of the mutation to apply in the child. */
  readonly mutation?: string | undefined
}

/** A scenario takes a fraction of a second. Whoever shrinks one carries out some hundred before a word comes. */
const patience = { run: "1 minute", shrink: "10 minutes" } as const

const program = fileURLToPath(new URL("./child.js", import.meta.url))
const preload = new URL("./mutation/preload.js", import.meta.url).href

const lines = <E>(output: Stream.Stream<Uint8Array, E>): Stream.Stream<string, E> =>
  Stream.splitLines(Stream.decodeText(output))

const start = (
  jobs: ReadonlyArray<Job>,
  { mutation, ...task }: Options
): Stream.Stream<Result, ChildFailed | PlatformError.PlatformError, CommandExecutor.CommandExecutor> =>
  Stream.unwrapScoped(Effect.gen(function*() {
    const input = yield* Effect.orDie(Schema.encode(Schema.parseJson(Task))({ ...task, jobs }))
    const args = mutation === undefined ? [program] : ["--import", preload, program, mutation]
    const executor = yield* CommandExecutor.CommandExecutor
    const child = yield* executor.start(Command.feed(Command.make(process.execPath, ...args), input))
    const words = yield* Ref.make<ReadonlyArray<string>>([])
    const listening = yield* lines(child.stderr).pipe(
      Stream.runForEach((line) => Ref.update(words, (before) => [...before, line].slice(-20))),
      Effect.ignore,
      Effect.forkScoped
    )
    const died = (reason: string) =>
      Effect.flatMap(
        Effect.zipRight(Fiber.await(listening), words),
        (said) => new ChildFailed({ how: "died", detail: [reason, ...said].join("\n") })
      )
    const end = Effect.gen(function*() {
      const exit = yield* Effect.either(child.exitCode)
      // A process that a signal ended has no exit code.
      if (exit._tag === "Left") yield* died(exit.left.message)
      else if (exit.right !== 0) yield* died(`with exit code ${exit.right}`)
    })
    return lines(child.stdout).pipe(
      Stream.mapEffect((line) =>
        Effect.catchTag(Schema.decode(Schema.parseJson(Result))(line), "ParseError", (error) => died(error.message))
      ),
      Stream.concat(Stream.drain(Stream.fromEffect(end))),
      Stream.timeoutFail(
        () => new ChildFailed({ how: "hangs", detail: "" }),
        task.shrinks ? patience.shrink : patience.run
      )
    )
  }))

/** Stands in place of a promise where a scenario has not come to an end. */
export const noPromise = "none"

const nothing: Pick<Result, "elapsed" | "journal" | "tally"> = {
  elapsed: 0,
  journal: [],
  tally: { records: 0, crashes: 0, rebalances: 0, reshards: 0, faults: 0 }
}

/**
 * Carries out the jobs in their order. A scenario that ends its process counts as one that breaks all promises, and
 * the others go on in another one.
 */
export const run = (
  jobs: ReadonlyArray<Job>,
  options: Options
): Stream.Stream<Result, PlatformError.PlatformError, CommandExecutor.CommandExecutor> =>
  Stream.suspend(() => {
    let done = 0
    let isBroken = false
    const check = Effect.suspend(() =>
      done === jobs.length || (options.untilBroken && isBroken)
        ? Effect.void
        : new ChildFailed({ how: "died", detail: "it ended before it was done" })
    )
    return start(jobs, options).pipe(
      Stream.tap(({ violations }) =>
        Effect.sync(() => {
          done++
          isBroken ||= violations.length > 0
        })
      ),
      Stream.concat(Stream.drain(Stream.fromEffect(check))),
      Stream.catchTag("ChildFailed", ({ message }) => {
        const job = jobs[done]
        if (job === undefined) return Stream.empty
        const broken: Result = { ...job, ...nothing, violations: [{ promise: noPromise, at: 0, detail: message }] }
        const rest = options.untilBroken ? [] : jobs.slice(done + 1)
        return Stream.concat(Stream.make(broken), rest.length === 0 ? Stream.empty : run(rest, options))
      })
    )
  })
