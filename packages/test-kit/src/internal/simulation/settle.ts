/**
 * After a scenario: all faults end, and the group has to come to rest. Everything that was put is processed and committed,
 * the shards are shared out evenly, an idle group costs next to nothing, and whoever leaves leaves nothing behind.
 *
 * @internal
 */
import * as Position from "@kinesumer/core/Position"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import { storeOperations } from "../faultEngine.js"
import * as Play from "./play.js"
import * as Stages from "./stage.js"
import type { Stage } from "./stage.js"
import * as Truth from "./truth.js"

/** What a group may take to come to rest, in milliseconds: back-off goes up to half a minute, for each generation. */
const patience = 300_000

const lookEvery = 500

const idleTime = 20_000

/** A call that hung when the faults ended may keep a sync for half a minute, and the next one looks at everything. */
const idleTimes = 4

const syncsPerRefresh = 6

/** @internal */
export const settle = (stage: Stage): Effect.Effect<void> =>
  Effect.gen(function*() {
    yield* heal(stage)
    if (!(yield* comesToRest(stage))) return
    yield* idle(stage)
    for (const { name } of stage.scenario.streams) {
      yield* Play.play(stage, { _tag: "Put", stream: name, count: 5, bytes: 10 })
    }
    if (!(yield* within(patience, () => unprocessed(stage) === undefined))) {
      return stage.journal.violation("P1", unprocessed(stage) ?? "")
    }
    // Handlers come back for more, which marks what they were handed.
    yield* Effect.sleep(stage.scenario.idleInterval)
    yield* everybodyLeaves(stage)
  })

const entries = (stage: Stage) => stage.members.filter(Play.isAlive)

const heal = (stage: Stage): Effect.Effect<void> =>
  Effect.gen(function*() {
    stage.journal.note(() => "all faults end")
    stage.isSettling = true
    yield* stage.faults.healAll
    for (const { link, member } of stage.members) {
      link.kinesis.millis = stage.scenario.latency
      link.store.millis = stage.scenario.latency
      member.mood.handleMillis = 0
      member.mood.failures = 0
      member.mood.stuckUntil = 0
      yield* member.process.wake
      yield* member.restart
    }
  })

/** Who was asked to read all streams again, and who does. */
interface Reading {
  readonly asked: Set<unknown>
  readonly done: Set<unknown>
}

/** All read all streams again, those that were refreshed or paused too. */
const readAll = (stage: Stage, { asked, done }: Reading): Effect.Effect<void> =>
  Effect.gen(function*() {
    const streams = stage.scenario.streams.map(({ name }) => name)
    for (const { member } of entries(stage)) {
      const { process, refreshes, service } = member
      if (service === undefined || refreshes > 0 || asked.has(service)) continue
      asked.add(service)
      yield* Effect.forkDaemon(process.within(
        Effect.gen(function*() {
          yield* service.refresh(streams.map((stream) => ({ stream, startFrom: stage.scenario.startFrom })))
          yield* Effect.forEach(streams, service.resume)
          done.add(service)
        }).pipe(Effect.catchAll(() => Effect.sync(() => asked.delete(service))))
      ))
    }
  })

/** Where everybody has left or was killed, somebody comes. */
const startOne = (stage: Stage): Effect.Effect<void> =>
  stage.start({
    member: "last",
    streams: stage.scenario.streams.map(({ name }) => name),
    consumer: { view: "records", commit: "auto", handleMillis: 0, failures: 0, leaves: "closed" },
    wallClockSkew: 0
  })

const comesToRest = (stage: Stage): Effect.Effect<boolean> =>
  Effect.gen(function*() {
    const reading: Reading = { asked: new Set(), done: new Set() }
    const isReading = ({ member: { service, state } }: Stage["members"][number]) =>
      state === "Running" && reading.done.has(service)
    const reasons = () => unprocessed(stage) ?? unfinished(stage) ?? unshared(stage)
    for (let waited = 0; waited < patience; waited += lookEvery) {
      if (stage.journal.violations().length > 0) return false
      if (entries(stage).length === 0) yield* startOne(stage)
      yield* readAll(stage, reading)
      if (entries(stage).every(isReading) && reasons() === undefined) return true
      yield* Effect.sleep(lookEvery)
    }
    const [promise, what] = unprocessed(stage) !== undefined
      ? ["P1", unprocessed(stage)]
      : unfinished(stage) !== undefined
      ? ["P4", unfinished(stage)]
      : ["P6", unshared(stage) ?? "a member does not start"]
    stage.journal.violation(promise, `${patience / 1000} s after all faults ended: ${what}`)
    return false
  })

const within = (millis: number, condition: () => boolean): Effect.Effect<boolean> =>
  Effect.gen(function*() {
    for (let waited = 0; waited < millis; waited += lookEvery) {
      if (condition()) return true
      yield* Effect.sleep(lookEvery)
    }
    return condition()
  })

