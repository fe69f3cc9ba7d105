/** Where OpenSSL refuses MD5, as it does under FIPS, aggregates are told from other records all the same. */
import { assert, describe, it } from "@effect/vitest"
import type { KinesisClient } from "@kinesumer/core"
import type * as Crypto from "node:crypto"
import { vi } from "vitest"
import * as Aggregate from "../../src/internal/aggregate.js"
import { md5 } from "../../src/internal/md5.js"
import * as Aggregates from "../utils/aggregates.js"

const openssl = vi.hoisted(() => ({ refuses: false }))

vi.mock("node:crypto", async (original) => {
  const crypto = await original<typeof Crypto>()
  return {
    ...crypto,
    createHash: (algorithm: string) => {
      if (openssl.refuses) throw new Error("error:0308010C:digital envelope routines::unsupported")
      return crypto.createHash(algorithm)
    }
  }
})

const recordOf = (data: Uint8Array): KinesisClient.RawRecord => ({
  sequenceNumber: "49",
  partitionKey: "key",
  data,
  arrivalTime: undefined
})

const refusing = <A>(f: () => A): A => {
  openssl.refuses = true
  try {
    return f()
  } finally {
    openssl.refuses = false
  }
}

describe("without the MD5 of OpenSSL", () => {
  const data = Aggregates.of(["a", "b", "c"].map((data) => ({ data, partitionKey: data })))
  const damaged = Uint8Array.from(data)
  damaged[10] = (damaged[10] ?? 0) ^ 1

  it("the digest is the same", () => {
    for (const length of [0, 1, 55, 56, 64, 1_000]) {
      const bytes = new Uint8Array(length).fill(7)
      assert.deepStrictEqual([...refusing(() => md5(bytes))], [...md5(bytes)])
    }
  })

  it("an aggregate is taken apart, and a damaged one is none", () => {
    assert.deepStrictEqual(refusing(() => Aggregate.expand(recordOf(data))), Aggregate.expand(recordOf(data)))
    assert.strictEqual(refusing(() => Aggregate.expand(recordOf(data)))?.length, 3)
    assert.isUndefined(refusing(() => Aggregate.expand(recordOf(damaged))))
  })

  it("parts are dropped by the same hash keys", () => {
    const shard = {
      shardId: "shardId-000000000000",
      parents: [],
      hashKeyRange: { start: "0", end: `${2n ** 127n - 1n}` },
      closed: false
    }
    const parts = Aggregate.expand(recordOf(data)) ?? []
    const kept = Aggregate.within(parts, shard)
    assert.isTrue(kept.length > 0 && kept.length < parts.length)
    assert.deepStrictEqual(refusing(() => Aggregate.within(parts, shard)), kept)
  })
})
