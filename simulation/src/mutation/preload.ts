/** Loaded before everything else in a child process that is to be mutated. */
import { register } from "node:module"
import * as Applied from "./applied.js"

const name = Applied.wanted()
if (name !== undefined) register("./hooks.js", import.meta.url, { data: Applied.find(name) })
