// One session: its head, the conversation, what waits for an answer, the composer, and the panels.

import { useEffect } from "preact/hooks";

import type { Status } from "../client/index.ts";
import { Boundary } from "./boundary.tsx";
import { Composer } from "./composer.tsx";
import { useNotifications } from "./notifications.ts";
import { Panels, PANELS } from "./panels.tsx";
import { Questions } from "./questions.tsx";
import { changeRoute, type Route } from "./route.ts";
import { StatusLine } from "./status-line.tsx";
import { useView, type View } from "./store.ts";
import { oneLine, shortPath, visible } from "./text.ts";
import { Transcript } from "./transcript.tsx";

interface Props {
  view: View;
  status: Status;
  route: Route;
  show: (id: string) => void;
}

/** Where a panel covers the conversation, it closes for that of another agent. */
const showAgent = (agent: string) => changeRoute(matchMedia("(max-width: 900px)").matches ? { agent, panel: "" } : { agent });
const openPanel = (panel: Route["panel"]) => changeRoute({ panel });

export function SessionPage({ view, status, route, show }: Props) {
  useView(view);
  const { state, known, error } = view.session;
  const panel = PANELS.find((one) => one.name === route.panel);
  const { title } = view;
  const questions = error ? [] : Object.values(state.questions);
  useNotifications(view, questions, show);
  useEffect(() => {
    document.title = `${questions.length ? `(${questions.length}) ` : ""}${oneLine(title, 60) || "jaato"} – jaato`;
  }, [title, questions.length]);
  useEffect(() => () => { document.title = "jaato"; }, []);
  if (!known) return <div class="empty"><p role="status">Loading…</p></div>;
  const agent = state.agents[route.agent] ?? state.agents[state.root_agent_id];
  return (
    <div class="session">
      <header class="session-head">
        <button type="button" class="quiet back" onClick={() => show("")} aria-label="Back to the sessions">‹</button>
        <div class="titles">
          <h2 dir="auto" title={visible(title)}>{oneLine(title, 100)}</h2>
          <p class="muted" title={visible(state.workspace)}>{oneLine(shortPath(state.workspace, view.client.connection.welcome?.home), 100)}</p>
        </div>
        <div class="panel-tabs" role="group" aria-label="Panels">
          {PANELS.map(({ name, label, count }) => {
            const shown = count?.(view) ?? 0;
            return (
              <button key={name} type="button" class="tab" aria-pressed={panel?.name === name} onClick={() => openPanel(panel?.name === name ? "" : name)}>
                {label}{shown ? <span class="count">{shown}</span> : null}
              </button>
            );
          })}
        </div>
      </header>
      <div class="columns">
        <div class="conversation">
          {agent && agent.id !== state.root_agent_id ? (
            <div class="agent-bar"><span>Subagent <b>{oneLine(agent.name, 60)}</b></span><button type="button" class="quiet" onClick={() => showAgent("")}>Back to the main agent</button></div>
          ) : null}
          <Transcript key={agent?.id ?? ""} view={view} agentId={agent?.id ?? ""} showAgent={showAgent} />
          <Boundary key={questions[0]?.question_id ?? ""}><Questions view={view} status={status} /></Boundary>
          <Composer view={view} status={status} show={show} />
          <StatusLine view={view} status={status} openPanel={openPanel} />
        </div>
        {panel ? <Panels panel={panel} view={view} agentId={agent?.id ?? ""} showAgent={showAgent} close={() => openPanel("")} /> : null}
      </div>
    </div>
  );
}
