/** What is seen once an hour. */
import { Schema } from "effect"

export const Sample = Schema.Struct({
  hour: Schema.Number,
  /** Bytes. */
  heap: Schema.Number,
  resident: Schema.Number,
  /** Records that wait, in all members. */
  buffered: Schema.Number,
  /** Shards that are run. */
  shards: Schema.Number,
  /** Rows of shards in the store. */
  rows: Schema.Number,
  /** Records that were handled so far. */
  records: Schema.Number
})

export type Sample = typeof Sample.Type
