import { defineConfig } from "vitest/config"

export default defineConfig({
  // Tests run the sources of every package; only Node.js itself resolves `dist`.
  ssr: { resolve: { conditions: ["@kinesumer/source", "module", "node", "development|production"] } },
  resolve: { conditions: ["@kinesumer/source", "module", "node", "development|production"] },
  test: {
    include: ["packages/*/test/**/*.test.ts", "examples/test/**/*.test.ts"],
    setupFiles: ["./vitest.setup.ts"],
    fakeTimers: { toFake: [] },
    pool: "forks",
    minWorkers: 1,
    maxWorkers: 2
  }
})
