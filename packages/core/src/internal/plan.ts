/**
 * What one sync has to change, computed from what it has read. Pure: nothing is asked for, started or stopped here.
 */
import * as Option from "effect/Option"
import type { Shard } from "../Shard.js"
import type { Checkpoint, Lease, LeaseRequest, Member, Owner, ShardList } from "../StateStore.js"
import * as Assign from "./assign.js"
import * as Lineage from "./lineage.js"
import * as Run from "./run.js"
import { isEnded } from "./shardLists.js"
import type { StreamState } from "./streams.js"

/** A stream of the group. */
export interface View {
  readonly key: string
  readonly list: ShardList
  readonly rows: ReadonlyMap<string, Checkpoint>
}

/** A stream that this member reads. */
export interface StreamView extends View {
  readonly stream: StreamState
}

export interface Acquisition {
  readonly key: string
  readonly stream: StreamState
  readonly list: ShardList
  readonly shard: Shard
  readonly request: LeaseRequest
  /** The run to go on from, where the row of a running shard has vanished. */
  readonly resume: Option.Option<Run.Run>
}

export interface Plan {
  readonly acquire: ReadonlyArray<Acquisition>
  readonly stop: ReadonlyArray<Run.Run>
  /** Runs whose lease is somebody else's, with the row that says so. */
  readonly lost: ReadonlyArray<readonly [Run.Run, Checkpoint]>
  /** Runs whose end is written, in a commit whose answer was lost. */
  readonly ended: ReadonlyArray<Run.Run>
  /** Leases that the store holds for us and that nothing here runs. */
  readonly strays: ReadonlyArray<Lease>
  /** Something is still to come: a lease that another member holds, or a hand-over of our own. */
  readonly pending: boolean
}

export const make = (input: {
  readonly self: Owner
  readonly live: ReadonlyArray<Member>
  readonly streams: ReadonlyArray<StreamView>
  /** Streams that only others read. They count for the balance, so that all members compute the same target. */
  readonly others: ReadonlyArray<View>
  readonly running: ReadonlyMap<string, Run.Run>
  readonly leaving: ReadonlyMap<string, Run.Run>
  /** Others may take this member for dead: what it keeps it asks for again, under later epochs. */
  readonly renew: boolean
  readonly isDead: (owner: Owner) => boolean
}): Plan => {
  const { isDead, leaving, live, others, renew, running, self, streams } = input
  const isLive = new Set(live.map(({ memberId }) => memberId))

  const shards: Array<Assign.AssignShard> = []
  const owners = new Map<string, string>()
  for (const view of [...streams, ...others]) {
    for (const [key, shard] of eligible(view)) {
      shards.push({ key, stream: view.key })
      // A shard that we run is ours, even where its row has vanished.
      const owner = running.has(key) ? self.memberId : Option.getOrUndefined(ownerOf(view, shard.shardId))?.memberId
      if (owner !== undefined && isLive.has(owner)) owners.set(key, owner)
    }
  }

  const target = Assign.assign({
    members: live.map(({ memberId, streams }) => ({ memberId, streams: new Set(streams) })),
    shards,
    owners
  })

  const candidates = new Map(
    streams.flatMap((view) => eligible(view).map(([key, shard]) => [key, { view, shard }] as const))
  )
  const acquire: Array<Acquisition> = []
  const stop: Array<Run.Run> = []
  const lost: Array<readonly [Run.Run, Checkpoint]> = []
  let pending = false

  for (const [key, { shard, view }] of candidates) {
    const row = view.rows.get(shard.shardId)
    const run = running.get(key)
    const isWanted = target.get(key) === self.memberId
    if (run !== undefined) {
      switch (standing(run, row, self)) {
        case "Lost":
          if (row !== undefined) lost.push([run, row])
          break
        case "Vanished":
          acquire.push(acquisition(view, shard, key, row, Option.some(run), renew))
          // With the lease restored, it is handed over in the next round.
          if (!isWanted) pending = true
          break
        case "Held":
          if (!isWanted) stop.push(run)
          else if (renew) acquire.push(acquisition(view, shard, key, row, Option.some(run), renew))
      }
    } else if (isWanted) {
      const owner = ownerOf(view, shard.shardId)
      if (leaving.has(key) || Option.exists(owner, (one) => one.memberId !== self.memberId && !isDead(one))) {
        pending = true
      } else {
        acquire.push(acquisition(view, shard, key, row, Option.none(), renew))
      }
    }
  }
  const rowsOf = new Map(streams.map(({ list, rows }) => [list.checkpointKey, rows]))
  const ended: Array<Run.Run> = []
  for (const [key, run] of running) {
    if (candidates.has(key)) continue
    const row = rowsOf.get(run.checkpointKey)?.get(run.shard.shardId)
    if (row !== undefined && isEndedBy(row, run)) {
      ended.push(run)
    } else {
      stop.push(run)
    }
  }

  const acquired = new Set(acquire.map(({ key }) => key))
  const strays = streams.flatMap((view) =>
    [...view.rows.values()].filter((row) => {
      const key = Run.keyOf(view.list.checkpointKey, row.shardId)
      return Option.exists(row.owner, (owner) => isSame(owner, self)) && !running.has(key) && !leaving.has(key) &&
        !acquired.has(key)
    }).map((row): Lease => ({ stream: view.list.checkpointKey, shardId: row.shardId, epoch: row.epoch }))
  )
  return { acquire, stop, lost, ended, strays, pending }
}

