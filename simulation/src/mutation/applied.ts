/** How a child process and the hook that mutates its modules make sure of each other. */
import { Effect } from "effect"
import { mutations } from "./mutations.js"

const key = "kinesumerMutation"

/** What a mutated module says of itself. */
export const statement = (name: string): string => `\nglobalThis.${key} = ${JSON.stringify(name)};\n`

/** The mutation that this process was started with, by its name. */
export const wanted = (): string | undefined => process.argv[2]

export const find = (name: string) => {
  const mutation = mutations.find((one) => one.name === name)
  if (mutation === undefined) throw new Error(`there is no mutation "${name}"`)
  return mutation
}

/** A mutation that was not applied would look like one that nothing finds. */
export const check = Effect.suspend(() =>
  Reflect.get(globalThis, key) === wanted()
    ? Effect.void
    : Effect.dieMessage(`the mutation "${wanted() ?? ""}" was not applied`)
)
