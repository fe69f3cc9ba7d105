/** What servers with TLS show in tests. */
import { Effect } from "effect"

/** A certificate for the name localhost. */
export const key = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgV49cFKoN9L1OHYrn
ZA9M/gzuY/q7QtEYCnbEKGxrZ9ehRANCAATEKzjNpEyZgKbiUXRIsJwlz48MMr/+
SPu0XQvphQHJwUlEzQFeavHg91S9CbHrtMKk8j/Vkzx4OKKJQhkiCnVM
-----END PRIVATE KEY-----`

export const cert = `-----BEGIN CERTIFICATE-----
MIIBmzCCAUGgAwIBAgIUdDfUj70lD5finKvoOqxJN4g0YrQwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTIwMjExMDcwMFoYDzIxMjYxMTA4
MTEwNzAwWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAATEKzjNpEyZgKbiUXRIsJwlz48MMr/+SPu0XQvphQHJwUlEzQFeavHg
91S9CbHrtMKk8j/Vkzx4OKKJQhkiCnVMo28wbTAdBgNVHQ4EFgQUmY0ormxRoUUx
lNAYcVtMGgaRFlQwHwYDVR0jBBgwFoAUmY0ormxRoUUxlNAYcVtMGgaRFlQwDwYD
VR0TAQH/BAUwAwEB/zAaBgNVHREEEzARgglsb2NhbGhvc3SHBH8AAAEwCgYIKoZI
zj0EAwIDSAAwRQIhAKsnoHWn15zI9pX1HOoLp5G7/Eq/0YVrjn/8KkmLieNnAiAu
3q/zUkiPgaziVsFAQZ+nfAUBJCX7tEzu6W2Z63ewKQ==
-----END CERTIFICATE-----`

/** Nobody trusts this certificate, so it is taken unseen. */
export const trusting = Effect.acquireRelease(
  Effect.sync(() => {
    const before = process.env["NODE_TLS_REJECT_UNAUTHORIZED"]
    process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = "0"
    return before
  }),
  (before) =>
    Effect.sync(() => {
      if (before === undefined) delete process.env["NODE_TLS_REJECT_UNAUTHORIZED"]
      else process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = before
    })
)
