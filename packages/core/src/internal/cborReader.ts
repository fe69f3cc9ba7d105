/**
 * Reads CBOR (RFC 8949) from an answer of Kinesis. What comes is not trusted: each length is checked against what is
 * there before anything is made of it, and each step moves on by a byte at least.
 *
 * A library would do: `cbor.deserialize` of `@smithy/core` takes about twice as long for records, and a large number in
 * an answer, of which there is none, takes it hours.
 */

/** The kinds of items. */
const unsigned = 0
const negative = 1
const byteString = 2
const textString = 3
const array = 4
const map = 5
const tag = 6

const stop = 0xff
const nullItem = 0xf6
const undefinedItem = 0xf7

/** Answers of Kinesis are three deep. */
const maxDepth = 32

/** The answer is no CBOR, or is cut off. */
export class MalformedCbor extends Error {
  override readonly name = "MalformedCbor"
}

const fail = (what: string, at: number): never => {
  throw new MalformedCbor(`${what} at byte ${at}`)
}

/** A text as it is compared with keys: word by word, the last of which ends where the text ends. */
export interface Key {
  readonly length: number
  readonly words: ReadonlyArray<number>
}

/** Of a text of ASCII with 4 characters at least. */
export const key = (text: string): Key => {
  const bytes = Buffer.from(text)
  return {
    length: bytes.length,
    words: Array.from(
      { length: Math.ceil(bytes.length / 4) },
      (_, index) => bytes.readUInt32BE(Math.min(index * 4, bytes.length - 4))
    )
  }
}

export class Reader {
  private readonly bytes: Buffer
  private readonly view: DataView
  /** Where the next item begins. */
  at = 0

  constructor(bytes: Uint8Array) {
    this.bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  }

  /**
   * Goes into a map and gives the number of its members, or of the items of an array; `Infinity` where only its end
   * tells, 0 where there is none.
   */
  map(): number {
    return this.container(map)
  }

  array(): number {
    return this.container(array)
  }

  /** Whether a container of this many items is over after `index` of them. Takes the end mark. */
  isOver(index: number, count: number): boolean {
    if (count !== Infinity) return index >= count
    if (this.peek() !== stop) return false
    this.at++
    return true
  }

  /** Goes over the next key, and gives its length; where it begins is kept for `isKey`. */
  key(): number {
    const initial = this.peek()
    if (initial >> 5 !== textString || initial === 0x7f) return fail("A key that is no text", this.at)
    const length = this.length(initial)
    this.keyAt = this.at
    this.at += length
    return length
  }
  private keyAt = 0

  isKey(length: number, key: Key): boolean {
    if (length !== key.length) return false
    const { words } = key
    for (let index = 0; index < words.length; index++) {
      if (this.view.getUint32(this.keyAt + Math.min(index * 4, length - 4)) !== words[index]) return false
    }
    return true
  }

  /** The key as text. */
  keyText(length: number): string {
    return this.bytes.toString("utf8", this.keyAt, this.keyAt + length)
  }

  /**
   * Goes over a string of a known length, of bytes or, with `isText`, of text, and gives its length; -1 where something
   * else is there, which is not gone over.
   */
  skip(isText: boolean): number {
    const initial = this.peek()
    if (initial >> 5 !== (isText ? textString : byteString) || (initial & 0x1f) === 0x1f) return -1
    const length = this.length(initial)
    this.at += length
    return length
  }

  /** Whether the bytes that end at one place are, as text, before those of the same length that end at another. */
  isBefore(self: number, that: number, length: number): boolean {
    for (let left = length; left > 0; left -= 4) {
      if (left < 4) {
        const [one, other] = [this.view.getUint8(self - left), this.view.getUint8(that - left)]
        if (one !== other) return one < other
        left += 3
      } else {
        const one = this.view.getUint32(self - left)
        const other = this.view.getUint32(that - left)
        if (one !== other) return one < other
      }
    }
    return false
  }

  /** Whether these four bytes stand there. */
  hasWord(at: number, word: number): boolean {
    return at + 4 <= this.bytes.length && this.view.getUint32(at) === word
  }

  text(): string | undefined {
    const initial = this.peek()
    if (initial >> 5 !== textString) return this.absent("text")
    if (initial === 0x7f) return Buffer.concat(this.chunks(textString)).toString()
    const length = this.length(initial)
    const from = this.at
    this.at += length
    return this.bytes.toString("utf8", from, this.at)
  }

  /** Text of ASCII alone, which takes less time. */
  ascii(): string | undefined {
    const initial = this.peek()
    if (initial >> 5 !== textString || initial === 0x7f) return this.text()
    const length = this.length(initial)
    const from = this.at
    this.at += length
    return this.bytes.toString("latin1", from, this.at)
  }

  /** Bytes, as a view of the answer. Where there is text in their place, it is base64, as kinesis-local has it. */
  blob(): Uint8Array | undefined {
    const initial = this.peek()
    if (initial >> 5 === textString) return Uint8Array.from(Buffer.from(this.text() ?? "", "base64"))
    if (initial >> 5 !== byteString) return this.absent("bytes")
    if (initial === 0x5f) return Uint8Array.from(Buffer.concat(this.chunks(byteString)))
    const length = this.length(initial)
    const from = this.bytes.byteOffset + this.at
    this.at += length
    return new Uint8Array(this.bytes.buffer, from, length)
  }

