export const median = (values: ReadonlyArray<number>): number => {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  const [low = NaN, high = NaN] = [sorted[Math.ceil(sorted.length / 2) - 1], sorted[middle]]
  return (low + high) / 2
}

/** From the least to the most, as a part of the median. */
export const spread = (values: ReadonlyArray<number>): number => {
  const width = Math.max(...values) - Math.min(...values)
  return width === 0 ? 0 : width / median(values)
}

/** The value that this part of all is at most, by rank. */
export const quantile = (values: ReadonlyArray<number>, part: number): number =>
  [...values].sort((a, b) => a - b)[Math.max(0, Math.ceil(values.length * part) - 1)] ?? NaN

/** What of each round one has for one of the other, both of which were measured in the same minute. */
export const ratios = (self: ReadonlyArray<number>, that: ReadonlyArray<number>): ReadonlyArray<number> =>
  self.map((value, index) => value / (that[index] ?? NaN))
