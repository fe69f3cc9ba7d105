/**
 * Carries out what a scenario says, one action after another, each at its moment.
 *
 * @internal
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Faults from "../../Faults.js"
import * as KinesisFaults from "../../KinesisFaults.js"
import { aggregate } from "../aggregate.js"
import type { Action, MemberSpec, Trouble } from "./model.js"
import * as Stages from "./stage.js"
import type { Stage } from "./stage.js"
import * as Truth from "./truth.js"

type Rule = Faults.Rule

/** @internal */
export const play = (stage: Stage, action: Action): Effect.Effect<void> => {
  switch (action._tag) {
    case "Join":
      return alive(stage, action.member).length > 0 ? Effect.void : stage.start(action)
    case "Leave":
      return onAlive(stage, action.member, ({ member }) =>
        Effect.suspend(() => {
          member.state = "Leaving"
          return Deferred.succeed(member.leave, undefined)
        }))
    case "Crash":
      return onAlive(stage, action.member, (one) =>
        Effect.gen(function*() {
          yield* kill(stage, one)
          const { restartAfter } = action
          if (restartAfter !== undefined) yield* later(stage, restartAfter, startAgain(stage, one.member.spec))
        }))
    case "Double":
      return onAlive(stage, action.member, ({ member }) => stage.start(member.spec))
    case "Stall":
      return onAlive(
        stage,
        action.member,
        ({ member }) => Effect.zipRight(member.process.stall, later(stage, action.millis, member.process.wake))
      )
    case "Partition":
      return onAlive(stage, action.member, (one) =>
        during(
          stage,
          action.millis,
          action.from === "store"
            ? stage.faults.addStore({ member: labelOf(stage, one) }, Faults.fail("Unavailable"))
            : stage.faults.addKinesis({ member: labelOf(stage, one) }, Faults.fail("Unavailable"))
        ))
    case "Trouble":
      return trouble(stage, action)
    case "FalseEnds":
      return Effect.zipRight(
        during(stage, action.millis, stage.faults.add({ on: "getRecords" }, falseEnd(stage))),
        during(stage, action.millis, stage.faults.add({ on: "subscribeToShard" }, falseLastEvent(stage)))
      )
    case "StaleLists":
      return during(stage, action.millis, stage.faults.add({ on: "listShards" }, Faults.stale))
    case "ClockJump":
      return onAlive(stage, action.member, ({ member }) => member.process.jump(action.by))
    case "ForgetMember":
      return onAlive(
        stage,
        action.member,
        ({ member }) =>
          Effect.forEach(
            member.incarnations,
            (incarnation) =>
              Effect.ignore(stage.store.deregisterMember(Stages.app, { memberId: member.spec.member, incarnation }))
          )
      )
    case "Put":
      return put(stage, action)
    case "Reshard":
      return reshaped(stage, action.stream, stage.kinesis.reshard(action.stream, action.count))
    case "Split":
      return Effect.flatMap(openShards(stage, action.stream), (open) => {
        const shard = open[action.place % Math.max(1, open.length)]
        return shard === undefined || open.length >= mostShards
          ? Effect.void
          : reshaped(stage, action.stream, stage.kinesis.split(action.stream, shard.shardId))
      })
    case "Merge":
      return Effect.flatMap(openShards(stage, action.stream), (open) => {
        const place = action.place % Math.max(1, open.length - 1)
        const [low, high] = [open[place], open[place + 1]]
        return low === undefined || high === undefined
          ? Effect.void
          : reshaped(stage, action.stream, stage.kinesis.merge(action.stream, low.shardId, high.shardId))
      })
    case "ExpireIterators":
      return stage.kinesis.expireIterators
    case "EndSubscriptions":
      return Effect.asVoid(
        stage.kinesis.endSubscriptions({
          stream: action.stream,
          ...(action.broken ? { error: "Unavailable" as const } : {})
        })
      )
    case "DeregisterConsumer":
      return stage.kinesis.client.describeStream({ name: action.stream, arn: Option.none() }).pipe(
        Effect.flatMap(({ arn }) => stage.kinesis.client.deregisterConsumer(arn, Stages.app)),
        Effect.ignore
      )
    case "EmptyPages":
      return Effect.flatMap(
        Effect.orDie(stage.kinesis.shards(action.stream)),
        (shards) =>
          Effect.forEach(shards, ({ shardId }) => Effect.ignore(stage.kinesis.emptyPages({ ...action, shardId })), {
            discard: true
          })
      )
    case "Trim":
      return trim(stage, action)
    case "Refresh":
      return onAlive(stage, action.member, ({ member }) =>
        Effect.suspend(() => {
          if (member.service === undefined) return Effect.void
          member.refreshes++
          return member.service.refresh(
            action.streams.map((stream) => ({ stream, startFrom: stage.scenario.startFrom }))
          ).pipe(
            Effect.ignore,
            Effect.ensuring(Effect.sync(() => member.refreshes--)),
            member.process.within,
            Effect.forkDaemon
          )
        }))
    case "Pause":
      return onAlive(stage, action.member, ({ member: { process, service } }) =>
        service === undefined
          ? Effect.void
          : Effect.zipRight(
            Effect.forkDaemon(process.within(Effect.ignore(service.pause(action.stream)))),
            later(stage, action.millis, Effect.forkDaemon(process.within(Effect.ignore(service.resume(action.stream)))))
          ))
    case "SlowConsumer":
      return onAlive(stage, action.member, ({ member: { mood, spec } }) =>
        Effect.suspend(() => {
          mood.handleMillis = action.handleMillis
          return later(
            stage,
            action.millis,
            Effect.sync(() => {
              mood.handleMillis = spec.consumer.handleMillis
            })
          )
        }))
    case "StuckConsumer":
      return onAlive(stage, action.member, ({ member: { mood } }) =>
        Effect.sync(() => {
          mood.stuckUntil = stage.world.elapsed() + action.millis
        }))
  }
}

