// The fold of a session's events that every view shows: the same as `jaato.client.state` in Python, to the byte.
// Whoever applies the same events, from the first or from a snapshot on, has the same state.

import { isRawNumber } from "./exact-json.ts";
import { EPHEMERAL } from "./types.ts";
import type * as protocol from "./types.ts";

type Mutable<T> = { -readonly [K in keyof T]-?: T[K] };

export type Entry =
  | protocol.MessageUser
  | protocol.MessageModel
  | protocol.ToolCallEnd
  | protocol.TurnCompleted
  | protocol.GcCompleted;
export type Question = protocol.PermissionRequested | protocol.ClarificationQuestion;

/** One agent of a session. `streaming` is the text that arrives just now, by kind. */
export interface AgentView extends Omit<Mutable<protocol.AgentView>, "streaming" | "queued" | "plans"> {
  streaming: Record<string, string>;
  queued: Record<string, protocol.Message>;
  plans: Record<string, protocol.Plan>;
}

export type CallView = Mutable<protocol.CallView>;

type Kept = "agents" | "entries" | "calls" | "background_calls" | "questions" | "tasks" | "shared" | "waypoints" | "files";

/** A session. Only `apply` changes it. */
export interface State extends Omit<Mutable<protocol.State>, Kept | "activated"> {
  agents: Record<string, AgentView>;
  entries: Entry[];
  calls: Record<string, CallView>;
  background_calls: Record<string, CallView>;
  questions: Record<string, Question>;
  tasks: Record<string, protocol.BackgroundUpdated>;
  shared: Record<string, unknown>;
  waypoints: Record<string, protocol.Waypoint>;
  files: Record<string, protocol.FileChange>;
  activated: string[];
}

/** Entries a state keeps. */
const WINDOW = 200;
/** About how many characters they may have; the newest entry is kept whatever it has. */
const WINDOW_CHARS = 400_000;
/** Changed files a state keeps. */
const FILES = 200;
/** Characters kept of what a running call prints. */
const OUTPUT_CHARS = 16_000;

/** A state before the first event. */
export function emptyState(): State {
  return {
    session_id: "", seq: 0, workspace: "", name: null, description: null, created_at: "", updated_at: "",
    provider: "", model: "", mode: null, root_agent_id: "", agents: record(), entries: [], earlier: 0, chars: 0,
    calls: record(), questions: record(), tasks: record(), background_calls: record(), shared: record(), waypoints: record(), waypoint: "",
    files: record(), files_left_out: 0, commands: [], memories: [], memory_count: 0, activated: [], disabled: [],
    open_turn: null, turns: 0, usage: {}, cost_usd: 0, unpriced: false, problem: null,
  };
}

/** A state from a snapshot, which leaves out what has its default. */
export function loadState(sent: protocol.State): State {
  const { agents, entries, calls, questions, tasks, background_calls, shared, waypoints, files, activated, ...plain } = sent;
  return {
    ...emptyState(),
    ...plain,
    agents: record(mapped(agents ?? {}, loadAgent)),
    entries: [...(entries ?? [])],
    calls: mapped(calls ?? {}, loadCall),
    background_calls: mapped(background_calls ?? {}, loadCall),
    questions: record(questions),
    tasks: record(tasks),
    shared: record(shared),
    waypoints: record(waypoints),
    files: record(files),
    activated: [...(activated ?? [])],
  };
}

function loadAgent(sent: protocol.AgentView): AgentView {
  const { streaming, queued, plans, ...plain } = sent;
  return { ...emptyAgent(sent.id), ...plain, streaming: record(streaming), queued: record(queued), plans: record(plans) };
}

function loadCall(sent: protocol.CallView): CallView {
  return { output: "", output_start: 0, ...sent };
}

function emptyAgent(id: string): AgentView {
  return {
    id, name: "", provider: "", model: "", parent_agent_id: null, status: "idle", reason: null, streaming: record(),
    queued: record(), plans: record(), plan_id: null, context_tokens: 0, context_limit: null, summary: null,
    working: false,
  };
}

/** An object without a prototype, so that no key from outside has a meaning. */
function record<T>(items: Readonly<Record<string, T>> = {}): Record<string, T> {
  return Object.assign(Object.create(null) as Record<string, T>, items);
}

