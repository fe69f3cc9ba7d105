/** What a record of the demo carries: the how-manieth of its stream and partition key it is, from 1 on. */
export const encode = (number: number): Uint8Array => new TextEncoder().encode(`${number}`)

export const decode = (data: Uint8Array): number => Number(new TextDecoder().decode(data))
