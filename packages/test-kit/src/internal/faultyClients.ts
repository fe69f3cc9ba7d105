import type { StreamId } from "@kinesumer/core/KinesisClient"
import { KinesisClient } from "@kinesumer/core/KinesisClient"
import type { KinesisErrorReason } from "@kinesumer/core/KinesisError"
import { KinesisError } from "@kinesumer/core/KinesisError"
import { StateStore } from "@kinesumer/core/StateStore"
import type { StateStoreErrorReason } from "@kinesumer/core/StateStoreError"
import { StateStoreError } from "@kinesumer/core/StateStoreError"
import * as Option from "effect/Option"
import type { Engine } from "./faultEngine.js"
import type { KinesisOperation, StoreOperation } from "./faultModel.js"
import * as FaultStream from "./faultStream.js"
import * as ItemFaults from "./itemFaults.js"

const detail = "a fault of the test"

const given = (member: string | undefined): ReadonlyArray<string> => member === undefined ? [] : [member]

/**
 * Leads every call to Kinesis through the faults.
 *
 * @internal
 */
export const kinesis = (
  engine: Engine,
  client: KinesisClient["Type"],
  member: string | undefined
): KinesisClient["Type"] => {
  const { run } = engine
  const members = given(member)
  const about = (stream: StreamId, shardId?: string) => ({
    members,
    targets: [{ streams: [stream.name, ...Option.toArray(stream.arn)], shardId }]
  })
  const label = (stream: StreamId | string) =>
    typeof stream === "string" ? stream : Option.getOrElse(stream.arn, () => stream.name)
  const error =
    (operation: KinesisOperation, stream: StreamId | string = "", shardId?: string) => (reason: KinesisErrorReason) =>
      new KinesisError({
        reason,
        operation,
        stream: label(stream),
        shardId,
        detail
      })
  return KinesisClient.of({
    fallback: client.fallback,
    region: run({
      operation: "region",
      members,
      targets: [],
      args: [],
      error: error("region"),
      send: () => client.region
    }),
    describeStream: (stream) =>
      run({
        operation: "describeStream",
        ...about(stream),
        args: [stream],
        error: error("describeStream", stream),
        send: (args) => client.describeStream(...args)
      }),
    listShards: (stream, nextToken) =>
      run({
        operation: "listShards",
        ...about(stream),
        args: [stream, nextToken],
        page: Option.getOrUndefined(nextToken),
        error: error("listShards", stream),
        send: (args) => client.listShards(...args)
      }),
    getShardIterator: (stream, shardId, position) =>
      run({
        operation: "getShardIterator",
        ...about(stream, shardId),
        args: [stream, shardId, position],
        error: error("getShardIterator", stream, shardId),
        send: (args) => client.getShardIterator(...args)
      }),
    getRecords: (stream, shardId, options) =>
      run({
        operation: "getRecords",
        ...about(stream, shardId),
        args: [stream, shardId, options],
        error: error("getRecords", stream, shardId),
        send: (args) => client.getRecords(...args)
      }),
    registerConsumer: (streamArn, name) =>
      run({
        operation: "registerConsumer",
        members,
        targets: [target(streamArn)],
        args: [streamArn, name],
        error: error("registerConsumer", streamArn),
        send: (args) => client.registerConsumer(...args)
      }),
    describeConsumer: (streamArn, name) =>
      run({
        operation: "describeConsumer",
        members,
        targets: [target(streamArn)],
        args: [streamArn, name],
        error: error("describeConsumer", streamArn),
        send: (args) => client.describeConsumer(...args)
      }),
    listConsumers: (streamArn, nextToken) =>
      run({
        operation: "listConsumers",
        members,
        targets: [target(streamArn)],
        args: [streamArn, nextToken],
        page: Option.getOrUndefined(nextToken),
        error: error("listConsumers", streamArn),
        send: (args) => client.listConsumers(...args)
      }),
    deregisterConsumer: (streamArn, name) =>
      run({
        operation: "deregisterConsumer",
        members,
        targets: [target(streamArn)],
        args: [streamArn, name],
        error: error("deregisterConsumer", streamArn),
        send: (args) => client.deregisterConsumer(...args)
      }),
    subscribeToShard: (stream, shardId, options) =>
      FaultStream.run(engine, {
        operation: "subscribeToShard",
        ...about(stream, shardId),
        args: [stream, shardId, options],
        error: error("subscribeToShard", stream, shardId),
        send: (args) => client.subscribeToShard(...args)
      })
  })
}

