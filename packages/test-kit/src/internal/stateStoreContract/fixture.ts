/** What the cases of the contract have in common: names, short constructors, and plain forms to compare. */
import { assert } from "@effect/vitest"
import * as Position from "@kinesumer/core/Position"
import type * as Shard from "@kinesumer/core/Shard"
import * as StateStore from "@kinesumer/core/StateStore"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import type { Case } from "../../StateStoreContract.js"

type Store = StateStore.StateStore["Type"]

/** A case in its own app, so that many can run against one table, again and again and at the same time. */
export const makeCase = <E>(name: string, run: (store: Store, app: string) => Effect.Effect<void, E>): Case => ({
  name,
  program: Effect.gen(function*() {
    yield* run(yield* StateStore.StateStore, yield* newApp)
  })
})

export const newApp: Effect.Effect<string> = Effect.map(
  Random.nextIntBetween(0, Number.MAX_SAFE_INTEGER),
  (n) => `contract-${n.toString(36)}`
)

export const stream = "orders"

export const ownerOf = (memberId: string, incarnation = "1"): StateStore.Owner => ({ memberId, incarnation })

export const alice = ownerOf("alice")
export const bob = ownerOf("bob")

export const memberOf = (
  memberId: string,
  options?: { readonly incarnation?: string; readonly heartbeat?: number }
): StateStore.Member => ({
  memberId,
  incarnation: options?.incarnation ?? "1",
  heartbeat: options?.heartbeat ?? 0,
  refreshes: 0,
  streams: [stream],
  assignVersion: 1
})

export const requestOf = (
  shardId: string,
  options?: {
    readonly stream?: string
    /** The dead owner, under the epoch that it was seen under: 1 where none is given. */
    readonly takeFrom?: StateStore.Owner & { readonly epoch?: number | undefined } | undefined
    readonly epochAbove?: number
  }
): StateStore.LeaseRequest => ({
  stream: options?.stream ?? stream,
  shardId,
  takeFrom: Option.map(
    Option.fromNullable(options?.takeFrom),
    ({ epoch, incarnation, memberId }) => ({ memberId, incarnation, epoch: epoch ?? 1 })
  ),
  epochAbove: options?.epochAbove ?? 0
})

export const leaseOf = (checkpoint: StateStore.Checkpoint): StateStore.Lease => ({
  stream,
  shardId: checkpoint.shardId,
  epoch: checkpoint.epoch
})

export const shardOf = (shardId: string, options?: Partial<Omit<Shard.Shard, "shardId">>): Shard.Shard => ({
  shardId,
  parents: options?.parents ?? [],
  hashKeyRange: options?.hashKeyRange ?? { start: "0", end: "340282366920938463463374607431768211455" },
  closed: options?.closed ?? false
})

export const shardListOf = (
  version: number,
  options?: Partial<Omit<StateStore.ShardList, "version">>
): StateStore.ShardList => ({
  version,
  createdAt: options?.createdAt ?? 1_700_000_000_000,
  checkpointKey: options?.checkpointKey ?? stream,
  start: options?.start ?? Position.trimHorizon,
  shards: options?.shards ?? [shardOf("shard-0")]
})

export const timestamp = (millis: number): Position.Position => Position.atTimestamp(DateTime.unsafeMake(millis))

// --- Asking for one ---

export const acquireOne = Effect.fnUntraced(
  function*(store: Store, app: string, owner: StateStore.Owner, request: StateStore.LeaseRequest) {
    return only(yield* store.acquireLeases(app, owner, [request]))
  }
)

export const commitOne = Effect.fnUntraced(
  function*(
    store: Store,
    app: string,
    owner: StateStore.Owner,
    lease: StateStore.Lease,
    position: Position.Position
  ) {
    return only(yield* store.commitCheckpoints(app, owner, [{ ...lease, position }]))
  }
)

/** A lease that must be granted. */
export const lease = Effect.fnUntraced(
  function*(
    store: Store,
    app: string,
    owner: StateStore.Owner,
    shardId: string,
    options?: Parameters<typeof requestOf>[1]
  ) {
    return leaseOf(acquired(yield* acquireOne(store, app, owner, requestOf(shardId, options))))
  }
)

export const rowOf = Effect.fnUntraced(function*(store: Store, app: string, shardId: string) {
  const rows = yield* store.listCheckpoints(app, stream)
  return Option.fromNullable(rows.find((row) => row.shardId === shardId))
})

// --- Comparing ---

export const only = <A>(answers: ReadonlyArray<A>): A => {
  const [answer, ...more] = answers
  if (answer === undefined || more.length > 0) {
    return assert.fail(`expected one answer for one request, got ${answers.length}`)
  }
  return answer
}

export const acquired = (result: StateStore.AcquireResult): StateStore.Checkpoint =>
  result._tag === "Acquired" ? result.checkpoint : assert.fail(`expected Acquired, got ${JSON.stringify(result)}`)

export const some = <A>(option: Option.Option<A>): A =>
  Option.getOrElse(option, () => assert.fail("expected a value, got none"))

/** Values without classes, so that a difference is shown field by field and it does not matter how a store builds them. */
export const plainPosition = (position: Position.Position) =>
  Position.match(position, {
    TrimHorizon: () => "TrimHorizon",
    ShardEnd: () => "ShardEnd",
    AtTimestamp: ({ timestamp }) => `at ${timestamp.epochMillis}`,
    AfterSequence: ({ sequenceNumber, subSequenceNumber }) =>
      subSequenceNumber === undefined ? `after ${sequenceNumber}` : `after ${sequenceNumber}, part ${subSequenceNumber}`
  })

export const plainRow = ({ epoch, owner, position, shardId }: StateStore.Checkpoint) => ({
  shardId,
  position: Option.getOrNull(Option.map(position, plainPosition)),
  owner: Option.getOrNull(Option.map(owner, ({ incarnation, memberId }) => `${memberId} (${incarnation})`)),
  epoch
})

export const plainMember = (
  { assignVersion, heartbeat, incarnation, memberId, refreshes, streams }: StateStore.Member
) => ({ memberId, incarnation, heartbeat, refreshes, streams: [...streams].sort(), assignVersion })

export const plainList = ({ checkpointKey, createdAt, shards, start, version }: StateStore.ShardList) => ({
  version,
  createdAt,
  checkpointKey,
  start: plainPosition(start),
  shards: shards.map(({ closed, hashKeyRange: { end, start }, parents, shardId }) => ({
    shardId,
    parents: [...parents],
    hashKeyRange: { start, end },
    closed
  })).sort((self, that) => compareText(self.shardId, that.shardId))
})

export const plainRows = (rows: ReadonlyArray<StateStore.Checkpoint>) =>
  rows.map(plainRow).sort((self, that) => compareText(self.shardId, that.shardId))

export const plainMembers = (members: ReadonlyArray<StateStore.Member>) =>
  members.map(plainMember).sort((self, that) => compareText(self.memberId, that.memberId))

/** An answer with its row in plain form; a `Failed` one is never what a case expects. */
export const plainAnswer = (
  answer: StateStore.AcquireResult | StateStore.CommitResult
): { readonly answer: string; readonly row?: ReturnType<typeof plainRow> } =>
  answer._tag === "Failed"
    ? assert.fail(answer.error.message)
    : "checkpoint" in answer
    ? { answer: answer._tag, row: plainRow(answer.checkpoint) }
    : { answer: answer._tag }

const compareText = (self: string, that: string): number => self < that ? -1 : self > that ? 1 : 0
