/** Runs with `npm run demo` at the top of the repository. */
import { Effect } from "effect"

Effect.runSync(Effect.log("The demo is on its way."))
