// The panels beside the conversation: plan, agents, background tasks, changed files, waypoints, permissions, tools, MCP
// servers, usage.

import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

import type { AgentView, Plan } from "../client/index.ts";
import { Background } from "./background-tasks.tsx";
import { Boundary } from "./boundary.tsx";
import { McpServers } from "./mcp.tsx";
import { Permissions } from "./permissions.tsx";
import type { View } from "./store.ts";
import { counted, oneLine } from "./text.ts";
import { tokens } from "./wording.ts";
import { Tools } from "./tools.tsx";
import { Usage } from "./usage.tsx";
import { Waypoints } from "./waypoints.tsx";

export type PanelName = "plan" | "agents" | "tasks" | "files" | "waypoints" | "permissions" | "tools" | "mcp" | "usage";

interface PanelProps {
  view: View;
  agentId: string;
  showAgent: (id: string) => void;
}

interface Panel {
  name: PanelName;
  label: string;
  count?: (view: View) => number;
  body: (props: PanelProps) => JSX.Element;
}

/** The panels, in the order of their tabs, and the number that a tab shows. */
export const PANELS: readonly Panel[] = [
  { name: "plan", label: "Plan", body: Plans },
  { name: "agents", label: "Agents", count: (view) => Object.values(view.session.state.agents).filter((agent) => agent.working).length, body: Agents },
  { name: "tasks", label: "Background", count: (view) => Object.keys(view.session.state.tasks).length, body: Background },
  { name: "files", label: "Changes", count: (view) => Object.keys(view.session.state.files).length, body: Files },
  { name: "waypoints", label: "Waypoints", body: Waypoints },
  { name: "permissions", label: "Permissions", body: Permissions },
  { name: "tools", label: "Tools", body: Tools },
  { name: "mcp", label: "MCP", body: McpServers },
  { name: "usage", label: "Usage", body: Usage },
];

export function Panels({ panel, close, ...props }: PanelProps & { panel: Panel; close: () => void }) {
  const heading = useRef<HTMLHeadingElement>(null);
  const before = useRef<Element | null>(null);
  useEffect(() => {
    before.current = document.activeElement;
    heading.current?.focus();
  }, [panel]);
  useLayoutEffect(() => () => {
    if (document.activeElement?.closest(".panel") && before.current instanceof HTMLElement) before.current.focus();
  }, []);
  const Body = panel.body;
  return (
    <aside class="panel" aria-labelledby="panel-title" onKeyDown={(event) => event.key === "Escape" && close()}>
      <header><h3 id="panel-title" ref={heading} tabIndex={-1}>{panel.label}</h3><button type="button" class="quiet" onClick={close} aria-label={`Close ${panel.label}`}>×</button></header>
      <div class="panel-body" tabIndex={0} role="region" aria-label={panel.label}><Boundary key={panel.name}><Body {...props} /></Boundary></div>
    </aside>
  );
}

const STEP_MARKS = new Map<string, [string, string]>([
  ["pending", ["○", "pending"]], ["in_progress", ["◐", "in progress"]], ["completed", ["✓", "done"]], ["failed", ["✕", "failed"]], ["skipped", ["–", "skipped"]],
]);

function Plans({ view }: PanelProps) {
  const plans = Object.values(view.session.state.agents).flatMap((agent) => Object.values(agent.plans).map((plan) => ({ agent, plan })));
  if (!plans.length) return <p class="muted">There is no plan. The agent makes one for longer tasks.</p>;
  return <>{plans.map(({ agent, plan }) => <PlanView key={`${agent.id} ${plan.id}`} plan={plan} agent={agent} />)}</>;
}

function PlanView({ plan, agent }: { plan: Plan; agent: AgentView }) {
  const done = plan.steps.filter((step) => step.status === "completed" || step.status === "skipped").length;
  return (
    <section class="plan">
      <h4>{oneLine(plan.title, 120)}</h4>
      <p class="muted">{agent.parent_agent_id === null ? "" : `${oneLine(agent.name, 40)} · `}{plan.status ?? "draft"} · {done} of {plan.steps.length} done</p>
      <progress max={plan.steps.length || 1} value={done} aria-label="Steps done" />
      <ol class="steps">
        {plan.steps.map((step) => {
          const [mark, label] = STEP_MARKS.get(step.status ?? "pending") ?? ["○", "pending"];
          return <li key={step.id} class={step.status ?? "pending"}><span role="img" aria-label={label}>{mark}</span><span>{oneLine(step.description, 300)}{step.result ? <small class="muted"> {oneLine(step.result, 200)}</small> : null}</span></li>;
        })}
      </ol>
    </section>
  );
}

function Agents({ view, agentId, showAgent }: PanelProps) {
  const { model } = view.session.state;
  const agents = Object.values(view.session.state.agents);
  const below = agents.filter((agent) => agent.parent_agent_id !== null);
  const about = (agent: AgentView) => oneLine((agent.reason || agent.summary || (agent.parent_agent_id !== null && agent.model === model ? "" : agent.model)).replaceAll("`", ""), 90);
  const rows = (parent: string | null, depth: number): JSX.Element[] =>
    agents.filter((agent) => agent.parent_agent_id === parent && depth < 20).flatMap((agent) => [
      <li key={agent.id} class={`depth${Math.min(depth, 5)}`}>
        <button type="button" class={`agent-row ${agent.id === agentId ? "current" : ""}`} aria-current={agent.id === agentId ? "true" : undefined} onClick={() => showAgent(depth ? agent.id : "")}>
          <AgentState status={agent.working && agent.status !== "blocked" ? "active" : agent.status} />
          <span class="agent-name">{depth ? oneLine(agent.name, 60) : "Main agent"}<small class="muted">{about(agent)}</small></span>
          <small class="muted" title="Tokens of its context">{agent.context_tokens ? tokens(agent.context_tokens) : ""}</small>
        </button>
      </li>,
      ...rows(agent.id, depth + 1),
    ]);
  return (
    <>
      {below.length ? <p class="muted small">{counted(below.length, "subagent")}, {below.filter((agent) => agent.working).length} at work</p> : null}
      <ul class="agents">{rows(null, 0)}</ul>
    </>
  );
}

const AGENT_MARKS: Record<string, string> = { active: "●", blocked: "?", done: "✓", error: "✕" };

function AgentState({ status }: { status: string }) {
  return <span class={`agent-state ${status}`} role="img" aria-label={status} title={status}>{AGENT_MARKS[status] ?? "○"}</span>;
}

function Files({ view }: PanelProps) {
  const { files, files_left_out } = view.session.state;
  const changes = Object.values(files).reverse();
  if (!changes.length) return <p class="muted">Tools of this session have not changed a file.</p>;
  return (
    <>
      <ul class="plain-list">
        {changes.map((file) => (
          <li key={file.path} class="line">
            <span class={`change ${file.change}`} title={file.change}>{file.change[0]!.toUpperCase()}</span>
            <code class="grow" dir="ltr">{oneLine(file.path, 200)}</code>
            {file.added != null ? <span class="added-text">+{file.added}</span> : null}{file.removed != null ? <span class="removed-text">−{file.removed}</span> : null}
          </li>
        ))}
      </ul>
      {files_left_out ? <p class="muted">{files_left_out} more are not listed.</p> : null}
    </>
  );
}
