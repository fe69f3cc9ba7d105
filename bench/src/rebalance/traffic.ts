/** What the consumers have to do. */

/** Each shard gets a record so often, each at its own time. */
export const putMillis = 500
export const tickMillis = 10

export const phaseOf = (index: number): number => (index * 7 % (putMillis / tickMillis)) * tickMillis

/** Each record keeps its handler busy for so long. */
export const handling = "2 millis"
