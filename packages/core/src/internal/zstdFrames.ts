/**
 * The frames of data that zstd has compressed, by the lengths that they tell (RFC 8878). Node's codec reads the first one
 * and says nothing of what follows; that of Node 22 takes one that was cut off for a whole one.
 */
import * as Either from "effect/Either"

const magic = 0xfd2fb528
/** Frames with data for others begin so. The last four bits are free to use. */
const skippable = 0x184d2a50

/** A reserved type of block, which the codec refuses, is taken for one with data. */
const runOfOneByte = 1

const bytesOfDictionary = [0, 1, 2, 4] as const
const bytesOfContentSize = [0, 2, 4, 8] as const

/** The length of a frame's header with its magic, and that of the checksum at its end. */
const headerOf = (descriptor: number): { readonly header: number; readonly checksum: number } => {
  const isSingleSegment = (descriptor & 0x20) !== 0
  const contentSize = bytesOfContentSize[descriptor >> 6] ?? 0
  const dictionary = bytesOfDictionary[descriptor & 3] ?? 0
  return {
    header: 5 + (isSingleSegment ? Math.max(1, contentSize) : 1 + contentSize) + dictionary,
    checksum: (descriptor & 4) === 0 ? 0 : 4
  }
}

/** Beyond the data where they end before. */
const endOfFrame = (data: DataView, start: number): number => {
  const { checksum, header } = headerOf(data.getUint8(start + 4))
  let end = start + header
  while (end + 3 <= data.byteLength) {
    const block = data.getUint16(end, true) | (data.getUint8(end + 2) << 16)
    end += 3 + ((block >> 1 & 3) === runOfOneByte ? 1 : block >> 3)
    if ((block & 1) === 1) return end + checksum
  }
  return Infinity
}

/** The whole frames, without those that are to be skipped. There is at least one frame of either kind. */
export const split = (bytes: Uint8Array): Either.Either<ReadonlyArray<Uint8Array>, Error> => {
  const data = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const frames: Array<Uint8Array> = []
  const failed = (at: number, why: string) => Either.left(new Error(`The frame at byte ${at} ${why}`))
  let start = 0
  do {
    // The shortest frame has nine bytes, one to be skipped eight.
    if (start + 8 > data.byteLength) return failed(start, "is cut off")
    const word = data.getUint32(start, true)
    const isSkippable = (word & ~0xf) === skippable
    if (!isSkippable && word !== magic) return failed(start, "is none of zstd")
    const end = isSkippable ? start + 8 + data.getUint32(start + 4, true) : endOfFrame(data, start)
    if (end > data.byteLength) return failed(start, "is cut off")
    if (!isSkippable) frames.push(bytes.subarray(start, end))
    start = end
  } while (start < data.byteLength)
  return Either.right(frames)
}
