// The MCP servers of a session: their states, what they offer, and why one does not work.

import type { ProtocolEvent } from "../client/index.ts";
import { useCommandData } from "./command-data.ts";
import { isOwner, type View } from "./store.ts";
import { ago, counted, oneLine, visible } from "./text.ts";

/** A row of `/mcp json`, as the tool `mcp_servers` gives it. */
interface Row {
  name: string;
  state: string;
  kind: string;
  scope: string;
  sandbox?: string;
  why?: string;
  last_start?: string;
  last_error?: string;
  protocol?: string;
  tools?: number;
  prompts?: number;
  resources?: number;
  seen_s_ago?: number;
  held_back?: string[];
  left_out?: string[];
}

interface Servers {
  servers: Row[];
  problems?: string[];
  hint?: string;
}

/** A state in words, with its mark and the colour of an agent's state. */
const STATES: Record<string, [text: string, mark: string, colour: string]> = {
  started: ["running", "●", "active"], starting: ["starting", "●", "active"], failed: ["failed", "✕", "error"],
  "needs trust": ["needs trust", "?", "blocked"], "needs login": ["needs login", "?", "blocked"],
  known: ["not running; starts when it is used", "○", "idle"], configured: ["not started yet", "○", "idle"],
  "switched off": ["switched off in its configuration", "–", "idle"],
};
/** The first revision of the protocol without a handshake. */
const STATELESS = "2026-";

function concerns(event: ProtocolEvent): boolean {
  return event.type === "turn.completed" || event.type === "tool.call_end" || event.type === "tool.activated";
}

export function McpServers({ view }: { view: View }) {
  if (!isOwner(view.client)) return <p class="muted">Only a browser that is paired as owner can see and start MCP servers.</p>;
  return <Loaded view={view} />;
}

function Loaded({ view }: { view: View }) {
  const { data, error, busy, run, reload } = useCommandData<Servers>(view, "mcp", "json", concerns);
  const again = <button type="button" class="button small" disabled={busy} onClick={reload}>{data ? "Refresh" : "Try again"}</button>;
  if (!data) return error ? <><p role="alert" class="error-text">{visible(error)}</p>{again}</> : <p role="status" class="muted">Loading…</p>;
  const isInRow = data.servers.some((row) => row.why && error.startsWith(row.why.slice(0, 80)));
  return (
    <>
      {again}
      <p role="status" class="sr-only">{busy ? "Connecting" : ""}</p>
      <p role="alert" class={isInRow ? "sr-only" : "error-text"}>{visible(error)}</p>
      {data.servers.length ? <ul class="plain-list" aria-label="MCP servers">{data.servers.map((row) => <li key={row.name}><Server row={row} busy={busy} start={() => void run("mcp", `${row.state === "started" ? "restart" : "connect"} ${row.name}`)} /></li>)}</ul>
        : <p class="muted">No MCP server is configured. <code>jaato mcp add</code> adds one.</p>}
      {(data.problems ?? []).map((problem) => <p key={problem} class="warning-text small">{visible(problem)}</p>)}
    </>
  );
}

function Server({ row, busy, start }: { row: Row; busy: boolean; start: () => void }) {
  const [text, mark, colour] = STATES[row.state] ?? [oneLine(row.state, 60), "○", "idle"];
  const offers = row.tools === undefined ? "" : [counted(row.tools, "tool"), row.prompts ? counted(row.prompts, "prompt") : "", row.resources ? counted(row.resources, "resource") : ""].filter(Boolean).join(", ");
  const protocol = row.protocol ? `protocol ${row.protocol}, ${row.protocol >= STATELESS ? "without" : "with"} handshake` : "";
  const seen = row.seen_s_ago === undefined ? "" : `listed ${lateness(row.seen_s_ago)}`;
  const started = row.last_start ? `started ${sinceText(row.last_start)}` : "";
  const can = ["started", "known", "configured", "failed"].includes(row.state);
  return (
    <>
      <div class="line">
        <span class="grow mcp-name"><span class={`agent-state ${colour}`} aria-hidden="true">{mark}</span> <b>{oneLine(row.name, 80)}</b> <span class={row.state === "failed" ? "error-text" : "muted"}>{text}</span></span>
        {can ? <button type="button" class="button small" disabled={busy} aria-label={`${verb(row)} ${oneLine(row.name, 80)}`} onClick={start}>{verb(row)}</button> : null}
      </div>
      <p class="muted small">{[offers, protocol, started, seen].filter(Boolean).join(" · ") || (can ? "What it offers is known once it was connected." : "")}</p>
      <p class="muted small">{[row.kind, `configured for ${row.scope === "user" ? "the user" : `the ${row.scope}`}`, row.sandbox ? `sandbox: ${oneLine(row.sandbox, 120)}` : ""].filter(Boolean).join(" · ")}</p>
      {row.why ? <p class={`small ${row.state === "failed" ? "error-text" : "warning-text"}`}>{visible(row.why)}</p> : null}
      {row.last_error && row.last_error !== row.why ? <p class="small warning-text">Last error: {visible(row.last_error)}</p> : null}
      <Notes title="Held back" lines={row.held_back ?? []} />
      <Notes title="Left out" lines={row.left_out ?? []} />
    </>
  );
}

function Notes({ title, lines }: { title: string; lines: readonly string[] }) {
  if (!lines.length) return null;
  return <details><summary class="small warning-text">{title}: {lines.length}</summary><ul class="small">{lines.map((line) => <li key={line}>{visible(line)}</li>)}</ul></details>;
}

function verb(row: Row): string {
  return row.state === "failed" ? "Try again" : row.state === "started" ? "Restart" : "Connect";
}

function lateness(seconds: number): string {
  return sinceText(new Date(Date.now() - seconds * 1_000).toISOString());
}

function sinceText(timestamp: string): string {
  const text = ago(timestamp);
  return text === "now" ? "just now" : /\d$/.test(text) ? text : `${text} ago`;
}
