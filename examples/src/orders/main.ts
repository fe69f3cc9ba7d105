/**
 * JSON orders from a stream to a database: in the order of their customers, with retries, and a stream for what can't be
 * handled. The database fails now and then, one record in a hundred is none, and the process is killed once in the middle.
 *
 * The program that you would write is `consumer.ts`; all that it needs is in `handler.ts`, `orders.ts`, `deadLetters.ts` and
 * `database.ts`. What is here plays the rest of the world, and counts.
 */
import { Command, FileSystem, Path } from "@effect/platform"
import { LocalServers } from "@kinesumer/test-kit"
import { Config, Console, Data, Effect, Layer, Option, Schedule } from "effect"
import { fileURLToPath } from "node:url"
import * as Kinesis from "../demo/kinesis.js"
import * as Database from "./database.js"
import * as Producer from "./producer.js"
import * as Verify from "./verify.js"

const region = "us-east-1"

/** The consumer ended by itself, which it should not. */
export class ConsumerFailed extends Data.TaggedError("ConsumerFailed")<{ readonly exitCode: number }> {
  override get message(): string {
    return `The consumer ended by itself, with exit code ${this.exitCode}`
  }
}

const program = fileURLToPath(import.meta.url).replace(/main(\.[jt]s)$/, "consumer$1")

/** Runs the consumer until a signal ends it, or the scope. */
const consumer = (environment: Record<string, string>) =>
  Command.make(process.execPath, ...process.execArgv, program).pipe(
    Command.env(environment),
    // What it has to tell, such as why it ends.
    Command.stdout("inherit"),
    Command.stderr("inherit"),
    Command.exitCode,
    // Where a signal has ended it there is no exit code.
    Effect.option,
    Effect.flatMap(Option.match({
      onNone: () => Effect.void,
      onSome: (exitCode) => new ConsumerFailed({ exitCode })
    }))
  )

const play = (orders: number) =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const { endpoint } = yield* LocalServers.KinesisLocal
    const directory = yield* fs.makeTempDirectoryScoped({ prefix: "kinesumer-orders-" })
    const database = yield* Config.withDefault(
      Config.string("DATABASE_URL"),
      `file:${path.join(directory, "orders.db")}`
    )
    const environment = {
      AWS_REGION: region,
      KINESIS_ENDPOINT: endpoint,
      STATE_DIRECTORY: path.join(directory, "state"),
      DATABASE_URL: database
    }
    yield* Kinesis.createStream("orders", 2)
    yield* Kinesis.createStream("orders-dead", 1)
    const puts = yield* Producer.run(orders)
    yield* Console.log(`${puts.length} records are put`)

    yield* consumer({ ...environment, DIE_AFTER: `${Math.ceil(orders / 2)}` })
    yield* Console.log("the consumer has died in the middle, and starts again")

    const balance = Effect.provide(Verify.balance(puts), Database.layer(Config.succeed(database)))
    const allThere = Effect.repeat(balance, {
      schedule: Schedule.spaced("500 millis"),
      until: ({ lost }) => lost === 0
    })
    yield* Effect.raceFirst(
      Effect.timeoutOption(allThere, "60 seconds"),
      Effect.zipRight(consumer(environment), Effect.dieMessage("somebody else has killed the consumer"))
    )
    return yield* balance
  })

const KinesisLive = Layer.unwrapEffect(
  Effect.map(LocalServers.KinesisLocal, ({ endpoint }) => Kinesis.layer({ region, endpoint }))
).pipe(Layer.provideMerge(LocalServers.layerKinesisLocal()))

/** Gives the balance as the last line, and `false` where it is not what it should be. */
export const run = (orders: number) =>
  Effect.gen(function*() {
    const balance = yield* play(orders)
    yield* Console.log(JSON.stringify(balance))
    return balance.lost + balance.doubled + balance.reorderedKeys === 0
  }).pipe(Effect.scoped, Effect.provide(KinesisLive))