  /** A number, with whatever tag. */
  number(): number | undefined {
    let initial = this.peek()
    while (initial >> 5 === tag) {
      this.argument(initial)
      initial = this.peek()
    }
    switch (initial >> 5) {
      case unsigned:
        return this.argument(initial)
      case negative:
        return -1 - this.argument(initial)
      default:
        return initial >= 0xf9 && initial <= 0xfb ? this.float(initial) : this.absent("a number")
    }
  }

  /** Whatever comes next. Tags are dropped, numbers are as exact as a `number` is. */
  value(depth = 0): unknown {
    const initial = this.peek()
    switch (initial >> 5) {
      case unsigned:
      case negative:
        return this.number()
      case byteString:
        return this.blob()
      case textString:
        return this.text()
      case array: {
        const count = this.enter(depth, array)
        const items: Array<unknown> = []
        while (!this.isOver(items.length, count)) items.push(this.value(depth + 1))
        return items
      }
      case map: {
        const count = this.enter(depth, map)
        const members = new Map<string, unknown>()
        for (let index = 0; !this.isOver(index, count); index++) {
          const length = this.key()
          members.set(this.keyText(length), this.value(depth + 1))
        }
        return Object.fromEntries(members)
      }
      case tag:
        if (depth >= maxDepth) return fail("Too deep", this.at)
        this.argument(initial)
        return this.value(depth + 1)
      default:
        return this.simple(initial)
    }
  }

  private enter(depth: number, kind: number): number {
    return depth >= maxDepth ? fail("Too deep", this.at) : this.container(kind)
  }

  private container(kind: number): number {
    const initial = this.peek()
    if (initial >> 5 !== kind) {
      this.absent(kind === map ? "a map" : "an array")
      return 0
    }
    if ((initial & 0x1f) === 0x1f) {
      this.at++
      return Infinity
    }
    // A member takes two bytes at least, an item one.
    return this.length(initial)
  }

  private peek(): number {
    return this.at < this.bytes.length ? this.view.getUint8(this.at) : fail("The answer is cut off", this.at)
  }

  private simple(initial: number): boolean | number | null {
    switch (initial) {
      case 0xf4:
      case 0xf5:
        this.at++
        return initial === 0xf5
      case nullItem:
      case undefinedItem:
        this.at++
        return null
      case 0xf9:
      case 0xfa:
      case 0xfb:
        return this.float(initial)
      default:
        return fail("An item of an unknown kind", this.at)
    }
  }

  /** Nothing, where there is something of another kind than what is asked for. */
  private absent(what: string): undefined {
    const initial = this.peek()
    if (initial !== nullItem && initial !== undefinedItem) return fail(`Something else than ${what}`, this.at)
    this.at++
    return undefined
  }

  private chunks(kind: number): ReadonlyArray<Buffer> {
    this.at++
    const chunks: Array<Buffer> = []
    for (let initial = this.peek(); initial !== stop; initial = this.peek()) {
      if (initial >> 5 !== kind) return fail("A chunk of another kind", this.at)
      const length = this.length(initial)
      chunks.push(this.bytes.subarray(this.at, this.at + length))
      this.at += length
    }
    this.at++
    return chunks
  }

  /** A number of bytes or items, none of which can be more than there are bytes left. */
  private length(initial: number): number {
    const length = this.argument(initial)
    return length <= this.bytes.length - this.at ? length : fail("The answer is cut off", this.at)
  }

  /** Goes over the head of an item. */
  private argument(initial: number): number {
    const minor = initial & 0x1f
    const at = this.at + 1
    if (minor < 24) {
      this.at = at
      return minor
    }
    switch (minor) {
      case 24:
        this.go(at + 1)
        return this.view.getUint8(at)
      case 25:
        this.go(at + 2)
        return this.view.getUint16(at)
      case 26:
        this.go(at + 4)
        return this.view.getUint32(at)
      case 27:
        this.go(at + 8)
        return this.view.getUint32(at) * 0x1_0000_0000 + this.view.getUint32(at + 4)
      default:
        return fail("An item of an unknown kind", this.at)
    }
  }

  private float(initial: number): number {
    const at = this.at + 1
    switch (initial) {
      case 0xf9:
        this.go(at + 2)
        return halfOf(this.view.getUint16(at))
      case 0xfa:
        this.go(at + 4)
        return this.view.getFloat32(at)
      default:
        this.go(at + 8)
        return this.view.getFloat64(at)
    }
  }

  private go(to: number): void {
    if (to > this.bytes.length) fail("The answer is cut off", this.at)
    this.at = to
  }
}

/** A float of 16 bits. */
const halfOf = (bits: number): number => {
  const sign = bits & 0x8000 ? -1 : 1
  const exponent = (bits >> 10) & 0x1f
  const fraction = bits & 0x3ff
  if (exponent === 0) return sign * fraction * 2 ** -24
  return exponent === 0x1f
    ? (fraction === 0 ? sign * Infinity : NaN)
    : sign * (1 + fraction / 1024) * 2 ** (exponent - 15)
}
