/**
 * The rows of the table. The keys, `last_update`, `sequence_number` and `shards` are those of the Go library; the other
 * attributes are ours, and a row without them reads as one that the Go library wrote.
 */
import type { AttributeValue } from "@aws-sdk/client-dynamodb"
import * as Position from "@kinesumer/core/Position"
import * as SequenceNumber from "@kinesumer/core/SequenceNumber"
import type * as StateStore from "@kinesumer/core/StateStore"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import type { Decoded, Item, Key } from "./attributes.js"
import { getCount, getNumber, getText, getTexts, list, malformed, number, text } from "./attributes.js"

// A name of a Kinesis stream has no `#`, so the Go library's keys are kept; a stream key that has one is escaped, and
// whatever an app is called, no two of them share a partition.
const escape = (stream: string): string => stream.replaceAll("%", "%25").replaceAll("#", "%23")

/** @internal */
export const membersPk = (app: string): string => `client#${app}`

/** @internal */
export const checkpointsPk = (app: string, stream: string): string => `check_point#${app}#${escape(stream)}`

/** @internal */
export const listsPk = (app: string): string => `shard_list#${app}`

/** @internal */
export const chunksPk = (app: string, stream: string): string => `shard_chunk#${app}#${escape(stream)}`

/** @internal */
export const goShardsPk = (app: string): string => `shard_cache#${app}`

/** @internal */
export const memberKey = (app: string, memberId: string): Key => ({ pk: membersPk(app), sk: memberId })

/** @internal */
export const checkpointKey = (app: string, stream: string, shardId: string): Key => ({
  pk: checkpointsPk(app, stream),
  sk: shardId
})

/**
 * For people who look at the table; nothing is decided by it. Text, as the index of Go's tables needs it.
 *
 * @internal
 */
export const lastUpdate: Effect.Effect<AttributeValue> = Effect.map(
  DateTime.now,
  (now) => text(DateTime.formatIso(now))
)

/** @internal */
export const encodeMember = (app: string, member: StateStore.Member, now: AttributeValue): Item => ({
  pk: text(membersPk(app)),
  sk: text(member.memberId),
  last_update: now,
  incarnation: text(member.incarnation),
  heartbeat: number(member.heartbeat),
  refreshes: number(member.refreshes),
  streams: list(member.streams.map(text)),
  assign_version: number(member.assignVersion)
})

/**
 * The incarnation in a member's row; `none` in a row that the Go library wrote.
 *
 * @internal
 */
export const decodeIncarnation = (item: Item): Decoded<Option.Option<string>> =>
  item["incarnation"] === undefined
    ? Either.right(Option.none())
    : Either.map(getText(item, "incarnation"), Option.some)

/** @internal */
export const decodeMember = (item: Item): Decoded<StateStore.Member> =>
  Either.gen(function*() {
    return {
      memberId: yield* getText(item, "sk"),
      incarnation: yield* getText(item, "incarnation"),
      heartbeat: yield* getCount(item, "heartbeat"),
      refreshes: yield* getCount(item, "refreshes"),
      streams: yield* getTexts(item, "streams"),
      assignVersion: yield* getCount(item, "assign_version")
    }
  })

/**
 * The attributes that a position means to set, and those of another kind of position that it replaces.
 *
 * @internal
 */
export const encodePosition = (
  position: Position.Position
): { readonly set: Item; readonly remove: ReadonlyArray<string> } => {
  switch (position._tag) {
    case "TrimHorizon":
      return { set: { position_type: text("TRIM_HORIZON") }, remove: [] }
    case "AtTimestamp":
      return {
        set: { position_type: text("AT_TIMESTAMP"), at_timestamp: number(position.timestamp.epochMillis) },
        remove: []
      }
    case "AfterSequence": {
      const set = { position_type: text("AFTER_SEQUENCE"), sequence_number: text(position.sequenceNumber) }
      return position.subSequenceNumber === undefined
        ? { set, remove: ["sub_sequence_number"] }
        : { set: { ...set, sub_sequence_number: number(position.subSequenceNumber) }, remove: [] }
    }
    case "ShardEnd":
      // The last sequence number stays: the Go library goes on from it.
      return { set: { position_type: text("SHARD_END") }, remove: [] }
  }
}

const decodeAfterSequence = (item: Item): Decoded<Position.Position> =>
  Either.gen(function*() {
    const sequenceNumber = yield* getText(item, "sequence_number")
    if (!SequenceNumber.isSequenceNumber(sequenceNumber)) {
      return yield* malformed(item, "sequence_number", "a decimal number without leading zeros")
    }
    return Position.afterSequence(
      sequenceNumber,
      item["sub_sequence_number"] === undefined ? undefined : yield* getCount(item, "sub_sequence_number")
    )
  })

/** @internal */
export const decodePosition = (item: Item): Decoded<Option.Option<Position.Position>> =>
  Either.gen(function*() {
    if (item["position_type"] === undefined) {
      // The Go library's row: a sequence number, or none (absent, null or empty) where nothing was read yet.
      const sequenceNumber = item["sequence_number"]
      return sequenceNumber === undefined || sequenceNumber.NULL === true || sequenceNumber.S === ""
        ? Option.none()
        : Option.some(yield* decodeAfterSequence(item))
    }
    switch (yield* getText(item, "position_type")) {
      case "TRIM_HORIZON":
        return Option.some(Position.trimHorizon)
      case "AT_TIMESTAMP": {
        const timestamp = DateTime.make(yield* getNumber(item, "at_timestamp"))
        return Option.isNone(timestamp)
          ? yield* malformed(item, "at_timestamp", "a moment in milliseconds")
          : Option.some(Position.atTimestamp(timestamp.value))
      }
      case "AFTER_SEQUENCE":
        return Option.some(yield* decodeAfterSequence(item))
      case "SHARD_END":
        return Option.some(Position.shardEnd)
      default:
        return yield* malformed(item, "position_type", "TRIM_HORIZON, AT_TIMESTAMP, AFTER_SEQUENCE or SHARD_END")
    }
  })

const decodeOwner = (item: Item): Decoded<Option.Option<StateStore.Owner>> =>
  Either.gen(function*() {
    if (item["lease_owner"] === undefined) return Option.none()
    return Option.some({
      memberId: yield* getText(item, "lease_owner"),
      incarnation: yield* getText(item, "lease_incarnation")
    })
  })

/** @internal */
export const decodeCheckpoint = (item: Item): Decoded<StateStore.Checkpoint> =>
  Either.gen(function*() {
    if (item["order_key"] !== undefined) yield* getText(item, "order_key")
    return {
      shardId: yield* getText(item, "sk"),
      position: yield* decodePosition(item),
      owner: yield* decodeOwner(item),
      epoch: item["lease_epoch"] === undefined ? 0 : yield* getCount(item, "lease_epoch")
    }
  })
