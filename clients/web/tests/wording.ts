// Calls functions of the page's wording, one JSON array [name, argument, …] a line on standard input, and prints each result.

import { createInterface } from "node:readline";

import * as wording from "../src/page/wording.ts";

const functions = wording as unknown as Record<string, (...given: unknown[]) => string>;
for await (const line of createInterface({ input: process.stdin })) {
  const [name, ...given] = JSON.parse(line) as [string, ...unknown[]];
  process.stdout.write(`${JSON.stringify(functions[name]!(...given))}\n`);
}
