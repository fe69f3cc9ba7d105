/**
 * What lies between a member and its services. A request is carried by the network, not by whoever sent it: one that was
 * given up, or whose sender was killed, still arrives.
 *
 * @internal
 */
import { KinesisClient } from "@kinesumer/core/KinesisClient"
import { StateStore } from "@kinesumer/core/StateStore"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import type { Chance } from "./chance.js"
import type { Process, World } from "./world.js"

/** @internal */
export interface Link {
  /** The longest way to the service and back, each, in milliseconds. */
  millis: number
}

/** Most calls of a quiet network take no time that matters. */
const quiet = 0.7

/** @internal */
export const make = (world: World, network: Process, chance: Chance) => {
  const way = (link: Link): number =>
    link.millis === 0 || (link.millis < 100 && chance.happens(quiet)) ? 0 : chance.between(1, link.millis)
  return (link: Link) => <A, E>(call: Effect.Effect<A, E>): Effect.Effect<A, E> =>
    Effect.suspend(() => {
      const there = way(link)
      const back = way(link)
      // Nothing can come between a request and an answer that take no time.
      if (there + back === 0) return world.atomically(call)
      return Effect.sleep(there).pipe(
        Effect.zipRight(Effect.exit(world.atomically(call))),
        Effect.zipLeft(Effect.sleep(back)),
        network.within,
        Effect.forkDaemon,
        // The sender may stop waiting; the request goes on.
        Effect.flatMap(Fiber.await),
        Effect.flatten,
        Effect.flatten
      )
    })
}

/** @internal */
export type Carry = ReturnType<ReturnType<typeof make>>

/** @internal */
export const kinesis = (client: KinesisClient["Type"], carry: Carry): KinesisClient["Type"] =>
  KinesisClient.of({
    ...client,
    region: carry(client.region),
    describeStream: (...args) => carry(client.describeStream(...args)),
    listShards: (...args) => carry(client.listShards(...args)),
    getShardIterator: (...args) => carry(client.getShardIterator(...args)),
    getRecords: (...args) => carry(client.getRecords(...args)),
    registerConsumer: (...args) => carry(client.registerConsumer(...args)),
    describeConsumer: (...args) => carry(client.describeConsumer(...args)),
    listConsumers: (...args) => carry(client.listConsumers(...args)),
    deregisterConsumer: (...args) => carry(client.deregisterConsumer(...args)),
    // Events keep their order on one connection, so each comes after the way of the one before it.
    subscribeToShard: (...args) =>
      Stream.fromEffect(carry(Effect.void)).pipe(
        Stream.flatMap(() => client.subscribeToShard(...args)),
        Stream.tap(() => carry(Effect.void))
      )
  })

/** @internal */
export const stateStore = (store: StateStore["Type"], carry: Carry): StateStore["Type"] =>
  StateStore.of({
    registerMember: (...args) => carry(store.registerMember(...args)),
    heartbeat: (...args) => carry(store.heartbeat(...args)),
    deregisterMember: (...args) => carry(store.deregisterMember(...args)),
    listMembers: (...args) => carry(store.listMembers(...args)),
    pruneMembers: (...args) => carry(store.pruneMembers(...args)),
    listShardVersions: (...args) => carry(store.listShardVersions(...args)),
    getShards: (...args) => carry(store.getShards(...args)),
    updateShards: (...args) => carry(store.updateShards(...args)),
    listCheckpoints: (...args) => carry(store.listCheckpoints(...args)),
    acquireLeases: (...args) => carry(store.acquireLeases(...args)),
    releaseLeases: (...args) => carry(store.releaseLeases(...args)),
    commitCheckpoints: (...args) => carry(store.commitCheckpoints(...args)),
    removeCheckpoints: (...args) => carry(store.removeCheckpoints(...args))
  })
