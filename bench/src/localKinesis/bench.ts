/** How fast `LocalKinesis` gives its records out, beside a plain server of the same bytes. */
import { Clock, Effect, Schema } from "effect"
import { type Bench, BenchFailed, type Series } from "../bench.js"
import * as ChildServer from "../childServer.js"
import { median } from "../statistics.js"
import * as Forms from "./forms.js"
import * as RawClient from "./rawClient.js"
import * as Records from "./records.js"

const Iterator = Schema.Struct({ ShardIterator: Schema.String })
const Page = Schema.Struct({ Records: Schema.Array(Schema.Unknown), NextShardIterator: Schema.String })

const ask = <A, I>(
  form: Forms.Form,
  connection: RawClient.Connection,
  request: RawClient.Request,
  schema: Schema.Schema<A, I>
) =>
  RawClient.fetch(connection, request).pipe(
    Effect.flatMap((answer) =>
      Effect.map(
        Schema.decodeUnknown(schema)(form.decode(answer)),
        (decoded) => ({ decoded, length: answer.byteLength })
      )
    ),
    Effect.mapError((cause) => new BenchFailed({ message: cause.message }))
  )

/** The requests for all pages, each of which is asked for once: from then on the server has their bytes. */
const warmUp = (form: Forms.Form, port: number) =>
  Effect.gen(function*() {
    const connection = yield* RawClient.connect(port)
    const begin = Forms.request(form, "GetShardIterator", {
      StreamName: Records.stream,
      ShardId: Records.shardId,
      ShardIteratorType: "TRIM_HORIZON"
    })
    let iterator = (yield* ask(form, connection, begin, Iterator)).decoded.ShardIterator
    const requests: Array<RawClient.Request> = []
    let bytes = 0
    for (let page = 0; page < Records.pages; page++) {
      const request = Forms.request(form, "GetRecords", { ShardIterator: iterator, Limit: Records.pageSize })
      const { decoded, length } = yield* ask(form, connection, request, Page)
      if (decoded.Records.length !== Records.pageSize) {
        return yield* new BenchFailed({ message: `page ${page} has ${decoded.Records.length} records` })
      }
      requests.push(request)
      bytes += length
      iterator = decoded.NextShardIterator
    }
    return { requests, length: Math.round(bytes / Records.pages) }
  })

const seconds = Effect.map(Clock.currentTimeNanos, (nanos) => Number(nanos) / 1e9)

/** The server answers one request while the bytes of another are read. */
const connections = 2
const pagesARound = 100

interface Rival {
  readonly name: string
  readonly port: number
  readonly requests: ReadonlyArray<RawClient.Request>
}

/** Records a second, while the requests are repeated for a round. */
const round = ({ port, requests }: Rival) =>
  Effect.gen(function*() {
    const lanes = yield* Effect.replicateEffect(RawClient.connect(port), connections)
    const begin = yield* seconds
    yield* Effect.forEach(lanes, (lane) =>
      Effect.forEach(
        Array.from({ length: pagesARound }, (_, index) => requests[index % requests.length]),
        (request) => request === undefined ? Effect.void : lane(request),
        { discard: true }
      ), { concurrency: "unbounded", discard: true })
    return connections * pagesARound * Records.pageSize / ((yield* seconds) - begin)
  }).pipe(Effect.scoped)

const rivals = (form: Forms.Form, port: number) =>
  Effect.gen(function*() {
    const { length, requests } = yield* warmUp(form, port)
    const bytesPort = yield* ChildServer.start("localKinesis/bytesServer.js", { LENGTH: `${length}` })
    const rivals: ReadonlyArray<Rival> = [
      { name: `${form.name}, LocalKinesis`, port, requests },
      { name: `${form.name}, the same bytes`, port: bytesPort, requests }
    ]
    return rivals
  })

export const localKinesis: Bench = {
  name: "local-kinesis",
  description: "records of 200 bytes that LocalKinesis gives out by 10,000, to a client that decodes none",
  run: ({ rounds }) =>
    Effect.gen(function*() {
      const port = yield* ChildServer.start("localKinesis/kinesisServer.js")
      const all = (yield* Effect.forEach(Forms.forms, (form) => rivals(form, port))).flat()
      const measured = new Map<string, Array<number>>(all.map(({ name }) => [name, []]))
      yield* Effect.forEach(all, round, { discard: true })
      for (let index = 0; index < rounds; index++) {
        for (const rival of all) measured.get(rival.name)?.push(yield* round(rival))
      }
      const series: ReadonlyArray<Series> = all.map(({ name }) => ({
        name,
        unit: "records/s",
        values: measured.get(name) ?? []
      }))
      const [json, jsonBytes, cbor, cborBytes] = series.map(({ values }) => median(values))
      const ratio = (value = NaN, bytes = NaN) => Number((value / bytes).toFixed(3))
      return {
        series,
        summary: {
          recordsPerSecondJson: Math.round(json ?? NaN),
          recordsPerSecondCbor: Math.round(cbor ?? NaN),
          vsBytesJson: ratio(json, jsonBytes),
          vsBytesCbor: ratio(cbor, cborBytes)
        }
      }
    })
}