/** The end gives the lease back, so a row without an owner that has still the run's epoch holds the run's own write. */
const isEndedBy = (row: Checkpoint, run: Run.Run): boolean =>
  isEnded(row) && Option.isNone(row.owner) && row.epoch === run.epoch

const eligible = ({ list, rows }: View): ReadonlyArray<readonly [key: string, shard: Shard]> => {
  const ended = new Set([...rows.values()].filter(isEnded).map(({ shardId }) => shardId))
  return Lineage.eligible(list.shards, ended).map((shard) => [Run.keyOf(list.checkpointKey, shard.shardId), shard])
}

const ownerOf = (view: View, shardId: string): Option.Option<Owner> =>
  Option.flatMap(Option.fromNullable(view.rows.get(shardId)), ({ owner }) => owner)

const isSame = (self: Owner, that: Owner): boolean =>
  self.memberId === that.memberId && self.incarnation === that.incarnation

/**
 * What the row says of a run. A row that is not there, that knows only earlier epochs because it was restored, or that
 * gives the run's epoch to another owner, has forgotten the run: its lease is asked for anew, also from an owner to whom
 * it was granted in ignorance. A later epoch is another owner's.
 */
export const standing = (
  run: Run.Run,
  row: Checkpoint | undefined,
  self: Owner
): "Held" | "Vanished" | "Lost" => {
  if (row === undefined || row.epoch < run.epoch) return "Vanished"
  if (Option.isNone(row.owner)) return "Lost"
  // A later epoch of our own is an acquisition that was granted, in a round that failed all the same.
  if (row.epoch > run.epoch) return isSame(row.owner.value, self) ? "Vanished" : "Lost"
  return isSame(row.owner.value, self) ? "Held" : "Vanished"
}

const acquisition = (
  view: StreamView,
  shard: Shard,
  key: string,
  row: Checkpoint | undefined,
  resume: Option.Option<Run.Run>,
  renew: boolean
): Acquisition => ({
  key,
  stream: view.stream,
  list: view.list,
  shard,
  resume,
  request: {
    stream: view.list.checkpointKey,
    shardId: shard.shardId,
    takeFrom: Option.flatMap(
      Option.fromNullable(row),
      ({ epoch, owner }) => Option.map(owner, ({ incarnation, memberId }) => ({ incarnation, memberId, epoch }))
    ),
    // An epoch that a round took which failed may have been seen by others since.
    epochAbove: Math.max(
      Option.match(resume, { onNone: () => 0, onSome: ({ epoch }) => epoch }),
      renew && row !== undefined ? row.epoch : 0
    )
  }
})
