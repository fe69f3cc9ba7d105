import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { KeyValueStateStore, Position, StateStore, type StateStoreError } from "@kinesumer/core"
import { Context, Effect, Either, Exit, Layer, Option, Scope } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import { hostname } from "node:os"

const alice: StateStore.Owner = { memberId: "alice", incarnation: "1" }

/** A store that lives as long as the scope, as a process would open it. */
const open = (directory: string) =>
  Effect.map(
    Layer.build(KeyValueStateStore.layerFileSystem(directory)),
    (context) => Context.get(context, StateStore.StateStore)
  )

const newDirectory = Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())

const lockOf = (directory: string) => `${directory}/lock`

const writeLock = (
  path: string,
  holder: { readonly host?: string; readonly pid: number; readonly started?: string; readonly id?: string }
) =>
  Effect.flatMap(FileSystem.FileSystem, (fs) =>
    fs.writeFileString(
      path,
      JSON.stringify({ host: hostname(), started: null, id: "id-of-the-lock", ...holder })
    ))

/** Another process, and how to kill it. */
const otherProcess = Effect.acquireRelease(
  Effect.sync(() => {
    const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { stdio: "ignore" })
    return {
      pid: child.pid ?? assert.fail("no process"),
      kill: Effect.async<void>((resume) => {
        if (child.exitCode !== null || child.signalCode !== null) return resume(Effect.void)
        child.once("exit", () => resume(Effect.void))
        child.kill("SIGKILL")
      })
    }
  }),
  ({ kill }) => kill
)

/** A process that has ended and whose parent does not ask about it. */
const zombie = Effect.map(
  Effect.acquireRelease(
    Effect.async<{ readonly pid: number; readonly parent: ChildProcess }>((resume) => {
      // It ends when the shell, which may ask about it, has become another program.
      const script = "until grep -qx sleep /proc/$$/comm; do :; done & echo $!; exec sleep 60"
      const parent = spawn("sh", ["-c", script], { stdio: ["ignore", "pipe", "ignore"] })
      parent.stdout.once("data", (chunk) => resume(Effect.succeed({ pid: Number(chunk), parent })))
    }),
    ({ parent }) => Effect.sync(() => parent.kill("SIGKILL"))
  ),
  ({ pid }) => pid
)

const isLocked = (error: StateStoreError.StateStoreError, ...words: ReadonlyArray<string>) => {
  assert.strictEqual(error.reason, "Locked")
  for (const word of words) assert.include(error.detail, word)
}

const inFiles = Effect.provide(NodeContext.layer)

describe("files", () => {
  it.scoped("keep what was answered for the next process", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const directory = `${yield* newDirectory}/made/by/it`
      const request = { stream: "orders", shardId: "s", takeFrom: Option.none(), epochAbove: 0 }
      yield* Effect.scoped(Effect.gen(function*() {
        const store = yield* open(directory)
        yield* store.acquireLeases("app", alice, [request])
        yield* store.commitCheckpoints("app", alice, [{
          ...request,
          epoch: 1,
          position: Position.afterSequence("7", 2)
        }])
      }))
      const names = yield* fs.readDirectory(directory)
      assert.isTrue(
        names.every((name) => /^kinesumer-checkpoints-[0-9a-f]{32}-[0-9]{2}-[01]$/.test(name)),
        names.join()
      )
      const store = yield* open(directory)
      assert.deepStrictEqual(yield* store.listCheckpoints("app", "orders"), [{
        shardId: "s",
        position: Option.some(Position.afterSequence("7", 2)),
        owner: Option.some(alice),
        epoch: 1
      }])
    }).pipe(inFiles))

  it.scoped("fail by a typed error where there is no directory, and cannot be one", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const file = `${yield* newDirectory}/file`
      yield* fs.writeFileString(file, "")
      const error = yield* Effect.flip(open(file))
      assert.strictEqual(error.reason, "TableInvalid")
      assert.include(error.detail, file)
    }).pipe(inFiles))
})

