// The client for browsers and Node.js: connect, watch sessions, send, answer, stop; reconnects and resumes by itself.

export { Client, Session, newKey, type ClientOptions } from "./client.ts";
export { CommandError, type Command, type Status } from "./connection.ts";
export { apply, emptyState, isUnfinished, loadState, type AgentView, type CallView, type Entry, type Question, type State } from "./state.ts";
export type * from "./types.ts";
