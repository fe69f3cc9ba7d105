import type { KinesisError } from "@kinesumer/core/KinesisError"
import * as Either from "effect/Either"
import * as RateLimit from "../rateLimit.js"
import type { Where } from "../refusal.js"
import { refuse } from "../refusal.js"
import type { Server } from "../testServer.js"
import type { TestShard } from "../testShard.js"

const recordsASecond = 1000
const bytesASecond = 1024 * 1024

/** What was put into shards through the wire. The driver of a test has no limits. */
const windows = new WeakMap<TestShard, { readonly records: RateLimit.Window; readonly bytes: RateLimit.Window }>()

/**
 * Whether a shard takes one more record now.
 *
 * @internal
 */
export const admit = (
  server: Server,
  shard: TestShard,
  bytes: number,
  where: Where
): Either.Either<void, KinesisError> => {
  if (!server.limits) return Either.right(undefined)
  const window = windows.get(shard) ?? { records: RateLimit.window(), bytes: RateLimit.window() }
  windows.set(shard, window)
  const now = server.now()
  if (RateLimit.total(window.records, now) >= recordsASecond || RateLimit.total(window.bytes, now) >= bytesASecond) {
    return refuse(where, "Throttled", `More than 1,000 records or 1 MiB in a second for shard ${shard.shardId}`)
  }
  RateLimit.add(window.records, now, 1)
  RateLimit.add(window.bytes, now, bytes)
  return Either.right(undefined)
}
