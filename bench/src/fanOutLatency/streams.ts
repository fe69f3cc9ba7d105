/** Each rival has a stream to itself, so that none gets what is meant for another. */
export const bare = "bare"
export const group = "group"

export const region = "us-east-1"
export const credentials = { accessKeyId: "bench", secretAccessKey: "bench" }

export const endpointOf = (port: number): string => `http://127.0.0.1:${port}`
