// Folds sequences of events, one JSON array a line on standard input, and prints the state after each.
// A sequence may begin with a snapshot: {"state": …}.

import { createInterface } from "node:readline";

import { apply, emptyState, loadState } from "../src/client/state.ts";
import type { ProtocolEvent, State } from "../src/client/types.ts";

for await (const line of createInterface({ input: process.stdin })) {
  const [first, ...rest] = JSON.parse(line) as ({ state: State } & ProtocolEvent)[];
  const state = first?.state && first.type === undefined ? loadState(first.state) : emptyState();
  for (const event of first?.state && first.type === undefined ? rest : [first!, ...rest]) apply(state, event);
  process.stdout.write(`${JSON.stringify(state)}\n`);
}
