/** What a member in a process of its own tells of itself, line by line, with the time in milliseconds. */
import { Schema } from "effect"

export const Told = Schema.Union(
  Schema.TaggedStruct("Starting", { at: Schema.Number }),
  /** Kinesis has answered its `GetRecords`, for the first time since it asked for an iterator. */
  Schema.TaggedStruct("Answered", { at: Schema.Number, stream: Schema.String, shardId: Schema.String }),
  Schema.TaggedStruct("Delivered", {
    at: Schema.Number,
    stream: Schema.String,
    shardId: Schema.String,
    sequenceNumber: Schema.String,
    latency: Schema.Number
  })
)

export type Told = typeof Told.Type
