/**
 * In-memory Kinesis, fault injection and contract suites for testing Kinesumer consumers.
 *
 * @since 0.1.0
 */
export * as Faults from "./Faults.js"
export * as KinesisFaults from "./KinesisFaults.js"
export * as LocalKinesis from "./LocalKinesis.js"
export * as LocalServerError from "./LocalServerError.js"
export * as LocalServers from "./LocalServers.js"
export * as Simulation from "./Simulation.js"
export * as TestKinesis from "./TestKinesis.js"