/** A stream is not split any further than this. */
const mostShards = 8

type Entry = Stage["members"][number]

/** @internal */
export const isAlive = ({ member }: Entry): boolean => member.state === "Starting" || member.state === "Running"

const alive = (stage: Stage, memberId: string): ReadonlyArray<Entry> =>
  stage.members.filter((entry) => entry.member.spec.member === memberId && isAlive(entry))

/** The process that has the id, if one lives: of several the oldest. */
const onAlive = (
  stage: Stage,
  memberId: string,
  effect: (entry: Entry) => Effect.Effect<unknown>
): Effect.Effect<void> =>
  Effect.suspend(() => {
    const [first] = alive(stage, memberId)
    return first === undefined ? Effect.void : Effect.asVoid(effect(first))
  })

const labelOf = (stage: Stage, entry: Entry): string =>
  Stages.labelOf(entry.member.spec.member, stage.members.indexOf(entry))

const later = (stage: Stage, millis: number, effect: Effect.Effect<unknown>): Effect.Effect<void> =>
  Effect.asVoid(Effect.forkDaemon(stage.main.within(Effect.zipRight(Effect.sleep(millis), effect))))

const during = (stage: Stage, millis: number, rule: Effect.Effect<Rule>): Effect.Effect<void> =>
  Effect.flatMap(rule, ({ heal }) => {
    stage.tally.faults++
    return later(stage, millis, heal)
  })

/** @internal */
export const kill = (stage: Stage, { member }: Entry): Effect.Effect<void> =>
  Effect.suspend(() => {
    stage.tally.crashes++
    stage.journal.note(() => `${member.spec.member} is killed`)
    member.state = "Killed"
    member.service = undefined
    return member.process.kill
  })

const startAgain = (stage: Stage, spec: MemberSpec): Effect.Effect<void> =>
  Effect.suspend(() => alive(stage, spec.member).length > 0 ? Effect.void : stage.start(spec))

const trouble = (
  stage: Stage,
  { member, millis, service, trouble }: Extract<Action, { readonly _tag: "Trouble" }>
): Effect.Effect<void> => {
  const entries = stage.members.filter((entry) => member === undefined || entry.member.spec.member === member)
  if (trouble.kind === "slow") {
    stage.tally.faults++
    return Effect.suspend(() => {
      const links = entries.map(({ link }) => link[service])
      for (const link of links) link.millis = trouble.millis
      return later(
        stage,
        millis,
        Effect.sync(() => {
          // Of two that overlap, the one that ends last must not bring the other's slowness back.
          for (const link of links) link.millis = stage.scenario.latency
        })
      )
    })
  }
  const action = actionOf(trouble)
  return Effect.forEach(entries, (entry) => {
    const match = { member: labelOf(stage, entry), chance: trouble.chance }
    return during(
      stage,
      millis,
      service === "store" ? stage.faults.addStore(match, action) : stage.faults.addKinesis(match, action)
    )
  }, { discard: true })
}

