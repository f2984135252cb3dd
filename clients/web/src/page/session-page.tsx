// One session: its head, the conversation, what waits for an answer, the composer, and the panels.

import { useEffect, useState } from "preact/hooks";

import type { Status } from "../client/index.ts";
import { Boundary } from "./boundary.tsx";
import { Composer } from "./composer.tsx";
import { useNotifications } from "./notify.ts";
import { type PanelName, Panels, PANELS } from "./panels.tsx";
import { Questions } from "./questions.tsx";
import { StatusLine } from "./status-line.tsx";
import { useView, type View } from "./store.ts";
import { oneLine, shortPath, visible } from "./text.ts";
import { Transcript } from "./transcript.tsx";

interface Props {
  view: View;
  status: Status;
  show: (id: string) => void;
}

export function SessionPage({ view, status, show }: Props) {
  useView(view);
  const { state, known } = view.session;
  const [panel, setPanel] = useState<PanelName | null>(null);
  const [agentId, setAgentId] = useState("");
  const { title } = view;
  const questions = Object.values(state.questions);
  useNotifications(view, questions, show);
  useEffect(() => {
    document.title = `${questions.length ? `(${questions.length}) ` : ""}${oneLine(title, 60) || "jaato"} – jaato`;
  }, [title, questions.length]);
  useEffect(() => () => { document.title = "jaato"; }, []);
  if (!known) return <div class="empty"><p role="status">Loading…</p></div>;
  const agent = state.agents[agentId] ?? state.agents[state.root_agent_id];
  return (
    <div class="session">
      <header class="session-head">
        <button type="button" class="quiet back" onClick={() => show("")} aria-label="Back to the sessions">‹</button>
        <div class="titles">
          <h2>{oneLine(title, 100)}</h2>
          <p class="muted" title={visible(state.workspace)}>{oneLine(shortPath(state.workspace, view.client.connection.welcome?.home), 100)}</p>
        </div>
        <div class="panel-tabs" role="group" aria-label="Panels">
          {PANELS.map(({ name, label, count }) => {
            const shown = count?.(view) ?? 0;
            return (
              <button key={name} type="button" class="tab" aria-pressed={panel === name} onClick={() => setPanel(panel === name ? null : name)}>
                {label}{shown ? <span class="count">{shown}</span> : null}
              </button>
            );
          })}
        </div>
      </header>
      <div class="columns">
        <div class="conversation">
          {agent && agent.id !== state.root_agent_id ? (
            <div class="agent-bar"><span>Subagent <b>{oneLine(agent.name, 60)}</b></span><button type="button" class="quiet" onClick={() => setAgentId("")}>Back to the main agent</button></div>
          ) : null}
          <Transcript key={agent?.id ?? ""} view={view} agentId={agent?.id ?? ""} showAgent={setAgentId} />
          <Boundary key={questions[0]?.question_id ?? ""}><Questions view={view} status={status} /></Boundary>
          <Composer view={view} status={status} show={show} />
          <StatusLine view={view} status={status} openPanel={setPanel} />
        </div>
        {panel ? <Panels name={panel} view={view} agentId={agent?.id ?? ""} showAgent={setAgentId} close={() => setPanel(null)} /> : null}
      </div>
    </div>
  );
}
