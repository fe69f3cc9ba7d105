/** A group begins, and is joined, left and hit by a crash, each when it has come to rest. */
import { Effect, Random } from "effect"
import type { BenchFailed } from "../bench.js"
import * as Change from "./change.js"
import { type Group, type Member, syncSeconds } from "./group.js"

export const kinds = ["join", "leave", "crash"] as const

export type Kind = (typeof kinds)[number]

export type Outcomes = Readonly<Record<Kind, Change.Outcome>>

/** Members sync each at their own time, and what happens comes at any time. */
const anyMoment = (random: Random.Random) => random.nextIntBetween(0, syncSeconds * 1000)

const restSyncs = 5

export const run = (group: Group, members: number, seed: string): Effect.Effect<Outcomes, BenchFailed> =>
  Effect.gen(function*() {
    const random = Random.make(seed)
    const pause = Effect.flatMap(anyMoment(random), group.elapse)
    const started: Array<Member> = []
    for (let index = 0; index < members; index++) {
      started.push(yield* group.start(`member-${index}`))
      yield* pause
    }
    yield* group.elapse(`${restSyncs * syncSeconds} seconds`)

    const names = (of: ReadonlyArray<Member>) => of.map(({ memberId }) => memberId)
    const newcomer = `member-${members}`
    yield* pause
    const join = yield* Change.measure(group, {
      members: [...names(started), newcomer],
      isCrash: false,
      begin: Effect.map(group.start(newcomer), (member) => {
        started.push(member)
        return member.startedAt
      })
    })

    /** Any of them, the leader too. */
    const without = (isCrash: boolean, end: (member: Member) => Effect.Effect<void, BenchFailed>) =>
      Effect.gen(function*() {
        yield* pause
        const [member] = started.splice(yield* random.nextIntBetween(0, started.length), 1)
        return yield* Change.measure(group, {
          members: names(started),
          isCrash,
          begin: Effect.zipLeft(group.now, member === undefined ? Effect.void : end(member))
        })
      })
    return {
      join,
      leave: yield* without(false, ({ leave }) => leave),
      crash: yield* without(true, ({ crash }) => crash)
    }
  })