function mapped<T, U>(items: Readonly<Record<string, T>>, change: (item: T) => U): Record<string, U> {
  const made: Record<string, U> = record();
  for (const [key, item] of Object.entries(items)) made[key] = change(item);
  return made;
}

/** Take one event in; changes the state. */
export function apply(state: State, event: protocol.ProtocolEvent): void {
  if (!EPHEMERAL.has(event.type)) {
    if (event.seq <= state.seq) return;
    state.seq = event.seq;
    state.updated_at = event.timestamp;
  }
  switch (event.type) {
    case "agent.output":
      return applyOutput(agentOf(state, event.agent_id), event);
    case "tool.output":
      return applyToolOutput(state, event);
    case "message.user":
    case "message.model":
    case "tool.call_end":
    case "turn.completed":
    case "gc.completed":
      return applyEntry(state, event);
    case "tool.call_start": {
      const { call_id, agent_id, tool, arguments: given, timestamp } = event;
      const started = { call_id, agent_id, tool, arguments: given, started_at: timestamp };
      state.calls[call_id] = { ...started, output: "", output_start: 0 };
      return;
    }
    case "permission.requested":
    case "clarification.question":
      state.questions[event.question_id] = event;
      return;
    case "permission.resolved":
    case "clarification.resolved":
      delete state.questions[event.question_id];
      return;
    default:
      return applyRest(state, event);
  }
}

/** Apply the less frequent events. */
function applyRest(state: State, event: protocol.ProtocolEvent): void {
  switch (event.type) {
    case "session.created":
      state.session_id = event.session_id;
      state.workspace = event.workspace;
      state.name = event.name ?? null;
      state.created_at = event.timestamp;
      return;
    case "session.updated":
      state.name = event.name ?? state.name;
      state.description = event.description ?? state.description;
      state.provider = event.provider || state.provider;
      state.model = event.model || state.model;
      state.mode = event.mode ?? state.mode;
      return;
    case "agent.created":
      return applyAgentCreated(state, event);
    case "agent.status_changed": {
      const agent = agentOf(state, event.agent_id);
      agent.status = event.status;
      agent.reason = event.reason ?? null;
      return;
    }
    case "agent.completed": {
      const agent = agentOf(state, event.agent_id);
      agent.status = event.success ? "done" : "error";
      agent.reason = null;
      agent.summary = event.summary ?? null;
      agent.working = false;
      agent.streaming = record();
      return;
    }
    case "retry":
      agentOf(state, event.agent_id).streaming = record();
      return;
    case "context.updated": {
      const agent = agentOf(state, event.agent_id);
      agent.context_tokens = event.total_tokens;
      agent.context_limit = event.context_limit;
      return;
    }
    case "error":
      state.problem = event.error;
      return;
    case "session.info":
      if (event.live) applyLive(state, event.live);
      return;
    default:
      return applyLists(state, event);
  }
}

/** Apply what joins and leaves. */
function applyLists(state: State, event: protocol.ProtocolEvent): void {
  switch (event.type) {
    case "mid_turn.queued": {
      const agent = agentOf(state, event.agent_id);
      agent.queued[event.message.id ?? ""] = event.message;
      if (event.message.source === "parent" && event.agent_id !== state.root_agent_id) agent.working = true;
      return;
    }
    case "mid_turn.injected":
      delete agentOf(state, event.agent_id).queued[event.message_id];
      return;
    case "plan.updated": {
      const agent = agentOf(state, event.agent_id);
      agent.plans[event.plan.id] = event.plan;
      agent.plan_id = event.plan.id;
      return;
    }
    case "plan.cleared": {
      const agent = agentOf(state, event.agent_id);
      delete agent.plans[event.plan_id];
      if (agent.plan_id === event.plan_id) agent.plan_id = null;
      return;
    }
    case "background.updated":
      if (event.status === "running") state.tasks[event.task_id] = event;
      else {
        delete state.tasks[event.task_id];
        delete state.background_calls[event.call_id ?? ""];
      }
      return;
    case "tool.activated":
      // as in Python, a name that the event repeats is taken as often
      state.activated.push(...event.tools.filter((name) => !state.activated.includes(name)));
      return;
    case "waypoint.updated":
      if (event.action === "deleted") delete state.waypoints[event.waypoint.id];
      else state.waypoints[event.waypoint.id] = event.waypoint;
      state.waypoint = event.current;
      return;
    case "shared.updated":
      if (event.gone) delete state.shared[event.key];
      else state.shared[event.key] = event.value ?? null;
      return;
    case "tools.status":
      state.disabled = event.disabled;
      return;
    case "workspace.files_changed":
      return applyFileChanges(state, event);
    case "command.list":
      state.commands = event.commands;
      return;
    case "memory.list":
      state.memories = event.memories;
      state.memory_count = event.total ?? 0;
      return;
  }
}

