/** Scenarios as JSON: what a seed stands for, written out, so that it outlives the generator. */
import { FileSystem } from "@effect/platform"
import type { Simulation } from "@kinesumer/test-kit"
import { Data, Effect, ParseResult, Schema } from "effect"

const Millis = Schema.NonNegativeInt
const Count = Schema.NonNegativeInt
const Chance = Schema.Number.pipe(Schema.between(0, 1))
const Service = Schema.Literal("store", "kinesis")
const Streams = Schema.Array(Schema.String)

const Consumer = Schema.Struct({
  view: Schema.Literal("records", "shards"),
  commit: Schema.Literal("auto", "manual"),
  handleMillis: Millis,
  failures: Chance,
  leaves: Schema.Literal("interrupted", "closed")
})

const Trouble = Schema.Union(
  Schema.Struct({ kind: Schema.Literal("unavailable"), chance: Chance }),
  Schema.Struct({ kind: Schema.Literal("throttled"), chance: Chance }),
  Schema.Struct({ kind: Schema.Literal("answerLost"), chance: Chance }),
  Schema.Struct({ kind: Schema.Literal("twice"), chance: Chance }),
  Schema.Struct({ kind: Schema.Literal("hangs"), chance: Chance }),
  Schema.Struct({ kind: Schema.Literal("slow"), millis: Millis })
)

const event = <Tag extends Simulation.Action["_tag"], Fields extends Schema.Struct.Fields>(tag: Tag, fields: Fields) =>
  Schema.Struct({ at: Millis, _tag: Schema.Literal(tag), ...fields })

const member = { member: Schema.String }
const stream = { stream: Schema.String }
const millis = { millis: Millis }

const Event: Schema.Schema<Simulation.Event> = Schema.Union(
  event("Join", { ...member, streams: Streams, consumer: Consumer, wallClockSkew: Schema.Int }),
  event("Leave", member),
  event("Crash", { ...member, restartAfter: Schema.optional(Millis) }),
  event("Double", member),
  event("Stall", { ...member, ...millis }),
  event("Partition", { ...member, from: Service, ...millis }),
  event("Trouble", { service: Service, member: Schema.optional(Schema.String), trouble: Trouble, ...millis }),
  event("FalseEnds", { chance: Chance, ...millis }),
  event("StaleLists", millis),
  event("ClockJump", { ...member, by: Schema.Int }),
  event("ForgetMember", member),
  event("Put", { ...stream, count: Count, bytes: Count }),
  event("Reshard", { ...stream, count: Count }),
  event("Split", { ...stream, place: Count }),
  event("Merge", { ...stream, place: Count }),
  event("ExpireIterators", {}),
  event("EndSubscriptions", { ...stream, broken: Schema.Boolean }),
  event("DeregisterConsumer", stream),
  event("EmptyPages", { ...stream, count: Count, atEnd: Schema.Boolean }),
  event("Trim", { ...stream, part: Chance }),
  event("Refresh", { ...member, streams: Streams }),
  event("Pause", { ...member, ...stream, ...millis }),
  event("SlowConsumer", { ...member, handleMillis: Millis, ...millis }),
  event("StuckConsumer", { ...member, ...millis })
)

const sorted = Schema.filter<Schema.Schema<ReadonlyArray<Simulation.Event>>>((events) =>
  events.every(({ at }, index) => at >= (events[index - 1]?.at ?? 0)) || "events must be sorted by their moments (at)"
)

const fields = {
  seed: Schema.Int,
  mode: Schema.Literal("polling", "fanOut"),
  streams: Schema.Array(Schema.Struct({ name: Schema.String, shards: Schema.Int.pipe(Schema.positive()) })),
  startFrom: Schema.Literal("TrimHorizon", "Latest"),
  syncInterval: Millis,
  livenessTimeout: Millis,
  closeTimeout: Millis,
  commitInterval: Millis,
  idleInterval: Millis,
  bufferSize: Count,
  limit: Count,
  trimmedPosition: Schema.Literal("horizon", "refuse"),
  pageSize: Count,
  aggregation: Schema.optional(Count),
  latency: Millis,
  events: Schema.Array(Event).pipe(sorted)
}

export const Scenario: Schema.Schema<Simulation.Scenario> = Schema.Struct(fields)

/** A scenario that failed once. `broke` says in words what was wrong then. */
export const Regression = Schema.Struct({ name: Schema.String, broke: Schema.String, ...fields })

/** What `--scenario` takes: a scenario, or a regression. */
const ScenarioFile = Schema.Struct({
  name: Schema.optional(Schema.String),
  broke: Schema.optional(Schema.String),
  ...fields
})

export class ScenarioInvalid extends Data.TaggedError("ScenarioInvalid")<{
  readonly file: string
  readonly error: ParseResult.ParseError
}> {
  override get message(): string {
    const issues = ParseResult.ArrayFormatter.formatErrorSync(this.error)
    return [`${this.file} is no scenario:`, ...issues.map(({ message, path }) => `  ${pathOf(path)}: ${message}`)].join(
      "\n"
    )
  }
}

const pathOf = (path: ReadonlyArray<PropertyKey>): string => path.length === 0 ? "file" : path.map(String).join(".")

const decode = <A, I>(schema: Schema.Schema<A, I>) => {
  const parse = Schema.decode(Schema.parseJson(schema), { onExcessProperty: "error", errors: "all" })
  return (file: string) =>
    Effect.gen(function*() {
      const text = yield* (yield* FileSystem.FileSystem).readFileString(file)
      return yield* Effect.mapError(parse(text), (error) => new ScenarioInvalid({ file, error }))
    })
}

export const read = decode(ScenarioFile)

export const readRegression = decode(Regression)