/** A record that nobody has processed, in words. */
const unprocessed = ({ truth }: Stage): string | undefined => {
  for (const shard of truth.shards.values()) {
    if (truth.starts.has(shard.stream) && Truth.isDone(truth, shard)) continue
    if (shard.records.length === 0) continue
    const place = Truth.firstUnprocessed(truth, shard)
    return `record ${place} of ${shard.records.length} of ${shard.key} (${
      shard.records[place]?.sequenceNumber
    }) is not processed`
  }
  return undefined
}

/** A shard of which less is committed than was processed, in words. */
const unfinished = ({ leases, truth }: Stage): string | undefined => {
  for (const shard of truth.shards.values()) {
    const { position } = leases.of(shard.stream, shard.shardId)
    if (!shard.listed || position?._tag === "ShardEnd") continue
    if (shard.closed) return `the end of ${shard.key} is not committed`
    // Nobody comes by what vanished after a crash before it was committed.
    const last = shard.records.slice(shard.trimmed).filter(({ processed }) => processed).at(-1)
    if (last === undefined) continue
    if (
      position === undefined ||
      Position.compare(position, Position.afterSequence(last.sequenceNumber, last.subSequenceNumber)) < 0
    ) {
      return `${shard.key} is not committed up to ${last.sequenceNumber}, which is processed`
    }
  }
  return undefined
}

/** A shard that nobody has, or members whose numbers of shards differ by more than one, in words. */
const unshared = (stage: Stage): string | undefined => {
  const living = entries(stage).map(({ member }) => member)
  const shares = new Map(living.map((member) => [member, 0]))
  for (const shard of stage.truth.shards.values()) {
    if (!shard.listed || shard.closed) continue
    const { holder } = stage.leases.of(shard.stream, shard.shardId)
    const member = living.find(({ incarnations }) => holder !== undefined && incarnations.has(holder.owner.incarnation))
    if (member === undefined) return `${shard.key} has no owner that lives`
    shares.set(member, (shares.get(member) ?? 0) + 1)
  }
  const numbers = [...shares.values()]
  return Math.max(...numbers) - Math.min(...numbers) > 1
    ? `shards are not shared evenly: ${[...shares].map(([{ spec }, count]) => `${spec.member} ${count}`).join(", ")}`
    : undefined
}

/**
 * What an idle group may ask of its store: a heartbeat of each member, and two reads a sync. What is left to be tidied up
 * after the last change may cost more, but not for long.
 */
const idle = (stage: Stage): Effect.Effect<void> =>
  Effect.gen(function*() {
    let rest = yield* excess(stage)
    for (let times = 1; rest.length > 0 && times < idleTimes; times++) rest = yield* excess(stage)
    for (const detail of rest) stage.journal.violation("P12", detail)
  })

const excess = (stage: Stage): Effect.Effect<ReadonlyArray<string>> =>
  Effect.gen(function*() {
    const { livenessTimeout, streams, syncInterval } = stage.scenario
    const before = new Map(stage.counts)
    yield* Effect.sleep(idleTime)
    const members = entries(stage).length
    const syncs = members * (Math.ceil(idleTime / syncInterval) + 1)
    const allowed: Readonly<Record<string, number>> = {
      heartbeat: members * (Math.ceil(idleTime / Math.floor(livenessTimeout / 3)) + 1),
      listMembers: syncs,
      listShardVersions: syncs,
      // One member keeps the lists up to date, and compares each with the stored one.
      getShards: 2 * streams.length * (Math.ceil(idleTime / (syncsPerRefresh * syncInterval)) + 1)
    }
    return storeOperations.flatMap((operation) => {
      const calls = (stage.counts.get(operation) ?? 0) - (before.get(operation) ?? 0)
      const most = allowed[operation] ?? 0
      return calls <= most ? [] : [
        `${members} idle members made ${calls} calls of ${operation} in ${idleTime / 1000} s; ${most} are allowed`
      ]
    })
  })

const everybodyLeaves = (stage: Stage): Effect.Effect<void> =>
  Effect.gen(function*() {
    const leaving = entries(stage)
    yield* Effect.forEach(leaving, ({ member }) => Deferred.succeed(member.leave, undefined), { discard: true })
    yield* within(
      2 * stage.scenario.closeTimeout,
      () => leaving.every(({ member }) => member.state === "Gone")
    )
    for (const { member } of leaving) {
      if (member.state !== "Gone") stage.journal.violation("P8", `${member.spec.member} does not end`)
    }
    const rows = yield* Effect.orDie(stage.store.listMembers(Stages.app))
    for (const row of rows) stage.journal.violation("P8", `${row.memberId} has left, and its row is still there`)
    for (const [key, { holder }] of stage.leases.states) {
      if (holder !== undefined) {
        stage.journal.violation("P8", `${holder.owner.memberId} has left, and still holds the lease of ${key}`)
      }
    }
    const rest = unfinished(stage)
    if (rest !== undefined) stage.journal.violation("P8", `everybody has left, and ${rest}`)
  })
