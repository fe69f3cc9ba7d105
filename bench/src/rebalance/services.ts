/** Where the servers on this machine are. */
export const table = "bench"

export const at = (port: number) => ({
  endpoint: `http://127.0.0.1:${port}`,
  region: "us-east-1",
  credentials: { accessKeyId: "bench", secretAccessKey: "bench" }
})
