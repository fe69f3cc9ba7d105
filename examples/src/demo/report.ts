/** What a consumer process tells the demo, a line of JSON on its standard output each. */
import type { Kinesumer, KinesumerEvent, KinesumerRecord } from "@kinesumer/core"
import type { Option } from "effect"
import { Clock, Data, Effect, Schedule, Schema, Stream } from "effect"
import * as Payload from "./payload.js"

/**
 * A record was handed to user code, at a time of this machine's clock, which all processes share. `waited` is how long
 * ago Kinesis took it in, in milliseconds.
 */
export const Delivered = Schema.TaggedStruct("Delivered", {
  stream: Schema.String,
  shardId: Schema.String,
  sequenceNumber: Schema.String,
  epoch: Schema.Number,
  key: Schema.String,
  number: Schema.Number,
  at: Schema.Number,
  waited: Schema.Number
})

/** The shards that the process runs now. */
export const Running = Schema.TaggedStruct("Running", {
  shards: Schema.Array(Schema.String)
})

/** What the group told of itself. */
export const Event = Schema.TaggedStruct("Event", {
  event: Schema.String,
  text: Schema.String
})

export const Report = Schema.Union(Delivered, Running, Event)
export type Report = typeof Report.Type

const Line = Schema.parseJson(Report)

/** `none` for a line that is no report, such as a log. */
export const parse: (line: string) => Option.Option<Report> = Schema.decodeOption(Line)

/** Nobody reads the reports: the demo is gone, and so should be the process. */
export class Unread extends Data.TaggedError("Unread")<{ readonly cause: unknown }> {}

/** Done when the line has left the process, so that what is committed later was reported before. */
const send = (report: Report): Effect.Effect<void, Unread> =>
  Effect.async((resume) => {
    process.stdout.write(`${Schema.encodeSync(Line)(report)}\n`, (cause) => {
      resume(cause ? new Unread({ cause }) : Effect.void)
    })
  })

export const delivered = (record: KinesumerRecord.KinesumerRecord): Effect.Effect<void, Unread> =>
  Effect.flatMap(Clock.currentTimeMillis, (at) =>
    send({
      _tag: "Delivered",
      stream: record.stream,
      shardId: record.shardId,
      sequenceNumber: record.sequenceNumber,
      epoch: record.epoch,
      key: record.partitionKey,
      number: Payload.decode(record.data),
      at,
      waited: at - (record.arrivalTime?.getTime() ?? at)
    }))

/** Reports events as they come, and the shards twice a second. */
export const watch = (kinesumer: Kinesumer.Kinesumer["Type"]): Effect.Effect<void, Unread> =>
  Effect.zipRight(
    Stream.runForEach(kinesumer.events, (event) => send({ _tag: "Event", event: event._tag, text: describe(event) })),
    Effect.repeat(running(kinesumer), Schedule.spaced("500 millis")),
    { concurrent: true }
  )

const running = (kinesumer: Kinesumer.Kinesumer["Type"]): Effect.Effect<void, Unread> =>
  Effect.flatMap(kinesumer.assignment, (shards) => send({ _tag: "Running", shards: shards.map(shardLabel) }))

/** `orders/2` for the third shard of `orders`. */
export const shardLabel = ({ shardId, stream }: KinesumerEvent.ShardName): string =>
  `${stream}/${Number(shardId.slice(shardId.lastIndexOf("-") + 1))}`

const describe = (event: KinesumerEvent.KinesumerEvent): string => {
  switch (event._tag) {
    case "AssignmentChanged":
      return [
        ...event.acquired.length > 0 ? [`takes ${event.acquired.map(shardLabel).join(" ")}`] : [],
        ...event.released.length > 0 ? [`gives ${event.released.map(shardLabel).join(" ")}`] : []
      ].join(", ")
    case "ShardEnded":
      return `has read ${shardLabel(event)} to its end`
    default:
      return [
        event._tag,
        ..."shardId" in event && event.shardId !== undefined ? [`${event.stream}/${event.shardId}`] : [],
        ..."error" in event && event.error instanceof Error ? [event.error.message] : []
      ].join(" ")
  }
}
