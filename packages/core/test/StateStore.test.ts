import { StateStore } from "@kinesumer/core"
import * as StateStoreContract from "@kinesumer/test-kit/StateStoreContract"

StateStoreContract.suite("StateStore.layerMemory", StateStore.layerMemory)
