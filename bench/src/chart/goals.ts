/** The figures of the benches that the chart shows, and what they are to be. */

export interface Goal {
  /** The name of the figure in the line of JSON. */
  readonly field: string
  readonly title: string
  /** What the number counts, in words that follow it. */
  readonly unit: string
  /** A figure without a goal is there for comparison. */
  readonly goal: number | undefined
  readonly better: "more" | "less"
}

export const goals: ReadonlyArray<Goal> = [
  {
    field: "vsSdk200",
    title: "Throughput, 200-byte records",
    unit: "times that of the SDK's loop",
    goal: 2,
    better: "more"
  },
  {
    field: "vsSdk2k",
    title: "Throughput, 2 KB records",
    unit: "times that of the SDK's loop",
    goal: undefined,
    better: "more"
  },
  {
    field: "vsLifion",
    title: "Throughput, 200-byte records",
    unit: "times that of lifion-kinesis",
    goal: 20,
    better: "more"
  },
  {
    field: "pipelineOverheadPercent",
    title: "Cost after the SDK's decoding",
    unit: "% of its throughput",
    goal: 5,
    better: "less"
  },
  {
    field: "assignMs",
    title: "Assigning 10,000 shards to 200 members",
    unit: "milliseconds",
    goal: 50,
    better: "less"
  },
  { field: "kbPerShard", title: "Memory of a shard, beyond its buffer", unit: "kilobytes", goal: 20, better: "less" },
  {
    field: "idleCores10k",
    title: "10,000 idle shards in one process",
    unit: "cores in use",
    goal: 0.5,
    better: "less"
  },
  {
    field: "idleWritesPerMemberHeartbeat",
    title: "Idle: writes to the store",
    unit: "a member and heartbeat",
    goal: 1,
    better: "less"
  },
  {
    field: "idleReadsPerMemberSync",
    title: "Idle: reads from the store",
    unit: "a member and sync",
    goal: 2,
    better: "less"
  },
  {
    field: "busyWritesPerShardInterval",
    title: "Busy: writes to the store",
    unit: "a shard and commit interval",
    goal: 1,
    better: "less"
  },
  { field: "joinSyncs", title: "From a join to balanced and reading", unit: "sync intervals", goal: 2, better: "less" },
  {
    field: "leaveSyncs",
    title: "From a leave to balanced and reading",
    unit: "sync intervals",
    goal: 2,
    better: "less"
  },
  {
    field: "crashSyncsAfterLiveness",
    title: "From a crash to balanced and reading",
    unit: "sync intervals after the liveness timeout",
    goal: 2,
    better: "less"
  },
  { field: "movedRatio", title: "Shards moved", unit: "times the least possible", goal: 1, better: "less" },
  {
    field: "growthPercent",
    title: "Growth of memory in a day",
    unit: "% of resident memory, or of the heap",
    goal: 5,
    better: "less"
  }
]

export const isMet = ({ better, goal }: Goal, value: number): boolean =>
  goal === undefined || (better === "more" ? value >= goal : value <= goal)
