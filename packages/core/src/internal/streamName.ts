/** A stream is configured by its name or by its ARN. */
import * as Option from "effect/Option"

export interface StreamName {
  readonly name: string
  readonly arn: Option.Option<{ readonly arn: string; readonly region: string; readonly account: string }>
}

/** Names have 1 to 128 of these characters (CreateStream); ARNs exist in other partitions than `aws` too. */
const name = /^[a-zA-Z0-9_.-]{1,128}$/
const arn = /^arn:aws[a-z0-9-]*:kinesis:([a-z0-9-]+):(\d{12}):stream\/([a-zA-Z0-9_.-]{1,128})$/

export const allowed = "a stream name (1 to 128 letters, digits, _ . or -) or an ARN of a stream " +
  "(arn:aws:kinesis:region:account:stream/name)"

export const parse = (text: string): Option.Option<StreamName> => {
  if (typeof text !== "string") return Option.none()
  const [, region, account, streamName] = arn.exec(text) ?? []
  if (region !== undefined && account !== undefined && streamName !== undefined) {
    return Option.some({ name: streamName, arn: Option.some({ arn: text, region, account }) })
  }
  return name.test(text) ? Option.some({ name: text, arn: Option.none() }) : Option.none()
}
