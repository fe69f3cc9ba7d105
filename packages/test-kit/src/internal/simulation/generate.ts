/**
 * Scenarios from seeds. Every seed has its own mixture: most have few kinds of trouble, so that each is seen by itself.
 *
 * @internal
 */
import * as Chance from "./chance.js"
import type { Action, Consumer, Event, MemberSpec, Scenario, Trouble } from "./model.js"

type Kind = Action["_tag"]

const weights: Readonly<Record<Kind, number>> = {
  Put: 0,
  Join: 6,
  Leave: 4,
  Crash: 5,
  Double: 1,
  Stall: 4,
  Partition: 4,
  Trouble: 8,
  FalseEnds: 2,
  StaleLists: 2,
  ClockJump: 7,
  ForgetMember: 2,
  Reshard: 3,
  Split: 4,
  Merge: 4,
  ExpireIterators: 3,
  EndSubscriptions: 4,
  DeregisterConsumer: 1,
  EmptyPages: 2,
  Trim: 1,
  Refresh: 2,
  Pause: 3,
  SlowConsumer: 3,
  StuckConsumer: 3
}

const kinds = Object.keys(weights).filter((kind): kind is Kind => kind in weights)

const memberNames = ["a", "b", "c", "d"] as const

/** @internal */
export const generate = (seed: number): Scenario => {
  const chance = Chance.make(seed, "scenario")
  const { between, happens, pick } = chance
  const streams = (happens(0.4) ? ["orders", "payments"] : ["orders"]).map((name) => ({ name, shards: between(1, 3) }))
  const names = streams.map(({ name }) => name)
  const syncInterval = pick([1000, 2000])
  const livenessTimeout = syncInterval * between(3, 5)
  const horizon = between(30, 90) * 1000
  // Consumers that are behind all the time have much in the buffer whenever a shard moves.
  const busy = happens(0.2)

  const consumer = (): Consumer => ({
    view: happens(0.25) ? "shards" : "records",
    commit: happens(0.35) ? "manual" : "auto",
    handleMillis: busy ? 200 : happens(0.5) ? 0 : pick([20, 200]),
    failures: happens(0.2) ? 0.02 : 0,
    leaves: happens(0.5) ? "interrupted" : "closed"
  })
  const anyName = () => pick(memberNames)
  const anyStream = () => names[between(0, names.length - 1)] ?? "orders"
  const someStreams = () => {
    const some = names.filter(() => happens(0.6))
    return some.length === 0 ? [anyStream()] : some
  }
  const spec = (member: string): MemberSpec => ({
    member,
    streams: happens(0.85) ? names : someStreams(),
    consumer: consumer(),
    wallClockSkew: happens(0.3) ? between(-3_600_000, 3_600_000) : 0
  })
  const service = () => pick(["store", "kinesis"] as const)
  const trouble = (of: "store" | "kinesis"): Trouble => {
    const kind = of === "store"
      ? pick(["unavailable", "answerLost", "answerLost", "twice", "hangs", "slow", "throttled"] as const)
      : pick(["unavailable", "throttled", "answerLost", "hangs", "slow"] as const)
    return kind === "slow"
      ? { kind, millis: pick([300, 1500, 6000]) }
      : { kind, chance: pick([0.1, 0.3, 1]) }
  }
  const brief = () => pick([500, 2000, 5000])
  const long = () => pick([1, 2, 3]) * livenessTimeout

  const action = (kind: Kind): Action => {
    switch (kind) {
      case "Put":
        return {
          _tag: kind,
          stream: anyStream(),
          count: happens(busy ? 0.5 : 0.1) ? 60 : between(1, 12),
          bytes: pick([1, 10, 10, 2000])
        }
      case "Join":
        return { _tag: kind, ...spec(anyName()) }
      case "Leave":
      case "Double":
      case "ForgetMember":
        return { _tag: kind, member: anyName() }
      case "Crash":
        return {
          _tag: kind,
          member: anyName(),
          restartAfter: happens(0.6) ? pick([0, 500, 3000, 20_000]) : undefined
        }
      case "Stall":
        return { _tag: kind, member: anyName(), millis: happens(0.3) ? brief() : long() + brief() }
      case "Partition":
        return { _tag: kind, member: anyName(), from: service(), millis: happens(0.4) ? brief() : long() }
      case "Trouble": {
        const of = service()
        return {
          _tag: kind,
          service: of,
          member: happens(0.5) ? anyName() : undefined,
          trouble: trouble(of),
          millis: happens(0.6) ? brief() : long()
        }
      }
      case "FalseEnds":
        return { _tag: kind, chance: pick([0.1, 0.5]), millis: brief() * 3 }
      case "StaleLists":
        return { _tag: kind, millis: brief() * 4 }
      case "ClockJump":
        return { _tag: kind, member: anyName(), by: pick([-1, 1]) * between(1000, 100_000) }
      case "Reshard":
        return { _tag: kind, stream: anyStream(), count: between(1, 5) }
      case "Split":
      case "Merge":
        return { _tag: kind, stream: anyStream(), place: between(0, 7) }
      case "ExpireIterators":
        return { _tag: kind }
      case "EndSubscriptions":
        return { _tag: kind, stream: anyStream(), broken: happens(0.5) }
      case "DeregisterConsumer":
        return { _tag: kind, stream: anyStream() }
      case "EmptyPages":
        return { _tag: kind, stream: anyStream(), count: between(1, 4), atEnd: happens(0.5) }
      case "Trim":
        return { _tag: kind, stream: anyStream(), part: pick([0.3, 1]) }
      case "Refresh":
        return { _tag: kind, member: anyName(), streams: someStreams() }
      case "Pause":
        return { _tag: kind, member: anyName(), stream: anyStream(), millis: brief() * 2 }
      case "SlowConsumer":
        return { _tag: kind, member: anyName(), handleMillis: pick([100, 1000]), millis: brief() * 2 }
      case "StuckConsumer":
        return { _tag: kind, member: anyName(), millis: happens(0.5) ? brief() : long() }
    }
  }

  const used = kinds.filter(() => happens(0.5))
  const total = used.reduce((sum, kind) => sum + weights[kind], 0)
  const anyKind = (): Kind => {
    let left = between(1, Math.max(1, total))
    for (const kind of used) {
      left -= weights[kind]
      if (left <= 0) return kind
    }
    return "Put"
  }

  const events: Array<Event> = memberNames.slice(0, between(1, 3)).map((name) => ({
    at: happens(0.7) ? 0 : between(0, 5000),
    _tag: "Join",
    ...spec(name)
  }))
  for (let count = between(6, 25); count > 0; count--) events.push({ at: between(0, horizon), ...action("Put") })
  for (let count = between(2, 16); count > 0; count--) events.push({ at: between(0, horizon), ...action(anyKind()) })
  return {
    seed,
    mode: happens(0.4) ? "fanOut" : "polling",
    streams,
    startFrom: happens(0.6) ? "TrimHorizon" : "Latest",
    syncInterval,
    livenessTimeout,
    closeTimeout: pick([5000, 10_000, 20_000]),
    commitInterval: pick([500, 2000, 5000]),
    idleInterval: pick([1000, 2000]),
    bufferSize: pick([3, 20, 1000]),
    limit: pick([2, 10, 1000]),
    trimmedPosition: pick(["horizon", "refuse"]),
    pageSize: pick([1, 3, 1000]),
    latency: pick([20, 20, 300]),
    events: events.sort((one, other) => one.at - other.at),
    // Drawn last, so that the rest of a seed's scenario is what it was before there were aggregates.
    aggregation: happens(0.3) ? pick([2, 5, 40]) : undefined
  }
}
