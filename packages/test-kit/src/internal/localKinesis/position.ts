import type { Position } from "@kinesumer/core/Position"
import * as Positions from "@kinesumer/core/Position"
import * as DateTime from "effect/DateTime"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as RecordLog from "../recordLog.js"
import type { TestShard } from "../testShard.js"
import type { WireError } from "./wireError.js"
import * as Wire from "./wireError.js"

/** @internal */
export const positionType = Schema.Literal(
  "AT_SEQUENCE_NUMBER",
  "AFTER_SEQUENCE_NUMBER",
  "AT_TIMESTAMP",
  "TRIM_HORIZON",
  "LATEST"
)

/**
 * The position that is asked for. The latest is after the newest record.
 *
 * @internal
 */
export const positionOf = (shard: TestShard, asked: {
  readonly type: typeof positionType.Type
  readonly sequenceNumber: string | undefined
  readonly time: number | undefined
}): Either.Either<Position, WireError> => {
  const { sequenceNumber, time, type } = asked
  switch (type) {
    case "TRIM_HORIZON":
      return Either.right(Positions.trimHorizon)
    case "LATEST": {
      const newest = RecordLog.at(shard.log, shard.log.next - 1)
      return Either.right(
        newest === undefined ? Positions.trimHorizon : Positions.afterSequence(newest.sequenceNumber)
      )
    }
    case "AT_TIMESTAMP":
      return time === undefined
        ? Either.left(Wire.invalidArgument("AT_TIMESTAMP needs a Timestamp"))
        : Either.right(Positions.atTimestamp(DateTime.unsafeMake(time)))
    case "AT_SEQUENCE_NUMBER":
    case "AFTER_SEQUENCE_NUMBER": {
      if (sequenceNumber === undefined) return Either.left(Wire.invalidArgument(`${type} needs a sequence number`))
      return Either.right(
        type === "AT_SEQUENCE_NUMBER"
          ? Positions.afterSequence(sequenceNumber, 0)
          : Positions.afterSequence(sequenceNumber)
      )
    }
  }
}
