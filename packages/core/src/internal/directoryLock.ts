/**
 * A lock on a directory for one process: a file that names its holder. It comes into being whole, by a hard link, so
 * nobody sees half of one. A lock whose process is dead is taken over; one from another host cannot be judged from here
 * and stands.
 */
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { hostname } from "node:os"
import { StateStoreError } from "../StateStoreError.js"
import { fromPlatform } from "./platformErrors.js"
import * as SyncedFile from "./syncedFile.js"

interface Holder {
  readonly host: string
  readonly pid: number
  /** When the process began, where the system tells: a number of a process is given again, in a container at once. */
  readonly started: string | null
  /** Tells this lock from all others, of the same process too. */
  readonly id: string
}

const Holder: Schema.Schema<Holder, string> = Schema.parseJson(Schema.Struct({
  host: Schema.String,
  pid: Schema.Int.pipe(Schema.positive()),
  started: Schema.NullOr(Schema.String),
  id: Schema.String
}))

/** Holds the lock of a directory, which must exist, until the scope closes. Fails with `Locked` if another has it. */
export const acquire = (
  directory: string
): Effect.Effect<void, StateStoreError, FileSystem.FileSystem | Path.Path | Scope.Scope> =>
  Effect.gen(function*() {
    const path = yield* Path.Path
    yield* hold(yield* FileSystem.FileSystem, directory, path.join(directory, "lock"))
  })

const hold = (
  fs: FileSystem.FileSystem,
  directory: string,
  lock: string
): Effect.Effect<void, StateStoreError, Scope.Scope> =>
  Effect.gen(function*() {
    const me = yield* describeMe(fs)
    const draft = `${lock}-${me.id}`
    const readHolder = read(fs, lock)

    const take: Effect.Effect<void, StateStoreError | PlatformError> = Effect.gen(function*() {
      if (yield* link(fs, draft, lock)) return
      const holder = yield* readHolder
      if (Option.isNone(holder)) {
        return yield* take
      }
      if (yield* isAlive(fs, holder.value)) {
        return yield* inUse(directory, lock, holder.value, me)
      }
      // Of many who find a holder dead, one may put itself in its place: that right is a lock of its own.
      yield* hold(fs, directory, `${lock}-after-${holder.value.id}`).pipe(
        Effect.andThen(readHolder),
        Effect.flatMap((now) => Option.exists(now, ({ id }) => id === holder.value.id) ? fs.rename(draft, lock) : take),
        Effect.scoped
      )
    })

    yield* Effect.acquireRelease(
      SyncedFile.write(fs, draft, encode(me)).pipe(
        Effect.andThen(take),
        Effect.ensuring(Effect.ignore(fs.remove(draft, { force: true }))),
        Effect.catchTags({
          SystemError: fromPlatformError(lock),
          BadArgument: fromPlatformError(lock)
        })
      ),
      // Only its own: after a mistaken take-over the file is another's.
      () =>
        Effect.ignore(
          Effect.flatMap(readHolder, (now) =>
            Option.exists(now, ({ id }) => id === me.id) ? fs.remove(lock) : Effect.void)
        )
    )
  })

const encode = (holder: Holder): Uint8Array => new TextEncoder().encode(Schema.encodeSync(Holder)(holder))

const fromPlatformError = (lock: string) => (error: PlatformError) =>
  Effect.fail(fromPlatform("open", `The lock "${lock}"`)(error))

/** `false` if the lock is there already. */
const link = (fs: FileSystem.FileSystem, draft: string, lock: string): Effect.Effect<boolean, PlatformError> =>
  fs.link(draft, lock).pipe(
    Effect.as(true),
    Effect.catchIf(
      (error) => error._tag === "SystemError" && error.reason === "AlreadyExists",
      () => Effect.succeed(false)
    )
  )

/** `none` if nobody holds the lock any more. */
const read = (
  fs: FileSystem.FileSystem,
  lock: string
): Effect.Effect<Option.Option<Holder>, StateStoreError | PlatformError> =>
  fs.readFileString(lock).pipe(
    Effect.flatMap((text) =>
      Effect.mapError(Schema.decode(Holder)(text), (cause) =>
        new StateStoreError({
          reason: "Locked",
          operation: "open",
          detail: `"${lock}" does not say which process holds it. If no process uses the directory, remove that file`,
          cause
        }))
    ),
    Effect.asSome,
    Effect.catchIf(
      (error) => error._tag === "SystemError" && error.reason === "NotFound",
      () => Effect.succeedNone
    )
  )

const inUse = (directory: string, lock: string, holder: Holder, me: Holder): StateStoreError =>
  new StateStoreError({
    reason: "Locked",
    operation: "open",
    detail: (holder.host !== me.host
      ? `"${directory}" is in use by process ${holder.pid} on host "${holder.host}". If it has ended, which cannot be ` +
        `seen from here, remove "${lock}"`
      : holder.pid === me.pid
      ? `"${directory}" is in use by this very process (${me.pid}), which has opened it twice: share one layer`
      : `"${directory}" is in use by process ${holder.pid} on this host ("${me.host}")`) +
      `. Files serve a group of one process: stop the other one, take another directory, or use a store that processes ` +
      `share, such as DynamoDB`
  })

// --- Processes ---

const describeMe = (fs: FileSystem.FileSystem): Effect.Effect<Holder> =>
  Effect.map(startOf(fs, process.pid), (started) => ({
    host: hostname(),
    pid: process.pid,
    started: Option.getOrNull(started),
    id: crypto.randomUUID()
  }))

const isAlive = (fs: FileSystem.FileSystem, holder: Holder): Effect.Effect<boolean> =>
  holder.host !== hostname()
    ? Effect.succeed(true)
    : Effect.flatMap(startOf(fs, holder.pid), (started) =>
      Option.isSome(started) && holder.started !== null
        ? Effect.succeed(started.value === holder.started)
        : isRunning(holder.pid))

/** Signal 0 reaches a process that is there, and is refused by one that is another user's. */
const isRunning = (pid: number): Effect.Effect<boolean> =>
  Effect.try({
    try: () => process.kill(pid, 0),
    catch: (error) => error instanceof Error && "code" in error && error.code === "EPERM"
  }).pipe(Effect.merge)

/** When a process began, as Linux counts it: the boot, and the ticks since then. A zombie has ended. */
const startOf = (fs: FileSystem.FileSystem, pid: number): Effect.Effect<Option.Option<string>> =>
  Effect.all([fs.readFileString("/proc/sys/kernel/random/boot_id"), fs.readFileString(`/proc/${pid}/stat`)]).pipe(
    Effect.map(([boot, stat]) => {
      // The second field is the name of the program in brackets, whatever that contains.
      const [state = "", ...fields] = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
      return "ZX".includes(state) ? "ended" : `${boot.trim()}/${fields[18] ?? ""}`
    }),
    Effect.option
  )
