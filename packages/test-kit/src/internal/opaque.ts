/**
 * Texts that mean something to us only: shard iterators and the tokens of pages. They hold all that they stand for, so
 * nothing is kept for those that nobody uses again.
 *
 * @internal
 */
export const encode = (kind: string, fields: ReadonlyArray<string | number>): string =>
  Buffer.from([kind, ...fields].join("\n")).toString("base64url")

/** @internal */
export const decode = (kind: string, text: string): ReadonlyArray<string> | undefined => {
  const [first, ...fields] = Buffer.from(text, "base64url").toString().split("\n")
  return first === kind ? fields : undefined
}
