/** The forms in which records are asked for. */
import { cbor } from "@smithy/core/cbor"
import type * as RawClient from "./rawClient.js"

export interface Form {
  readonly name: "Json" | "Cbor"
  readonly contentType: string
  readonly encode: (input: object) => Uint8Array
  readonly decode: (answer: Uint8Array) => unknown
}

export const forms: ReadonlyArray<Form> = [
  {
    name: "Json",
    contentType: "application/x-amz-json-1.1",
    encode: (input) => Buffer.from(JSON.stringify(input)),
    decode: (answer): unknown => JSON.parse(Buffer.from(answer).toString())
  },
  {
    name: "Cbor",
    contentType: "application/x-amz-cbor-1.1",
    encode: (input) => cbor.serialize(input),
    decode: (answer): unknown => cbor.deserialize(answer)
  }
]

export const request = (form: Form, operation: string, input: object): RawClient.Request => ({
  headers: { "content-type": form.contentType, "x-amz-target": `Kinesis_20131202.${operation}` },
  body: form.encode(input)
})
