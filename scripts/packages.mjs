/** The published packages, the examples, the benches and the simulation, each after everything that it imports. */
import { fileURLToPath } from "node:url"

export const root = fileURLToPath(new URL("..", import.meta.url))

export const published = ["packages/core", "packages/dynamo-store", "packages/test-kit"]

export const buildOrder = [...published, "examples", "bench", "simulation"]
