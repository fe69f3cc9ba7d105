/**
 * What the texts stand for that come back from clients: on the wire they are all that tells the stream.
 */
import * as Opaque from "../opaque.js"
import type { Server } from "../testServer.js"
import type { TestStream } from "../testStream.js"
import * as ShardFilter from "./shardFilter.js"

const streamOf = (server: Server, serial: string | undefined): TestStream | undefined =>
  Array.from(server.streams.values()).find((stream) => `${stream.serial}` === serial)

/**
 * The stream is left out when it exists no more; `undefined` is for what is no iterator.
 *
 * @internal
 */
export const placeOf = (
  server: Server,
  iterator: string
): { readonly stream: TestStream | undefined; readonly shardId: string } | undefined => {
  const [serial, shardId] = Opaque.decode("iterator", iterator) ?? []
  return shardId === undefined ? undefined : { stream: streamOf(server, serial), shardId }
}

/** @internal */
export const streamOfPage = (server: Server, token: string): TestStream | undefined =>
  streamOf(server, Opaque.decode("page", token)?.[0])

/**
 * A token of a page that goes on with the same filter.
 *
 * @internal
 */
export const withFilter = (token: string, filter: ShardFilter.ShardFilter | undefined): string =>
  filter === undefined ? token : Opaque.encode("filtered", [token, ...ShardFilter.toFields(filter)])

/** @internal */
export const splitFilter = (
  token: string
): { readonly token: string; readonly filter: ShardFilter.ShardFilter | undefined } => {
  const [page, ...fields] = Opaque.decode("filtered", token) ?? []
  return page === undefined ? { token, filter: undefined } : { token: page, filter: ShardFilter.fromFields(fields) }
}

const consumerArn = /^(arn:.+:stream\/[^/]+)\/consumer\/([^/:]+):\d+$/

/** @internal */
export const streamOfConsumer = (
  arn: string
): { readonly stream: string; readonly name: string } | undefined => {
  const [, stream, name] = consumerArn.exec(arn) ?? []
  return stream === undefined || name === undefined ? undefined : { stream, name }
}
