/** A local DynamoDB. */
import { LocalServers } from "@kinesumer/test-kit"
import { Effect } from "effect"
import { main } from "./childServer.js"

main(Effect.map(LocalServers.dynalite(), ({ port }) => port))
