/** The mutations, each true to its name. */
import type { Mutation } from "./mutation.js"

export const mutations: ReadonlyArray<Mutation> = [
  {
    name: "mark at enqueue",
    breaks: "What waits in the buffer counts as processed.",
    file: "internal/lane.js",
    changes: [{
      text: `        read: last.to
`,
      replacement: `        read: last.to,
        processed: last.to
`
    }]
  },
  {
    name: "publish before leases",
    breaks: "A shard is started although its lease is held by another member.",
    file: "internal/sync.js",
    changes: [{
      text: `        if (result === undefined || AcquireResult.$is("Held")(result)) {
            pending = true;
`,
      replacement: `        if (AcquireResult.$is("Held")(result)) {
            pending = true;
            started.push(yield* makeRun(acquisition, result.checkpoint));
            replaced.push(...Option.toArray(acquisition.resume));
        }
        else if (result === undefined) {
            pending = true;
`
    }]
  },
  {
    name: "ignore the epoch",
    breaks: "A commit is taken from any owner, under any epoch.",
    file: "internal/leaseRules.js",
    changes: [{ text: "if (!holds(current, owner, request)) {", replacement: "if (false) {" }]
  },
  {
    name: "start children early",
    breaks: "A shard is read before its parents are processed.",
    file: "internal/lineage.js",
    changes: [{
      text: ` &&
        shard.parents.every((parent) => ended.has(parent) || !listed.has(parent))`,
      replacement: ""
    }]
  },
  {
    name: "keep Latest for children",
    breaks: "A shard without a checkpoint starts at its tip when it is leased, and not at the stored start.",
    file: "internal/sync.js",
    changes: [{
      text: `        else {
            started.push(yield* makeRun(acquisition, result.checkpoint));`,
      replacement: `        else {
            const { list, stream } = acquisition;
            const start = list.start._tag === "AtTimestamp"
                ? yield* Effect.match(env.kinesis.describeStream(stream.id), {
                    onFailure: () => list.start,
                    onSuccess: ({ answeredAt }) => Position.atTimestamp(answeredAt)
                })
                : list.start;
            started.push(yield* makeRun({ ...acquisition, list: { ...list, start } }, result.checkpoint));`
    }]
  },
  {
    name: "advance the cursor before the offer",
    breaks: "The cursor moves when a page arrives, so that what is dropped from the buffer is never read again.",
    file: "internal/lane.js",
    changes: [
      {
        text: `        read: last.to
`,
        replacement: `        read: last.to,
        cursor: last.to
`
      },
      {
        text: `bytes,
            cursor: slice.to
`,
        replacement: `bytes
`
      }
    ]
  },
  {
    name: "skip the drain at hand-off",
    breaks: "The lease is given back at once, and what waits of the shard is delivered for one more sync interval.",
    file: "internal/assignment.js",
    changes: [
      {
        text: `                yield* Ref.set(run.status, "Leaving");
                yield* delivery.stopped(run);
`,
        replacement: ""
      },
      {
        text: `        yield* settled(run).pipe(Effect.timeoutOption(env.config.syncInterval), onFreshTurn);
`,
        replacement: `        yield* release(run);
        yield* Effect.sleep(env.config.syncInterval);
`
      },
      {
        text: `        if (yield* end(run))
            yield* release(run);
`,
        replacement: `        yield* end(run);
`
      }
    ]
  },
  {
    name: "wall-clock liveness",
    breaks: "Whether a member lives is judged by a clock that can jump.",
    file: "internal/monotonic.js",
    changes: [{
      text: "Number(clock.unsafeCurrentTimeNanos() / nanosPerMilli)",
      replacement: "clock.unsafeCurrentTimeMillis()"
    }]
  },
  {
    name: "rewind to the checkpoint on an expired iterator",
    breaks: "The next iterator is opened at the checkpoint, and not where reading had got to.",
    file: "internal/pollingReader.js",
    changes: [{
      text: "? Effect.succeed({ ...anew, failures: 1 })",
      replacement: `? Effect.as(
                    run.lane.modify((current) => [undefined, { ...current, read: current.committed }]),
                    { ...anew, failures: 1 }
                )`
    }]
  },
  {
    name: "swallow a failed commit",
    breaks: "A commit that failed or was not answered counts as written.",
    file: "internal/committer.js",
    changes: [{
      text: "restore(write(env, items)).pipe(",
      replacement: `restore(write(env, items)).pipe(
        Effect.orElseSucceed(() => items.map(() => ({ _tag: "Committed" }))),
        `
    }]
  },
  {
    name: "no self-fencing",
    breaks: "A member that could not reach the store for long goes on delivering.",
    file: "internal/membership.js",
    changes: [{
      text: `            if (!verified)
                return false;
            if ((yield* Monotonic.now) - beatAt < timeout)
`,
      replacement: ""
    }]
  },
  {
    name: "an end believed at its first sign",
    breaks: "A page without a next iterator ends the shard, whatever the list says.",
    file: "internal/readerSteps.js",
    changes: [{
      text: `    if (children.length > 0)
        return`,
      replacement: "    return"
    }]
  },
  {
    name: "a lost lease is not acted upon",
    breaks: "Whoever learns that a lease is somebody else's goes on reading the shard.",
    file: "internal/member.js",
    changes: [{
      text: "    const lost = (run) => Effect.gen(function* () {\n",
      replacement: "    const lost = (run) => Effect.gen(function* () {\n        return;\n"
    }]
  },
  {
    name: "dead too soon",
    breaks: "A member is dead after a fifth of the liveness timeout, which is less than lies between two heartbeats.",
    file: "internal/liveness.js",
    changes: [{ text: "now - sighting.since >= timeout", replacement: "now - sighting.since >= timeout / 5" }]
  },
  {
    name: "the buffer has no bound",
    breaks: "Whatever is asked for is granted.",
    file: "internal/budget.js",
    changes: [
      { text: "() => bounds.records - records >= enough && bytes < bounds.bytes", replacement: "() => true" },
      {
        text: "Math.max(enough, Math.min(wanted, Math.ceil((bounds.records - records) / part)))",
        replacement: "wanted"
      },
      {
        text: "records === 0 || (records + room.records <= bounds.records && bytes + room.bytes <= bounds.bytes)",
        replacement: "true"
      }
    ]
  },
  {
    name: "closing does not commit",
    breaks: "What was marked since the last commit is not written when a member leaves.",
    file: "internal/member.js",
    changes: [{
      text: `        yield* step("committing what was marked", 0.5, commitAll(committer.commit));
`,
      replacement: ""
    }]
  },
  {
    name: "every sync reads everything",
    breaks: "A sync that finds nothing new reads all rows again.",
    file: "internal/sync.js",
    changes: [{ text: "=> !seen.look && ", replacement: "=> false && " }]
  },
  {
    name: "a failed sync keeps its leases",
    breaks: "Leases of a round that failed are given back by nobody.",
    file: "internal/sync.js",
    changes: [
      {
        text: `    if (acquisitions.length === 0)
        return;
`,
        replacement: `    if (acquisitions)
        return;
`
      },
      { text: "if (plan.strays.length > 0) {", replacement: "if (false) {" }
    ]
  },
  {
    name: "a rewound stream skips what was not marked",
    breaks: "A run of the stream that begins anew goes on behind what the last one was handed.",
    file: "internal/lane.js",
    changes: [{
      text: "beginAt({ ...lane, marked: [] }, lane.processed)",
      replacement: "beginAt({ ...lane, marked: [] }, lane.cursor)"
    }]
  },
  {
    name: "each member resolves the start",
    breaks: "Latest means something else to each member that starts.",
    file: "internal/shardLists.js",
    changes: [{
      text: "    ? Effect.succeed(stored.value)\n",
      replacement: `    ? Effect.map(update(env, stream, Option.map((list) => ({
        ...list,
        version: list.version + 1,
        start: startOf(stream.startFrom, description)
    }))), ({ after }) => after)
`
    }]
  },
  {
    name: "a merged child waits for one parent",
    breaks: "A merged shard is put on the list before its other parent is.",
    file: "internal/lineage.js",
    changes: [{
      text:
        "children.filter(({ parents }) => parents.every((parent) => known.some(({ shardId }) => shardId === parent)))",
      replacement: "children"
    }]
  },
  {
    name: "a dropped event counts as received",
    breaks: "A subscription is renewed behind an event that found its shard elsewhere, and that nobody read.",
    file: "internal/fanOutReader.js",
    changes: [{
      text: `            if (Option.isNone(to))
                return progress;
`,
      replacement: `            if (Option.isNone(to)) {
                const { read } = yield* Ref.get(run.lane);
                const from = Option.match(event.continuation, { onNone: () => read, onSome: (last) => Position.afterSequence(last) });
                return { ...progress, continuation: Option.some({ at: read, from }) };
            }
`
    }]
  },
  {
    name: "a silent subscription is waited for",
    breaks: "A connection that is dead without a word keeps its shard for good.",
    file: "internal/fanOutReader.js",
    changes: [{ text: "duration: env.config.fanOut.watchdog,", replacement: "duration: \"1 day\"," }]
  },
  {
    name: "a consumer that vanished is not missed",
    breaks: "The group goes on asking for a consumer that was deregistered.",
    file: "internal/consumers.js",
    changes: [{ text: "renew: ask }", replacement: "renew: (_, arn) => Effect.succeed(arn) }" }]
  }
]
