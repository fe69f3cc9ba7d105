/** A local Kinesis with the streams of the rivals, of one shard each. */
import { LocalKinesis } from "@kinesumer/test-kit"
import { Effect } from "effect"
import { main } from "../childServer.js"
import * as Streams from "./streams.js"

main(Effect.map(
  LocalKinesis.make({ streams: [{ name: Streams.bare }, { name: Streams.group }] }),
  ({ port }) => port
))