describe("the lock", () => {
  it.scoped("refuses a second store of the same process until the first is closed", () =>
    Effect.gen(function*() {
      const directory = yield* newDirectory
      const scope = yield* Scope.make()
      yield* Scope.extend(open(directory), scope)
      isLocked(yield* Effect.flip(open(directory)), directory, "this very process", `${process.pid}`)
      yield* Scope.close(scope, Exit.void)
      yield* open(directory)
    }).pipe(inFiles))

  it.scoped("names the process that holds it, and passes on when that one was killed", () =>
    Effect.gen(function*() {
      const directory = yield* newDirectory
      const other = yield* otherProcess
      yield* writeLock(lockOf(directory), other)
      isLocked(yield* Effect.flip(open(directory)), directory, `process ${other.pid}`, hostname())
      yield* other.kill
      yield* open(directory)
    }).pipe(inFiles))

  it.scoped("is not fooled by a number that another process has now", () =>
    Effect.gen(function*() {
      const directory = yield* newDirectory
      yield* writeLock(lockOf(directory), { pid: process.pid, started: "an earlier boot/1" })
      if (process.platform === "linux") yield* open(directory)
      else isLocked(yield* Effect.flip(open(directory)))
    }).pipe(inFiles))

  it.scoped.skipIf(process.platform !== "linux")(
    "passes on from a process that was killed and not yet buried",
    () =>
      Effect.gen(function*() {
        const fs = yield* FileSystem.FileSystem
        const directory = yield* newDirectory
        const pid = yield* zombie
        const boot = yield* fs.readFileString("/proc/sys/kernel/random/boot_id")
        const stat = yield* Effect.repeat(fs.readFileString(`/proc/${pid}/stat`), {
          until: (stat) => stat.includes(") Z ")
        })
        yield* writeLock(lockOf(directory), { pid, started: `${boot.trim()}/${stat.split(" ")[21] ?? ""}` })
        yield* open(directory)
      }).pipe(inFiles)
  )

  it.scoped("stands if its process is on another host, and the message says what to do", () =>
    Effect.gen(function*() {
      const directory = yield* newDirectory
      // Here that number is free, which says nothing about there.
      const dead = yield* otherProcess
      yield* dead.kill
      yield* writeLock(lockOf(directory), { host: "elsewhere", pid: dead.pid })
      isLocked(yield* Effect.flip(open(directory)), "\"elsewhere\"", `remove "${lockOf(directory)}"`)
    }).pipe(inFiles))

  it.scoped("stands if it cannot be read, and the message says what to do", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* newDirectory
      yield* fs.writeFileString(lockOf(directory), "")
      isLocked(yield* Effect.flip(open(directory)), lockOf(directory), "remove that file")
    }).pipe(inFiles))

  it.scoped("passes to one of many who find its process dead", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* newDirectory
      const dead = yield* otherProcess
      yield* dead.kill
      yield* writeLock(lockOf(directory), dead)
      // One of the dead had begun to take over from another.
      yield* writeLock(`${lockOf(directory)}-after-id-of-the-lock`, dead)
      const answers = yield* Effect.forEach(
        Array.from({ length: 20 }),
        () => Effect.either(open(directory)),
        { concurrency: "unbounded" }
      )
      assert.strictEqual(answers.filter(Either.isRight).length, 1)
      for (const error of answers.filter(Either.isLeft)) isLocked(error.left, directory)
      assert.deepStrictEqual(yield* fs.readDirectory(directory), ["lock"])
    }).pipe(inFiles))

  it.scoped("is not taken from one who was quicker to take over", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* newDirectory
      const dead = yield* otherProcess
      yield* dead.kill
      yield* writeLock(lockOf(directory), dead)
      // Between a look at the dead and the right to replace it, another has done so, and has lost that right again.
      const quicker = Effect.provideService(
        writeLock(lockOf(directory), { host: "elsewhere", pid: 1, id: "quicker" }),
        FileSystem.FileSystem,
        fs
      )
      const slow = FileSystem.FileSystem.of({
        ...fs,
        link: (from, to) =>
          to.includes("-after-")
            ? Effect.andThen(quicker, fs.link(from, to))
            : fs.link(from, to)
      })
      const error = yield* Effect.flip(Effect.provideService(open(directory), FileSystem.FileSystem, slow))
      isLocked(error, "\"elsewhere\"")
      assert.include(yield* fs.readFileString(lockOf(directory)), "quicker")
    }).pipe(inFiles))

  it.scoped("is given back by whoever holds it, and nobody else", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* newDirectory
      yield* Effect.scoped(Effect.andThen(open(directory), writeLock(lockOf(directory), { host: "elsewhere", pid: 1 })))
      assert.deepStrictEqual(yield* fs.readDirectory(directory), ["lock"])
    }).pipe(inFiles))
})
