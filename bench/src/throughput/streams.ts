/** What is read: 64 shards full of records, of two sizes. */
export const region = "us-east-1"
export const credentials = { accessKeyId: "bench", secretAccessKey: "bench" }

export const shards = 64

export interface Kind {
  readonly stream: string
  /** The data of a record, in bytes. */
  readonly size: number
  readonly recordsAShard: number
}

export const small: Kind = { stream: "bytes200", size: 200, recordsAShard: 20_000 }
export const large: Kind = { stream: "bytes2k", size: 2_048, recordsAShard: 2_000 }

export const kinds: ReadonlyArray<Kind> = [small, large]

export const shardId = (index: number): string => `shardId-${`${index}`.padStart(12, "0")}`

/** Bytes of every kind. A few payloads serve all records: they are many. */
export const payloads = (size: number): ReadonlyArray<Uint8Array> =>
  Array.from(
    { length: 64 },
    (_, index) => Uint8Array.from({ length: size }, (_, place) => (index * 31 + place * 7) % 256)
  )

export const endpointOf = (port: number): string => `http://127.0.0.1:${port}`