function applyFileChanges(state: State, event: protocol.WorkspaceFilesChanged): void {
  state.files_left_out += event.more ?? 0;
  for (const change of event.files) {
    const before = state.files[change.path];
    delete state.files[change.path];
    const now = before === undefined ? change : joinChanges(before, change);
    if (now !== null) state.files[change.path] = now;
  }
  const paths = Object.keys(state.files);
  for (const path of paths.slice(0, Math.max(0, paths.length - FILES))) {
    delete state.files[path];
    state.files_left_out += 1;
  }
}

/** Both changes of a file as one; null where it came and went. */
function joinChanges(first: protocol.FileChange, later: protocol.FileChange): protocol.FileChange | null {
  if (first.change === "created" && later.change === "deleted") return null;
  let change: protocol.FileChange["change"] = "modified";
  if (first.change === "created" || later.change === "deleted") {
    change = later.change === "deleted" ? "deleted" : first.change;
  }
  const counted = first.change !== "deleted" && later.change === "modified";
  const sum = (one?: number | null, other?: number | null) => (counted && one != null && other != null ? one + other : null);
  return {
    path: first.path,
    change,
    added: sum(first.added, later.added),
    removed: sum(first.removed, later.removed),
    directory: later.directory ?? false,
  };
}

/** Whether its agents are at work, or were when they were interrupted. */
export function isUnfinished(state: State): boolean {
  return state.open_turn !== null || Object.values(state.agents).some((agent) => agent.working);
}

/** The agent an event is about, made known if it is not. */
function agentOf(state: State, id: string): AgentView {
  return (state.agents[id] ??= emptyAgent(id));
}

function applyAgentCreated(state: State, event: protocol.AgentCreated): void {
  const agent = agentOf(state, event.agent_id);
  agent.name = event.name;
  agent.provider = event.provider;
  agent.model = event.model;
  agent.parent_agent_id = event.parent_agent_id ?? null;
  agent.working = agent.parent_agent_id !== null;
  if (agent.parent_agent_id === null) {
    state.root_agent_id = event.agent_id;
    state.provider = event.provider;
    state.model = event.model;
  }
}

/** Append streamed text; a repeated chunk changes nothing. */
function applyOutput(agent: AgentView, event: protocol.AgentOutput): void {
  const before = agent.streaming[event.source] ?? "";
  const offset = event.offset ?? 0;
  if (event.mode === "write" && offset === 0) agent.streaming[event.source] = event.text;
  else agent.streaming[event.source] = sliceChars(before, 0, offset) + event.text;
}

/** Output of a call that runs, also in the background: the newest of it. */
function applyToolOutput(state: State, event: protocol.ToolOutput): void {
  const call = state.calls[event.call_id] ?? state.background_calls[event.call_id];
  if (call === undefined) return;
  const offset = event.offset ?? 0;
  const held = sliceChars(call.output, 0, Math.max(0, offset - call.output_start)) + event.text;
  const length = countChars(held);
  const surplus = Math.max(0, length - OUTPUT_CHARS);
  call.output = surplus ? sliceChars(held, surplus) : held;
  call.output_start = offset + countChars(event.text) - length + surplus;
}

/** Take in what no log holds. */
function applyLive(state: State, live: protocol.Live): void {
  for (const [id, known] of Object.entries(live.agents ?? {})) {
    const agent = state.agents[id];
    if (agent === undefined) continue;
    agent.status = known.status ?? "idle";
    agent.reason = known.reason ?? null;
    agent.streaming = record(known.streaming);
    agent.context_tokens = known.context_tokens ?? 0;
    agent.context_limit = known.context_limit ?? null;
  }
  for (const [id, [start, text]] of Object.entries(live.outputs ?? {})) {
    const call = state.calls[id] ?? state.background_calls[id];
    if (call === undefined) continue;
    call.output_start = start;
    call.output = text;
  }
  state.commands = live.commands ?? [];
  state.memories = live.memories ?? [];
  state.memory_count = live.memory_count ?? 0;
}

