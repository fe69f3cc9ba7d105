import type { TestStream } from "../testStream.js"

/**
 * What is told to a stream, and changes nothing about how it works.
 *
 * @internal
 */
export interface StreamNotes {
  readonly tags: Map<string, string>
  onDemand: boolean
}

const notes = new WeakMap<TestStream, StreamNotes>()

/** @internal */
export const notesOf = (stream: TestStream): StreamNotes => {
  const known = notes.get(stream) ?? { tags: new Map(), onDemand: false }
  notes.set(stream, known)
  return known
}
