// A tool call: one line that unfolds to its arguments, its output while it runs, its result, or its diff.

import { useState } from "preact/hooks";

import type { ToolCallEnd } from "../client/index.ts";
import type { CallView } from "../client/index.ts";
import { TaskOfCall, taskIdOf } from "./background-tasks.tsx";
import { CopyButton, LongText } from "./code.tsx";
import { Diff } from "./diff.tsx";
import { MediaView } from "./media.tsx";
import { exitCode, structuredOf, textOf } from "./tool-results.ts";
import type { View } from "./store.ts";
import { counted, oneLine, printed, valueText, visible } from "./text.ts";
import { argumentsText, duration } from "./wording.ts";

export type CallState =
  | { kind: "done"; end: ToolCallEnd }
  | { kind: "running"; call: CallView }
  | { kind: "asking" }
  | { kind: "waiting" };

const SHOWN_ARGUMENTS = 100;

interface Props {
  view: View;
  name: string;
  given: Readonly<Record<string, unknown>>;
  malformed?: string | null | undefined;
  state: CallState;
  showAgent?: (id: string) => void;
}

export function Call({ view, name, given: asked, malformed, state, showAgent }: Props) {
  const given = (state.kind === "done" ? state.end.edited : state.kind === "running" ? state.call.arguments : null) ?? asked;
  const look = lookOf(state);
  const agent = showAgent ? subagentOf(view, given, state) : undefined;
  const diffs = state.kind === "done" ? diffsOf(state.end) : [];
  return (
    <details class={`call ${look.className}`} open={(state.kind === "running" && state.call.output) || diffs.length > 0 ? true : undefined}>
      <summary>
        <span class="call-mark" role="img" aria-label={look.label}>{look.mark}</span>
        <code class="call-name">{oneLine(name, 60)}</code>
        <span class="call-args" dir="ltr">{oneLine(argumentsText(given), 160)}</span>
        <span class="call-facts">{factsOf(state)}</span>
      </summary>
      <div class="call-body">
        {agent && showAgent ? <button type="button" class="button small" onClick={() => showAgent(agent)}>Show the subagent</button> : null}
        {diffs.length ? null : <Arguments entries={Object.entries(given)} />}
        {malformed ? <section><h4>Arguments that are no JSON</h4><pre class="output">{visible(malformed)}</pre></section> : null}
        {state.kind === "running" && state.call.output ? <LiveOutput text={state.call.output} cut={state.call.output_start > 0} /> : null}
        {diffs.map((diff, index) => <Diff key={index} text={diff} />)}
        {state.kind === "done" ? <Result view={view} end={state.end} hide={diffs.length > 0 || taskIdOf(state.end) !== ""} /> : null}
        {state.kind === "done" && taskIdOf(state.end) ? <TaskOfCall view={view} end={state.end} /> : null}
        {state.kind === "asking" ? <p class="muted">Waits for your answer below.</p> : null}
      </div>
    </details>
  );
}

function lookOf(state: CallState): { mark: string; label: string; className: string } {
  if (state.kind === "running") return { mark: "●", label: "running", className: "running" };
  if (state.kind === "asking") return { mark: "?", label: "waits for permission", className: "asking" };
  if (state.kind === "waiting") return { mark: "○", label: "waiting", className: "waiting" };
  const { end } = state;
  if (end.permission?.decision === "denied") return { mark: "⊘", label: "denied", className: "denied" };
  const failed = !end.result.ok || (exitCode(end.result) ?? 0) !== 0;
  return failed ? { mark: "✕", label: "failed", className: "failed" } : { mark: "✓", label: "done", className: "done" };
}

function factsOf(state: CallState): string {
  if (state.kind !== "done") return state.kind === "running" ? "running" : "";
  const { end } = state;
  if (end.permission?.decision === "denied") return "denied";
  const code = exitCode(end.result);
  return [taskIdOf(end) ? "in the background" : "", code ? `exit ${code}` : "", end.duration_s >= 0.1 ? duration(end.duration_s) : ""].filter(Boolean).join(" · ");
}

/** The unified diffs of a result. */
function diffsOf(end: ToolCallEnd): string[] {
  if (!end.result.ok) return [];
  const { diff, path, files } = structuredOf(end.result);
  const one = (text: unknown, name: unknown): string[] =>
    typeof text === "string" && text.includes("@@") ? [text.startsWith("---") || typeof name !== "string" ? text : `+++ ${name}\n${text}`] : [];
  const many = Array.isArray(files) ? files.flatMap((file: unknown) => (typeof file === "object" && file !== null ? one((file as Record<string, unknown>)["diff"], (file as Record<string, unknown>)["path"]) : [])) : [];
  return [...one(diff, path), ...many];
}

/** The subagent that a call has made. */
function subagentOf(view: View, given: Readonly<Record<string, unknown>>, state: CallState): string | undefined {
  const name = given["name"] ?? given["agent"];
  const made = state.kind === "done" ? structuredOf(state.end.result)["agent_id"] : undefined;
  const agents = Object.values(view.session.state.agents).filter((agent) => agent.parent_agent_id !== null);
  return agents.find((agent) => agent.id === made || (typeof name === "string" && name !== "" && agent.name === name))?.id;
}

/** Arguments by their names; of very many, the first. */
export function Arguments({ entries, asked = false }: { entries: readonly (readonly [string, unknown])[]; asked?: boolean }) {
  const [most, setMost] = useState(SHOWN_ARGUMENTS);
  if (!entries.length) return null;
  return (
    <>
      <dl class={`arguments ${asked ? "asked" : ""}`}>
        {entries.slice(0, most).map(([name, value]) => (
          <div key={name}><dt><code>{oneLine(name, 60)}</code></dt><dd><pre dir="ltr" tabIndex={asked ? 0 : undefined}><LongText text={visible(valueText(value))} /></pre></dd></div>
        ))}
      </dl>
      {entries.length > most ? <button type="button" class="more" onClick={() => setMost(Infinity)}>{counted(entries.length - most, "more argument")} not shown. Show all</button> : null}
    </>
  );
}

function LiveOutput({ text, cut }: { text: string; cut: boolean }) {
  return <pre class="output live" dir="ltr" tabIndex={0}>{cut ? "…\n" : ""}{printed(text)}</pre>;
}

function Result({ view, end, hide }: { view: View; end: ToolCallEnd; hide: boolean }) {
  const { result, permission } = end;
  const { text, facts } = textOf(end.result);
  if (permission?.decision === "denied") return <p class="warning-text">Denied: {visible(permission.reason)}</p>;
  return (
    <>
      {result.error ? <p class="error-text">{visible(result.error.message)}</p> : null}
      {text && !hide && text !== result.error?.message ? (
        <div class="output-frame"><CopyButton text={text} /><pre class="output" dir="ltr" tabIndex={0}><LongText text={printed(text)} /></pre></div>
      ) : null}
      {facts.length && !hide ? <p class="muted small">{facts.map(([name, value]) => `${name}: ${oneLine(valueText(value), 200)}`).join(" · ")}</p> : null}
      {(result.content ?? []).map((part, index) => (part.type === "media" ? <MediaView key={index} view={view} media={part} /> : null))}
      {permission ? <p class="muted small">{permission.decision} ({visible(permission.method)}): {visible(permission.reason)}{permission.access ? `; sandbox ${permission.access.profile ?? "read-only"}` : ""}</p> : null}
    </>
  );
}
