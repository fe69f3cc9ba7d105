import { defineConfig } from "vitest/config"

export default defineConfig({
  // Tests run the sources of every package; only Node.js itself resolves `dist`. Without `module`: what the AWS SDK has
  // under that condition is for bundlers, and Node.js cannot load it.
  ssr: { resolve: { conditions: ["@kinesumer/source", "node", "development|production"] } },
  resolve: { conditions: ["@kinesumer/source", "node", "development|production"] },
  test: {
    include: ["packages/*/test/**/*.test.ts", "examples/test/**/*.test.ts", "simulation/test/**/*.test.ts"],
    setupFiles: ["./vitest.setup.ts"],
    fakeTimers: { toFake: [] },
    // Virtual hours take real seconds, and a loaded machine takes more of them.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    pool: "forks",
    minWorkers: 1,
    maxWorkers: 2
  }
})