const target = (stream: string, shardId?: string) => ({ streams: [stream], shardId })

const error = (operation: StoreOperation) => (reason: StateStoreErrorReason) =>
  new StateStoreError({ reason, operation, detail })

/**
 * Leads every call to the state store through the faults.
 *
 * @internal
 */
export const stateStore = (
  { run }: Engine,
  store: StateStore["Type"],
  member: string | undefined
): StateStore["Type"] => {
  const members = given(member)
  const membersOf = (owner: { readonly memberId: string }) => [...members, owner.memberId]
  return StateStore.of({
    registerMember: (app, row) =>
      run({
        operation: "registerMember",
        members: membersOf(row),
        app,
        targets: [],
        args: [app, row],
        error: error("registerMember"),
        send: (args) => store.registerMember(...args)
      }),
    heartbeat: (app, row) =>
      run({
        operation: "heartbeat",
        members: membersOf(row),
        app,
        targets: [],
        args: [app, row],
        error: error("heartbeat"),
        send: (args) => store.heartbeat(...args)
      }),
    deregisterMember: (app, owner) =>
      run({
        operation: "deregisterMember",
        members: membersOf(owner),
        app,
        targets: [],
        args: [app, owner],
        error: error("deregisterMember"),
        send: (args) => store.deregisterMember(...args)
      }),
    listMembers: (app) =>
      run({
        operation: "listMembers",
        members,
        app,
        targets: [],
        args: [app],
        error: error("listMembers"),
        send: (args) => store.listMembers(...args)
      }),
    pruneMembers: (app, dead) =>
      run({
        operation: "pruneMembers",
        members,
        app,
        targets: [],
        args: [app, dead],
        error: error("pruneMembers"),
        send: (args) => store.pruneMembers(...args)
      }),
    listShardVersions: (app) =>
      run({
        operation: "listShardVersions",
        members,
        app,
        targets: [],
        args: [app],
        error: error("listShardVersions"),
        send: (args) => store.listShardVersions(...args)
      }),
    getShards: (app, stream) =>
      run({
        operation: "getShards",
        members,
        app,
        targets: [target(stream)],
        args: [app, stream],
        error: error("getShards"),
        send: (args) => store.getShards(...args)
      }),
    updateShards: (app, stream, list) =>
      run({
        operation: "updateShards",
        members,
        app,
        targets: [target(stream)],
        args: [app, stream, list],
        error: error("updateShards"),
        send: (args) => store.updateShards(...args)
      }),
    listCheckpoints: (app, stream) =>
      run({
        operation: "listCheckpoints",
        members,
        app,
        targets: [target(stream)],
        args: [app, stream],
        error: error("listCheckpoints"),
        send: (args) => store.listCheckpoints(...args)
      }),
    acquireLeases: (app, owner, requests) =>
      run({
        operation: "acquireLeases",
        members: membersOf(owner),
        app,
        targets: requests.map((request) => target(request.stream, request.shardId)),
        args: [app, owner, requests],
        error: error("acquireLeases"),
        send: ([app, owner, requests], faults) =>
          ItemFaults.send(requests, faults, "acquireLeases", (requests) => store.acquireLeases(app, owner, requests))
      }),
    releaseLeases: (app, owner, leases) =>
      run({
        operation: "releaseLeases",
        members: membersOf(owner),
        app,
        targets: leases.map((lease) => target(lease.stream, lease.shardId)),
        args: [app, owner, leases],
        error: error("releaseLeases"),
        send: (args) => store.releaseLeases(...args)
      }),
    commitCheckpoints: (app, owner, commits) =>
      run({
        operation: "commitCheckpoints",
        members: membersOf(owner),
        app,
        targets: commits.map((commit) => target(commit.stream, commit.shardId)),
        args: [app, owner, commits],
        error: error("commitCheckpoints"),
        send: ([app, owner, commits], faults) =>
          ItemFaults.send(
            commits,
            faults,
            "commitCheckpoints",
            (commits) => store.commitCheckpoints(app, owner, commits)
          )
      }),
    removeCheckpoints: (app, stream, shardIds) =>
      run({
        operation: "removeCheckpoints",
        members,
        app,
        targets: [target(stream), ...shardIds.map((shardId) => target(stream, shardId))],
        args: [app, stream, shardIds],
        error: error("removeCheckpoints"),
        send: (args) => store.removeCheckpoints(...args)
      })
  })
}
