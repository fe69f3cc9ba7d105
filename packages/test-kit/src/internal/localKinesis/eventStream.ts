/**
 * The frames of an event stream.
 */
import { EventStreamCodec } from "@smithy/core/event-streams"
import type { Format, Members } from "./format.js"
import type { WireError } from "./wireError.js"

/** @internal */
export const contentType = "application/vnd.amazon.eventstream"

const codec = new EventStreamCodec(
  (bytes) => typeof bytes === "string" ? bytes : Buffer.from(bytes).toString(),
  (text) => Buffer.from(text)
)

const frame = (format: Format, headers: Readonly<Record<string, string>>, body: Uint8Array): Uint8Array =>
  codec.encode({
    headers: Object.fromEntries(
      Object.entries({ ...headers, ":content-type": format.contentType })
        .map(([name, value]) => [name, { type: "string", value }])
    ),
    body
  })

/** @internal */
export const event = (format: Format, type: string, body: Uint8Array): Uint8Array =>
  frame(format, { ":message-type": "event", ":event-type": type }, body)

/** @internal */
export const exception = (format: Format, { code, message }: WireError): Uint8Array => {
  const members: Members = { message }
  return frame(format, { ":message-type": "exception", ":exception-type": code }, format.encode(members))
}
