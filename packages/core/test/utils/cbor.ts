/** Writes CBOR in every form that a server may choose, which libraries do not. */

/** A number with the tag for times. */
export class Time {
  readonly millis: number
  constructor(millis: number) {
    this.millis = millis
  }
}

/** How the lengths of maps, arrays and strings are told: beforehand, or by an end mark. */
export type Form = "definite" | "indefinite"

const head = (kind: number, value: number): Uint8Array => {
  if (value < 24) return Uint8Array.of(kind << 5 | value)
  if (value < 0x100) return Uint8Array.of(kind << 5 | 24, value)
  if (value < 0x1_0000) return Uint8Array.of(kind << 5 | 25, value >> 8, value & 0xff)
  const bytes = Buffer.alloc(9, kind << 5 | 27)
  bytes.writeBigUInt64BE(BigInt(value), 1)
  return bytes
}

const string = (kind: number, bytes: Uint8Array): Uint8Array => Buffer.concat([head(kind, bytes.length), bytes])

const chunks = (kind: number, bytes: Uint8Array): Uint8Array =>
  Buffer.concat([
    Uint8Array.of(kind << 5 | 0x1f),
    string(kind, bytes.subarray(0, 1)),
    string(kind, bytes.subarray(1)),
    Uint8Array.of(0xff)
  ])

/** `chunked` says whether long strings come in chunks too, as those of Java do. */
export const encode = (value: unknown, form: Form = "definite", chunked = false): Uint8Array => {
  const inner = (item: unknown) => encode(item, form, chunked)
  const within = (kind: number, count: number, parts: ReadonlyArray<Uint8Array>) =>
    form === "definite"
      ? Buffer.concat([head(kind, count), ...parts])
      : Buffer.concat([Uint8Array.of(kind << 5 | 0x1f), ...parts, Uint8Array.of(0xff)])
  if (value === null) return Uint8Array.of(0xf6)
  if (value === undefined) return Uint8Array.of(0xf7)
  if (typeof value === "boolean") return Uint8Array.of(value ? 0xf5 : 0xf4)
  if (typeof value === "number" && Number.isSafeInteger(value)) {
    return value < 0 ? head(1, -1 - value) : head(0, value)
  }
  if (typeof value === "number") {
    const bytes = Buffer.alloc(9, 0xfb)
    bytes.writeDoubleBE(value, 1)
    return bytes
  }
  if (typeof value === "string") {
    const bytes = Buffer.from(value)
    // Cut between two characters only.
    return chunked && bytes.length > 1 && bytes.length === value.length ? chunks(3, bytes) : string(3, bytes)
  }
  if (value instanceof Uint8Array) return chunked ? chunks(2, value) : string(2, value)
  if (value instanceof Time) return Buffer.concat([Uint8Array.of(0xc1), inner(value.millis)])
  if (Array.isArray(value)) return within(4, value.length, value.map(inner))
  const members = Object.entries(value)
  return within(5, members.length, members.flatMap(([name, member]) => [string(3, Buffer.from(name)), inner(member)]))
}
