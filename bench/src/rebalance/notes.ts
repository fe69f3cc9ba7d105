/** What is seen of a group from outside: who reads which shard since when, and when which record has come. */

export interface Delivery {
  /** When it came to user code, and how long after its put, in milliseconds. */
  readonly at: number
  readonly latency: number
  readonly isRepeated: boolean
}

export interface Notes {
  /** Kinesis has answered a member's `GetRecords`. */
  readonly answered: (stream: string, shardId: string, memberId: string, at: number) => void
  /** Who read a shard last, and since when without a break. */
  readonly readerOf: (
    stream: string,
    shardId: string
  ) => { readonly memberId: string; readonly since: number } | undefined
  readonly delivered: (record: {
    readonly stream: string
    readonly shardId: string
    readonly sequenceNumber: string
    readonly latency: number
    readonly at: number
  }) => void
  readonly deliveries: ReadonlyArray<Delivery>
}

export const make = (): Notes => {
  const readers = new Map<string, { readonly memberId: string; readonly since: number }>()
  const seen = new Set<string>()
  const deliveries: Array<Delivery> = []
  return {
    answered: (stream, shardId, memberId, at) => {
      const key = `${stream}/${shardId}`
      if (readers.get(key)?.memberId !== memberId) readers.set(key, { memberId, since: at })
    },
    readerOf: (stream, shardId) => readers.get(`${stream}/${shardId}`),
    delivered: ({ at, latency, sequenceNumber, shardId, stream }) => {
      const key = `${stream}/${shardId}/${sequenceNumber}`
      deliveries.push({ at, latency, isRepeated: seen.has(key) })
      seen.add(key)
    },
    deliveries
  }
}
