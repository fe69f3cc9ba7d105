/** What the processor does and what is allocated meanwhile, by the nearest function of ours on the stack. */
import { Effect } from "effect"
import { Session } from "node:inspector/promises"

/** A function, as profiles have it. */
export interface Frame {
  readonly functionName: string
  readonly url: string
}

/** For each stack the amount, of microseconds or of bytes; innermost function first. */
export type Profile = ReadonlyArray<{ readonly stack: ReadonlyArray<Frame>; readonly amount: number }>

export interface Profiles {
  readonly micros: Profile
  readonly bytes: Profile
}

interface Node<N> {
  readonly callFrame: Frame
  readonly children?: ReadonlyArray<N>
}

const flatten = <N extends Node<N>>(root: N, amountOf: (node: N) => number): Profile => {
  const entries: Array<Profile[number]> = []
  const walk = (node: N, outer: ReadonlyArray<Frame>): void => {
    const stack = [node.callFrame, ...outer]
    const amount = amountOf(node)
    if (amount > 0) entries.push({ stack, amount })
    for (const child of node.children ?? []) walk(child, stack)
  }
  walk(root, [])
  return entries
}

interface AllocationNode extends Node<AllocationNode> {
  readonly selfSize: number
}

interface TimeNode extends Node<TimeNode> {
  readonly id: number
}

/** Runs an effect twice: a profile of one kind would show what the other costs. */
export const run = <E>(effect: Effect.Effect<unknown, E>): Effect.Effect<Profiles, E> =>
  Effect.acquireUseRelease(
    Effect.sync(() => {
      const session = new Session()
      session.connect()
      return session
    }),
    (session) =>
      Effect.gen(function*() {
        yield* Effect.promise(async () => {
          await session.post("Profiler.enable")
          await session.post("Profiler.setSamplingInterval", { interval: 250 })
          await session.post("Profiler.start")
        })
        yield* effect
        const { profile } = yield* Effect.promise(() => session.post("Profiler.stop"))
        const micros = new Map<number, number>()
        profile.samples?.forEach((id, index) => {
          micros.set(id, (micros.get(id) ?? 0) + (profile.timeDeltas?.[index] ?? 0))
        })
        const nodes = new Map(profile.nodes.map((node) => [node.id, node]))
        const treeOf = (id: number): TimeNode => {
          const node = nodes.get(id)
          return {
            id,
            callFrame: node?.callFrame ?? { functionName: "", url: "" },
            children: (node?.children ?? []).map(treeOf)
          }
        }
        const root = profile.nodes[0]?.id ?? NaN
        yield* Effect.promise(async () => {
          await session.post("HeapProfiler.enable")
          // What is gone by the end was allocated too.
          await session.post("HeapProfiler.startSampling", {
            samplingInterval: 16_384,
            ...{ includeObjectsCollectedByMajorGC: true, includeObjectsCollectedByMinorGC: true }
          })
        })
        yield* effect
        const { profile: heap } = yield* Effect.promise(() => session.post("HeapProfiler.stopSampling"))
        return {
          micros: flatten(treeOf(root), ({ id }) => micros.get(id) ?? 0),
          bytes: flatten<AllocationNode>(heap.head, ({ selfSize }) => selfSize)
        }
      }),
    (session) => Effect.sync(() => session.disconnect())
  )
