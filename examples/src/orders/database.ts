/** Where the orders go: SQLite, or PostgreSQL if `DATABASE_URL` says so. */
import { SqlClient, type SqlError } from "@effect/sql"
import { LibsqlClient } from "@effect/sql-libsql"
import { PgClient } from "@effect/sql-pg"
import type { Config } from "effect"
import { type ConfigError, Effect, Layer, Redacted } from "effect"

/** For example `file:/var/lib/shop/orders.db`, or `postgres://shop@localhost/shop`. */
export const layer = (
  url: Config.Config<string>
): Layer.Layer<SqlClient.SqlClient, SqlError.SqlError | ConfigError.ConfigError> =>
  Layer.unwrapEffect(Effect.map(url, (url) =>
    url.startsWith("postgres")
      ? PgClient.layer({ url: Redacted.make(url) })
      : Layer.tap(LibsqlClient.layer({ url }), (context) => wal.pipe(Effect.provide(context)))))

/** Lets others read while one process writes. */
const wal = Effect.flatMap(SqlClient.SqlClient, (sql) => sql`PRAGMA journal_mode = WAL`)
