/**
 * Everything that a scenario plays on: the world, Kinesis, the store, the network with its faults, the members, and the
 * oracle that watches them.
 *
 * @internal
 */
import type { KinesumerEvent } from "@kinesumer/core/KinesumerEvent"
import * as KinesumerEvents from "@kinesumer/core/KinesumerEvent"
import * as StateStore from "@kinesumer/core/StateStore"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as Faults from "../../Faults.js"
import * as TestKinesis from "../../TestKinesis.js"
import * as Chance from "./chance.js"
import * as Deliveries from "./deliveries.js"
import type * as Journal from "./journal.js"
import * as Leases from "./leases.js"
import * as Member from "./member.js"
import type { MemberSpec, Scenario } from "./model.js"
import * as Network from "./network.js"
import * as Truth from "./truth.js"
import * as Watch from "./watch.js"
import type { Process, World } from "./world.js"

/** @internal */
export interface Stage {
  readonly scenario: Scenario
  readonly world: World
  readonly main: Process
  readonly kinesis: TestKinesis.TestKinesis["Type"]
  readonly store: StateStore.StateStore["Type"]
  readonly faults: Faults.Faults["Type"]
  readonly truth: Truth.Truth
  readonly leases: Leases.Leases
  readonly deliveries: Deliveries.Deliveries
  readonly journal: Journal.Journal
  /** Calls that reached the store, and calls that were sent to Kinesis, by operation. */
  readonly counts: Watch.Counts
  readonly tally: Tally
  /** The scenario is over: no process comes back by itself any more. */
  isSettling: boolean
  /** All processes that ever were. */
  readonly members: Array<
    { readonly member: Member.MemberProcess; readonly link: Link; readonly fiber: Fiber.RuntimeFiber<void> }
  >
  readonly start: (spec: MemberSpec) => Effect.Effect<void>
}

interface Link {
  readonly store: Network.Link
  readonly kinesis: Network.Link
}

/** What the report counts. */
export interface Tally {
  records: number
  crashes: number
  rebalances: number
  reshards: number
  faults: number
}

/** @internal */
export const app = "app"

/** @internal */
export const make = (
  scenario: Scenario,
  world: World,
  main: Process,
  journal: Journal.Journal
): Effect.Effect<Stage> =>
  Effect.gen(function*() {
    const { elapsed } = world
    const kinesis = yield* TestKinesis.make({
      pageSize: scenario.pageSize,
      consumerDelay: "2 seconds",
      trimmedPosition: scenario.trimmedPosition
    })
    for (const { name, shards } of scenario.streams) yield* Effect.orDie(kinesis.createStream({ name, shards }))
    const faults = yield* Faults.make
    const truth = Truth.make()
    const counts: Watch.Counts = new Map()
    const { livenessTimeout } = scenario
    const leases = Leases.make({ elapsed, livenessTimeout, truth, journal })
    const deliveries = Deliveries.make({ elapsed, livenessTimeout, truth, leases, journal })
    const memory = yield* StateStore.makeMemory
    const store = Watch.stateStore(memory, { truth, leases, journal, counts })
    const tally: Tally = { records: 0, crashes: 0, rebalances: 0, reshards: 0, faults: 0 }
    const members: Stage["members"] = []
    const carrying = Network.make(world, world.process("network"), Chance.make(scenario.seed, "network"))
    let runs = 0

    const event = (member: Member.MemberProcess, event: KinesumerEvent) => {
      journal.note(() => `${member.spec.member} tells ${describe(event)}`)
      if (event._tag === "AssignmentChanged") tally.rebalances++
      if (event._tag === "LoopFailed") {
        journal.violation("P8", `${member.spec.member}: the ${event.loop} met a defect: ${Cause.pretty(event.cause)}`)
      }
    }

    return {
      scenario,
      world,
      main,
      kinesis,
      store: memory,
      faults,
      truth,
      leases,
      deliveries,
      journal,
      counts,
      tally,
      isSettling: false,
      members,
      start: (spec) =>
        Effect.gen(function*() {
          const number = members.length
          const process = world.process(`${spec.member}#${number}`, { wallClockSkew: spec.wallClockSkew })
          const member = yield* Member.make(spec, process)
          const link: Link = { store: { millis: scenario.latency }, kinesis: { millis: scenario.latency } }
          const label = labelOf(spec.member, number)
          const networked = Network.stateStore(store, carrying(link.store))
          const fiber = yield* Member.start(
            {
              scenario,
              elapsed,
              chance: Chance.make(scenario.seed, process.name),
              deliveries,
              journal,
              nextRun: () => ++runs,
              event
            },
            member,
            {
              kinesis: Watch.kinesis(
                faults.wrapKinesis(Network.kinesis(kinesis.client, carrying(link.kinesis)), label),
                { truth, leases, journal, counts, memberId: spec.member, incarnations: member.incarnations }
              ),
              store: faults.wrapStateStore({
                ...networked,
                registerMember: (app, row) =>
                  Effect.suspend(() => {
                    member.incarnations.add(row.incarnation)
                    return networked.registerMember(app, row)
                  })
              }, label)
            }
          )
          members.push({ member, link, fiber })
        })
    }
  })

/**
 * Processes that share an id have labels of their own, so that a fault can be about one of them.
 *
 * @internal
 */
export const labelOf = (memberId: string, number: number): string => `${memberId}#${number}`

const describe = (event: KinesumerEvent): string =>
  KinesumerEvents.match(event, {
    AssignmentChanged: ({ acquired, released }) =>
      `AssignmentChanged +${acquired.map(nameOf).join(",")} -${released.map(nameOf).join(",")}`,
    LeaseLost: (lost) => `LeaseLost ${nameOf(lost)} epoch ${lost.epoch}`,
    LeaseRestored: (restored) => `LeaseRestored ${nameOf(restored)} epoch ${restored.epoch}`,
    ShardEnded: (ended) => `ShardEnded ${nameOf(ended)}`,
    RecordsLost: (lost) => `RecordsLost ${nameOf(lost)} ${lost.reason}`,
    OutOfRangeDropped: (dropped) => `OutOfRangeDropped ${nameOf(dropped)} ${dropped.records}`,
    RecordSkipped: (skipped) => `RecordSkipped ${nameOf(skipped)} ${skipped.sequenceNumber}`,
    StreamRecreated: ({ stream }) => `StreamRecreated ${stream}`,
    Retrying: ({ error }) => `Retrying ${error.message}`,
    CommitFailed: ({ error }) => `CommitFailed ${error.message}`,
    SyncFailed: ({ error }) => `SyncFailed ${error.message}`,
    HeartbeatFailed: ({ error }) => `HeartbeatFailed ${error.message}`,
    DeliverySuspended: () => "DeliverySuspended",
    DeliveryResumed: () => "DeliveryResumed",
    MemberRegisteredAgain: () => "MemberRegisteredAgain",
    ProtocolFallback: () => "ProtocolFallback",
    LoopFailed: ({ loop }) => `LoopFailed ${loop}`,
    HandlerFailed: ({ attempt, sequenceNumber }) => `HandlerFailed ${sequenceNumber} attempt ${attempt}`,
    DeadLettered: ({ sequenceNumber }) => `DeadLettered ${sequenceNumber}`,
    CloseIncomplete: ({ cause, step }) => `CloseIncomplete ${step} ${Cause.pretty(cause)}`
  })

const nameOf = ({ shardId, stream }: { readonly stream: string; readonly shardId: string }): string =>
  `${stream}/${shardId.replace(/-0+/, "-")}`
