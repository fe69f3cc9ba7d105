import * as RateLimit from "./rateLimit.js"

/**
 * A consumer of a stream, and who reads through it.
 *
 * @internal
 */
export interface TestConsumer {
  /** Its place among all consumers that the stream ever had. */
  readonly index: number
  readonly name: string
  readonly arn: string
  readonly createdAt: number
  deregisteredAt: number | undefined
  /** By shard: the calls of the last second, and the last one that succeeded. */
  readonly calls: Map<string, RateLimit.Window>
  readonly subscribedAt: Map<string, number>
}

/**
 * The consumers of one stream.
 *
 * @internal
 */
export interface Consumers {
  readonly byName: Map<string, TestConsumer>
  made: number
  readonly register: RateLimit.Window
  readonly describe: RateLimit.Window
  readonly list: RateLimit.Window
  readonly deregister: RateLimit.Window
}

/** @internal */
export const make = (): Consumers => ({
  byName: new Map(),
  made: 0,
  register: RateLimit.window(),
  describe: RateLimit.window(),
  list: RateLimit.window(),
  deregister: RateLimit.window()
})
