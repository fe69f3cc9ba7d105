/**
 * MD5, which tells aggregates from other records and gives a partition key its hash key. Where OpenSSL keeps to FIPS it
 * refuses it, although it protects nothing here. Then it is computed without OpenSSL, about eight times slower, so that
 * no aggregate stops its shard.
 */
import { md5 as portable } from "@noble/hashes/legacy"
import { createHash, type Hash } from "node:crypto"

export const md5 = (data: Uint8Array): Uint8Array => {
  const hash = native()
  return hash === undefined ? portable(data) : hash.update(data).digest()
}

/** Asked for each time, since FIPS can be turned on in a running process. */
const native = (): Hash | undefined => {
  try {
    return createHash("md5")
  } catch {
    return undefined
  }
}
