/**
 * The streams of a group: what was configured, resolved to what Kinesis says they are.
 *
 * Rows are keyed by what a stream is. The key is the bare name for a stream of the client's own account and region, so
 * that a name and its ARN are one stream, and a table of the Go library goes on; a stream of another account has its ARN
 * as a key, so that two streams of one name never share a row.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { StreamDescription, StreamId } from "../KinesisClient.js"
import { KinesisError } from "../KinesisError.js"
import type { KinesumerConfig, StartFrom } from "../KinesumerConfig.js"
import { InvalidConfig } from "../KinesumerError.js"
import type { Environment } from "./environment.js"
import { onFreshTurn } from "./freshTurn.js"
import * as StreamName from "./streamName.js"

export interface StreamState {
  readonly key: string
  /** As it was configured. */
  readonly label: string
  readonly id: StreamId
  /** However it was configured. */
  readonly arn: string
  readonly startFrom: StartFrom
}

export interface Resolved {
  readonly stream: StreamState
  readonly description: StreamDescription
}

/** Resolves all streams, each once: the first of two entries for the same stream counts. */
export const resolve = (
  env: Pick<Environment, "kinesis">,
  streams: KinesumerConfig["streams"]
): Effect.Effect<ReadonlyArray<Resolved>, KinesisError | InvalidConfig> =>
  Effect.gen(function*() {
    const region = yield* env.kinesis.region
    const resolved = yield* onFreshTurn(Effect.forEach(
      streams,
      (entry, index) => resolveOne(env, entry, `streams[${index}]`, region),
      { concurrency: 5 }
    ))
    return [...new Map([...resolved].reverse().map((one) => [one.stream.key, one])).values()].reverse()
  })

const resolveOne = (
  { kinesis }: Pick<Environment, "kinesis">,
  entry: KinesumerConfig["streams"][number],
  field: string,
  region: string
): Effect.Effect<Resolved, KinesisError | InvalidConfig> =>
  Effect.gen(function*() {
    const parsed = Option.getOrThrow(StreamName.parse(entry.stream))
    if (Option.isSome(parsed.arn) && parsed.arn.value.region !== region) {
      return yield* new InvalidConfig({
        field,
        value: entry.stream,
        allowed: `a stream in the region of the client, ${region}. ` +
          `Read streams of another region with a KinesisClient of that region`
      })
    }
    const id: StreamId = { name: parsed.name, arn: Option.map(parsed.arn, ({ arn }) => arn) }
    const description = yield* describe(kinesis, id, entry.stream)
    const own = Option.isNone(id.arn) || (yield* isOwn(kinesis, parsed.name, description.arn))
    return {
      stream: {
        key: own ? parsed.name : description.arn,
        label: entry.stream,
        id,
        arn: description.arn,
        startFrom: entry.startFrom
      },
      description
    }
  })

const describe = (
  kinesis: Environment["kinesis"],
  id: StreamId,
  label: string
): Effect.Effect<StreamDescription, KinesisError> =>
  Effect.flatMap(
    kinesis.describeStream(id),
    (description) =>
      description.status === "ACTIVE" || description.status === "UPDATING"
        ? Effect.succeed(description)
        : new KinesisError({
          reason: description.status === "DELETING" ? "NotFound" : "ResourceInUse",
          operation: "describeStream",
          stream: label,
          detail: `the stream is ${description.status}`
        })
  )

/** Whether the name, in the client's own account, is this very stream. A name that may not be looked at is not ours. */
const isOwn = (
  kinesis: Environment["kinesis"],
  name: string,
  arn: string
): Effect.Effect<boolean, KinesisError> =>
  kinesis.describeStream({ name, arn: Option.none() }).pipe(
    Effect.map((description) => description.arn === arn),
    Effect.catchIf(
      (error) => error.reason === "NotFound" || error.reason === "AccessDenied",
      () => Effect.succeed(false)
    )
  )
