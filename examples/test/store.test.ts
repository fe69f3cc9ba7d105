import { StateStore } from "@kinesumer/core"
import * as StateStoreContract from "@kinesumer/test-kit/StateStoreContract"

// Your own layer in place of this one.
StateStoreContract.suite("a store of my own", StateStore.layerMemory, { shards: 500, members: 50 })
