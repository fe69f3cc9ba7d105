import { DynamoStateStore } from "@kinesumer/dynamo-store"
import * as LocalServers from "@kinesumer/test-kit/LocalServers"
import * as StateStoreContract from "@kinesumer/test-kit/StateStoreContract"
import { Effect, Layer } from "effect"

const layer = Layer.unwrapScoped(Effect.map(LocalServers.dynalite(), ({ endpoint }) =>
  DynamoStateStore.layer({
    tableName: "state",
    region: "eu-west-1",
    endpoint,
    credentials: { accessKeyId: "key", secretAccessKey: "secret" },
    createTable: true,
    requestTimeout: "1 minute"
  })))

// Each shard is five requests here, and dynalite answers some hundreds a second: longer lists are in `scale.test.ts`.
StateStoreContract.suite("DynamoStateStore.layer", layer, { shards: 300, members: 100, runs: 50 })