/** Apply an event of the conversation. */
function applyEntry(state: State, event: Entry): void {
  switch (event.type) {
    case "message.user":
      state.problem = null;
      if (event.agent_id === state.root_agent_id) state.open_turn = event.turn_id;
      else agentOf(state, event.agent_id).working = true;
      break;
    case "message.model": {
      const agent = agentOf(state, event.agent_id);
      agent.streaming = record();
      if (event.context_tokens) {
        agent.context_tokens = event.context_tokens;
        agent.context_limit = event.context_limit ?? null;
      }
      addUsage(state, event);
      break;
    }
    case "tool.call_end": {
      const call = state.calls[event.call_id];
      delete state.calls[event.call_id];
      if (call && Object.values(state.tasks).some((task) => task.call_id === event.call_id)) state.background_calls[event.call_id] = call;
      break;
    }
    case "gc.completed":
      addUsage(state, event);
      if (event.problem == null) agentOf(state, event.agent_id).context_tokens = event.tokens_after;
      break;
    case "turn.completed":
      agentOf(state, event.agent_id).streaming = record();
      if (event.agent_id === state.root_agent_id) {
        state.open_turn = null;
        state.turns += 1;
      }
  }
  state.entries.push(event);
  state.chars += sizeOf(event);
  while (state.entries.length > 1 && (state.entries.length > WINDOW || state.chars > WINDOW_CHARS)) {
    state.chars -= sizeOf(state.entries.shift()!);
    state.earlier += 1;
  }
}

/** Add what a model call has used: a reply, or a summary. */
function addUsage(state: State, event: protocol.MessageModel | protocol.GcCompleted): void {
  if (event.usage == null) return;
  const total: Record<string, number> = { ...state.usage };
  for (const [name, tokens] of Object.entries(event.usage)) total[name] = (total[name] ?? 0) + tokens;
  state.usage = total;
  state.unpriced ||= event.cost_usd == null;
  state.cost_usd += event.cost_usd ?? 0;
}

/** About how many characters an entry has. */
function sizeOf(entry: Entry): number {
  switch (entry.type) {
    case "message.user":
    case "message.model":
      return messageChars(entry.message);
    case "tool.call_end":
      return resultChars(entry.result);
    case "gc.completed":
      return (entry.added ?? []).reduce((sum, placed) => sum + messageChars(placed.message), 0);
  }
  return 100;
}

function messageChars(message: protocol.Message): number {
  let chars = 100;
  for (const part of message.parts) {
    switch (part.type) {
      case "text":
      case "thinking":
      case "refusal":
        chars += countChars(part.text);
        break;
      case "tool_call":
        chars += 50 + valueChars(part.arguments);
        break;
      case "tool_result":
        chars += resultChars(part);
    }
  }
  return chars;
}

function valueChars(value: unknown): number {
  if (typeof value === "string") return countChars(value);
  if (Array.isArray(value)) return value.reduce((sum: number, inner) => sum + valueChars(inner), 0);
  if (typeof value === "object" && value !== null && !isRawNumber(value)) {
    return Object.entries(value).reduce((sum, [key, inner]) => sum + countChars(key) + valueChars(inner), 0);
  }
  return 4;
}

function resultChars(result: protocol.ToolResult): number {
  return (result.content ?? []).reduce((sum, item) => sum + (item.type === "text" ? countChars(item.text) : 0), 100);
}

/** A character outside the Basic Multilingual Plane, which JavaScript counts as two. */
const PAIR = /[\ud800-\udbff][\udc00-\udfff]/g;

/** The number of characters (code points), as offsets of the protocol count them. */
function countChars(text: string): number {
  let pairs = 0;
  PAIR.lastIndex = 0;
  while (PAIR.test(text)) pairs += 1;
  return text.length - pairs;
}

/** `text` from one character to before another, counted as the protocol does. */
function sliceChars(text: string, start: number, end?: number): string {
  return text.slice(unitOf(text, start), end === undefined ? undefined : unitOf(text, end));
}

/** The index in UTF-16 units of a character. */
function unitOf(text: string, char: number): number {
  if (char >= text.length) return text.length;
  let unit = char;
  PAIR.lastIndex = 0;
  for (let pair = PAIR.exec(text); pair !== null && pair.index < unit; pair = PAIR.exec(text)) unit += 1;
  return unit;
}
