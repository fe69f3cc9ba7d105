/** Where a record is on its way, by the function that runs. */
import type { Frame } from "./profile.js"

export const stages = ["expand", "cursor", "queue", "stream", "mark", "commit", "control", "effect", "gc"] as const

export type Stage = typeof stages[number]

const modules: Readonly<Record<string, Stage>> = {
  content: "expand",
  aggregate: "expand",
  page: "expand",
  answers: "expand",
  deliveredRecord: "expand",
  lane: "cursor",
  budget: "queue",
  signal: "queue",
  pollingReader: "queue",
  readerSteps: "queue",
  delivery: "stream",
  committer: "commit",
  tableStateStore: "commit",
  memoryRows: "commit",
  leaseRules: "commit",
  storedRows: "commit"
}

/** These serve every stage: whoever calls them is meant. */
const shared = new Set(["monotonic", "environment", "run"])

const marking = /^(mark|markInterval|insert|firstIndex|intervalOf|after|isSettled|isFinished|toCommit)$/

const internal = /\/core\/dist\/internal\/(\w+)\.js$/
const own = /\/bench\/dist\//

/** The stage of the innermost function that has one. */
export const stageOf = (stack: ReadonlyArray<Frame>): Stage | undefined => {
  if (stack[0]?.functionName === "(garbage collector)") return "gc"
  if (stack[0]?.functionName === "(idle)") return undefined
  for (const { functionName, url } of stack) {
    const name = internal.exec(url)?.[1]
    if (name !== undefined && !shared.has(name)) {
      const stage = modules[name] ?? "control"
      return (stage === "cursor" || stage === "stream" || stage === "expand") && marking.test(functionName)
        ? "mark"
        : stage
    }
    // The handler, and the Kinesis that it is tried with.
    if (own.test(url)) return undefined
  }
  return "effect"
}
