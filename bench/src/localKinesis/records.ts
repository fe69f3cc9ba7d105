/** What is read. */
export const stream = "bench"
export const shardId = "shardId-000000000000"

/** The most that one GetRecords answers. */
export const pageSize = 10_000
export const pages = 10
export const count = pageSize * pages

const bytes = 200

/** Bytes of every kind, and no two records alike. */
export const make = (index: number) => ({
  partitionKey: `key-${index % 100}`,
  data: Uint8Array.from({ length: bytes }, (_, place) => (index * 31 + place * 7) % 256)
})
