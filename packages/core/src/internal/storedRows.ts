/** How rows are written as text: JSON with a format number, a generation, and the names that the rows belong to. */
import * as Schema from "effect/Schema"
import * as Position from "../Position.js"
import * as SequenceNumber from "../SequenceNumber.js"
import type * as StateStore from "../StateStore.js"

const Count = Schema.NonNegativeInt

const PlainPosition = Schema.Union(
  Schema.TaggedStruct("TrimHorizon", {}),
  Schema.TaggedStruct("AtTimestamp", { timestamp: Schema.DateTimeUtcFromNumber }),
  Schema.TaggedStruct("AfterSequence", {
    sequenceNumber: Schema.String.pipe(Schema.filter(SequenceNumber.isSequenceNumber, {
      message: () => "Expected the decimal digits of a sequence number"
    })),
    subSequenceNumber: Schema.UndefinedOr(Count)
  }),
  Schema.TaggedStruct("ShardEnd", {})
)

const StoredPosition = Schema.transform(PlainPosition, Schema.declare(Schema.is(Schema.typeSchema(PlainPosition))), {
  strict: true,
  // Through the constructors, so that what is read equals what was written.
  decode: (position): Position.Position =>
    Position.match(position, {
      TrimHorizon: () => Position.trimHorizon,
      AtTimestamp: ({ timestamp }) => Position.atTimestamp(timestamp),
      AfterSequence: ({ sequenceNumber, subSequenceNumber }) =>
        Position.afterSequence(sequenceNumber, subSequenceNumber),
      ShardEnd: () => Position.shardEnd
    }),
  encode: (position) => position
})

const Owner = Schema.Struct({ memberId: Schema.String, incarnation: Schema.String })

const Member = Schema.Struct({
  ...Owner.fields,
  heartbeat: Count,
  refreshes: Count,
  streams: Schema.Array(Schema.String),
  assignVersion: Schema.Int
})

const ShardList = Schema.Struct({
  version: Count,
  createdAt: Schema.Number,
  checkpointKey: Schema.String,
  start: StoredPosition,
  shards: Schema.Array(Schema.Struct({
    shardId: Schema.String,
    parents: Schema.Array(Schema.String),
    hashKeyRange: Schema.Struct({ start: Schema.String, end: Schema.String }),
    closed: Schema.Boolean
  }))
})

const Checkpoint = Schema.Struct({
  shardId: Schema.String,
  position: Schema.OptionFromNullOr(StoredPosition),
  owner: Schema.OptionFromNullOr(Owner),
  epoch: Count
})

/** Some rows of one partition, by their keys. */
export interface StoredRows<A> {
  readonly format: 1
  /** Grows with every write. */
  readonly generation: number
  readonly partition: ReadonlyArray<string>
  readonly rows: ReadonlyMap<string, A>
}

const storedRows = <A, I>(row: Schema.Schema<A, I>): Schema.Schema<StoredRows<A>, string> =>
  Schema.parseJson(Schema.Struct({
    format: Schema.Literal(1),
    generation: Count,
    partition: Schema.Array(Schema.String),
    rows: Schema.ReadonlyMap({ key: Schema.String, value: row })
  }))

export const members: Schema.Schema<StoredRows<StateStore.Member>, string> = storedRows(Member)
export const shardLists: Schema.Schema<StoredRows<StateStore.ShardList>, string> = storedRows(ShardList)
export const checkpoints: Schema.Schema<StoredRows<StateStore.Checkpoint>, string> = storedRows(Checkpoint)

const head = "{\"format\":"

/**
 * Whether a text is what an interrupted write leaves behind: nothing, only a beginning, or a beginning and then zeros.
 * None of these is whole JSON. Anything else that cannot be read was written by somebody else.
 */
export const isTorn = (text: string): boolean => {
  const written = text.replace(/\0+$/, "")
  return head.startsWith(written) || (written.startsWith(head) && !isJson(text))
}

const isJson = (text: string): boolean => {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
