/**
 * Servers that speak the wire protocols of AWS, for tests of a whole program on one machine. They listen on the loopback
 * address on a free port, forget everything when they stop, and stop with their scope.
 *
 * Their packages are optional: install `kinesis-local` or `dynalite` beside the test kit. They take any credentials.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as dynaliteServer from "./internal/dynaliteServer.js"
import * as kinesisLocalServer from "./internal/kinesisLocalServer.js"
import type { LocalServerError } from "./LocalServerError.js"

/**
 * Where a server answers.
 *
 * @since 0.1.0
 * @category models
 */
export interface LocalServer {
  /** For example `http://127.0.0.1:49152`. */
  readonly endpoint: string
  readonly port: number
}

/**
 * @since 0.1.0
 * @category options
 */
export interface KinesisLocalOptions {
  /** How many open shards all streams together may have. Default 10,000. */
  readonly shardLimit?: number | undefined
  /** How long a stream takes to be created, deleted, split or merged, in whole milliseconds. Default 10 ms. */
  readonly changeTime?: Duration.DurationInput | undefined
  /** More variables of its environment, as the readme of `kinesis-local` lists them. */
  readonly environment?: Readonly<Record<string, string>> | undefined
  /** How long it may take to come up. Default 30 seconds. */
  readonly startTimeout?: Duration.DurationInput | undefined
}

/**
 * Starts `kinesis-local` in a process of its own. The process ends with the scope, and also when this process is killed.
 *
 * Where it differs from Kinesis: fan-out never reports the end of a closed shard, a second subscription is refused for as
 * long as the first one lives, the rate and the size of `GetRecords` are not limited, and an iterator that is none is an
 * error of the server.
 *
 * @since 0.1.0
 * @category constructors
 */
export const kinesisLocal: (
  options?: KinesisLocalOptions
) => Effect.Effect<LocalServer, LocalServerError, Scope.Scope> = kinesisLocalServer.start

/**
 * @since 0.1.0
 * @category options
 */
export interface DynaliteOptions {
  /** How long a table takes to be created, updated or deleted. Default 0. */
  readonly changeTime?: Duration.DurationInput | undefined
}

/**
 * Starts `dynalite`, a DynamoDB in the memory of this process. It has no transactions and no PartiQL.
 *
 * @since 0.1.0
 * @category constructors
 */
export const dynalite: (
  options?: DynaliteOptions
) => Effect.Effect<LocalServer, LocalServerError, Scope.Scope> = dynaliteServer.start

/**
 * The local Kinesis of a layer.
 *
 * @since 0.1.0
 * @category context
 */
export class KinesisLocal extends Context.Tag("@kinesumer/test-kit/LocalServers/KinesisLocal")<
  KinesisLocal,
  LocalServer
>() {}

/**
 * The local DynamoDB of a layer.
 *
 * @since 0.1.0
 * @category context
 */
export class Dynalite extends Context.Tag("@kinesumer/test-kit/LocalServers/Dynalite")<Dynalite, LocalServer>() {}

/**
 * `kinesisLocal` as a layer, to be shared by the tests of a file.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerKinesisLocal = (options?: KinesisLocalOptions): Layer.Layer<KinesisLocal, LocalServerError> =>
  Layer.scoped(KinesisLocal, kinesisLocal(options))

/**
 * `dynalite` as a layer, to be shared by the tests of a file.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerDynalite = (options?: DynaliteOptions): Layer.Layer<Dynalite, LocalServerError> =>
  Layer.scoped(Dynalite, dynalite(options))