/** The end of a closed shard, where the list is the second sign of it, is not told too early by any Kinesis. */
const isClosed = ({ truth }: Stage, stream: string, shardId: string): boolean =>
  truth.shards.get(Truth.keyOf(stream, shardId))?.closed === true

const falseEnd = (stage: Stage) =>
  Faults.rewrite<"getRecords">((answer, call) =>
    isClosed(stage, call.args[0].name, call.args[1]) ? answer : KinesisFaults.falseEnd.rewrite(answer, call)
  )

const falseLastEvent = (stage: Stage) =>
  Faults.rewriteEvents((event, call) =>
    isClosed(stage, call.args[0].name, call.args[1])
      ? [event]
      : [{ ...event, continuation: Option.none(), childShards: [] }]
  )

const actionOf = ({ kind }: Exclude<Trouble, { readonly kind: "slow" }>) => {
  switch (kind) {
    case "unavailable":
      return Faults.fail("Unavailable")
    case "throttled":
      return Faults.fail("Throttled")
    case "answerLost":
      return Faults.dropAnswer("Timeout")
    case "twice":
      return Faults.twice
    case "hangs":
      return Faults.hang
  }
}

const put = (
  stage: Stage,
  { bytes, count, stream }: { readonly stream: string; readonly count: number; readonly bytes: number }
): Effect.Effect<void> =>
  Effect.gen(function*() {
    const { aggregation = 1 } = stage.scenario
    for (let left = count; left > 0; left -= aggregation) {
      const parts = Array.from({ length: Math.min(aggregation, left) }, () => ({
        partitionKey: `key-${stage.tally.records++ % 97}`,
        data: new Uint8Array(bytes)
      }))
      const [first] = parts
      if (first === undefined) return
      const record = aggregation === 1 ? first : { ...first, data: aggregate(parts) }
      const { sequenceNumber, shardId } = yield* stage.kinesis.put({ stream, ...record })
      const arrival = yield* Effect.clockWith((clock) => clock.currentTimeMillis)
      const shard = stage.truth.shards.get(Truth.keyOf(stream, shardId))
      if (shard === undefined) continue
      parts.forEach((_, index) =>
        Truth.learnRecord(shard, sequenceNumber, aggregation === 1 ? undefined : index, arrival)
      )
    }
  }).pipe(Effect.orDie)

/** @internal */
export const learn = (stage: Stage, stream: string): Effect.Effect<void> =>
  Effect.flatMap(
    Effect.orDie(stage.kinesis.shards(stream)),
    (shards) => Effect.sync(() => Truth.learnShards(stage.truth, stream, shards))
  )

const openShards = (stage: Stage, stream: string) =>
  Effect.map(
    Effect.orDie(stage.kinesis.shards(stream)),
    (shards) =>
      shards.filter(({ closed }) => !closed).sort((one, other) =>
        BigInt(one.hashKeyRange.start) < BigInt(other.hashKeyRange.start) ? -1 : 1
      )
  )

const reshaped = <E>(stage: Stage, stream: string, change: Effect.Effect<unknown, E>): Effect.Effect<void> =>
  Effect.suspend(() => {
    stage.tally.reshards++
    return Effect.zipRight(Effect.orDie(change), learn(stage, stream))
  })

const trim = (
  stage: Stage,
  { part, stream }: { readonly stream: string; readonly part: number }
): Effect.Effect<void> =>
  Effect.gen(function*() {
    const { kinesis, truth } = stage
    for (const { closed, shardId } of yield* kinesis.shards(stream)) {
      const records = yield* kinesis.records(stream, shardId)
      const last = records[Math.ceil(records.length * part) - 1]
      if (last !== undefined) yield* kinesis.trim({ stream, shardId, through: last.sequenceNumber })
      const shard = truth.shards.get(Truth.keyOf(stream, shardId))
      const [oldest] = yield* kinesis.records(stream, shardId)
      if (shard !== undefined) Truth.learnTrim(shard, oldest?.sequenceNumber)
      if (closed && oldest === undefined && part === 1) yield* kinesis.forgetShard(stream, shardId)
    }
    yield* learn(stage, stream)
  }).pipe(Effect.orDie)
