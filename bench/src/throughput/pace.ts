/** A loop of GetRecords over one shard, at the pace that Kinesis allows: as fast as a reader may be that has no more. */
import { Clock, Effect } from "effect"

export interface Page {
  readonly records: number
  readonly bytes: number
  readonly next: string | undefined
}

const bytesASecond = 2 * 1024 * 1024
const callsASecond = 5

export const loop = <E>(
  first: string,
  getRecords: (iterator: string) => Effect.Effect<Page, E>,
  got: (records: number) => void
): Effect.Effect<void, E> =>
  Effect.gen(function*() {
    for (let iterator: string | undefined = first; iterator !== undefined;) {
      const from = yield* Clock.currentTimeMillis
      const page: Page = yield* getRecords(iterator)
      got(page.records)
      iterator = page.next
      const pause = Math.max(1000 / callsASecond, Math.ceil(page.bytes / bytesASecond * 1000))
      yield* Effect.sleep(Math.max(0, from + pause - (yield* Clock.currentTimeMillis)))
    }
  })
