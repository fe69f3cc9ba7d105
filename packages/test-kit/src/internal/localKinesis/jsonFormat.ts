/**
 * AWS JSON 1.1: times in seconds, binary data in base64.
 */
import type { Format } from "./format.js"
import { plain, recordMembers } from "./format.js"

const seconds = (time: Date) => time.getTime() / 1000

const bufferOf = ({ buffer, byteLength, byteOffset }: Uint8Array) => Buffer.from(buffer, byteOffset, byteLength)

const isBase64 = /^[A-Za-z0-9+/]*={0,2}$/

const opening = Buffer.from(`{"Records":[`)

/** @internal */
export const json: Format = {
  contentType: "application/x-amz-json-1.1",
  headers: {},
  decode: (body): unknown => JSON.parse(bufferOf(body).toString()),
  bytes: (value) =>
    typeof value === "string" && value.length % 4 === 0 && isBase64.test(value)
      ? Buffer.from(value, "base64")
      : undefined,
  time: (value) => typeof value === "number" ? Math.round(value * 1000) : undefined,
  encode: (members) => Buffer.from(JSON.stringify(plain(members, seconds))),
  encodeRecord: (record) => {
    const members = JSON.stringify(plain(recordMembers(record), seconds))
    return Buffer.from(`{"Data":"${bufferOf(record.data).toString("base64")}",${members.slice(1)},`)
  },
  withRecords: (records, _count, rest) => {
    const last = records.at(-1)
    return [
      opening,
      ...records.slice(0, -1),
      ...last === undefined ? [] : [last.subarray(0, -1)],
      Buffer.from(`],${JSON.stringify(plain(rest, seconds)).slice(1)}`)
    ]
  }
}
