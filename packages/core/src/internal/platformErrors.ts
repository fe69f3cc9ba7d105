/** Errors of files and key-value stores in the words of `StateStoreError`. */
import type { PlatformError } from "@effect/platform/Error"
import { StateStoreError, type StateStoreErrorReason } from "../StateStoreError.js"

export const fromPlatform = (operation: string, what: string) => (error: PlatformError): StateStoreError => {
  const { hint, reason } = explain(error)
  return new StateStoreError({ reason, operation, detail: `${what}: ${error.message}${hint}`, cause: error })
}

const explain = (error: PlatformError): { readonly reason: StateStoreErrorReason; readonly hint: string } => {
  switch (error._tag === "SystemError" ? error.reason : error._tag) {
    case "PermissionDenied":
      return { reason: "AccessDenied", hint: ". Let this process read and write it" }
    case "NotFound":
      return { reason: "TableMissing", hint: ". Was it removed while in use? A restart makes it anew, and empty" }
    case "AlreadyExists":
    case "BadResource":
      return { reason: "TableInvalid", hint: ". A directory of files is needed here" }
    case "TimedOut":
      return { reason: "Timeout", hint: "" }
    case "BadArgument":
      return { reason: "Unknown", hint: "" }
    default:
      return { reason: "Unavailable", hint: "" }
  }
}
