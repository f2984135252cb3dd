// Calls functions of the page's texts and wording, one JSON array [name, argument, …] a line on standard input, and prints each result.

import { createInterface } from "node:readline";

import * as text from "../src/page/text.ts";
import * as wording from "../src/page/wording.ts";

const functions = { ...text, ...wording } as unknown as Record<string, (...given: unknown[]) => string>;
for await (const line of createInterface({ input: process.stdin })) {
  const [name, ...given] = JSON.parse(line) as [string, ...unknown[]];
  process.stdout.write(`${JSON.stringify(functions[name]!(...given))}\n`);
}
