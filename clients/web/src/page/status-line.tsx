// One line about the session: connection, model, context, tokens, money.

import { useState } from "preact/hooks";

import type { Status } from "../client/index.ts";
import { canNotify } from "./notifications.ts";
import type { PanelName } from "./panels.tsx";
import type { View } from "./store.ts";
import { oneLine, visible } from "./text.ts";
import { price, tokens } from "./wording.ts";

const STATUS: Record<Status, string> = {
  online: "connected", connecting: "connecting", offline: "offline", refused: "not paired", outdated: "reload needed", closed: "closed",
};

export function StatusLine({ view, status, openPanel }: { view: View; status: Status; openPanel: (name: PanelName) => void }) {
  const { state, info } = view.session;
  const [asking, setAsking] = useState(canNotify);
  const root = state.agents[state.root_agent_id];
  const used = root?.context_tokens ?? 0;
  const limit = root?.context_limit ?? 0;
  const percent = limit ? Math.min(100, Math.round((used / limit) * 100)) : 0;
  const { usage } = state;
  const total = (usage.input_tokens ?? 0) + (usage.output_tokens ?? 0);
  const others = (info?.clients ?? []).length - 1;
  return (
    <div class="status-line">
      <span class={`dot ${status}`}><span>{STATUS[status]}</span></span>
      <span title={visible(`${state.provider} ${state.model}`)}>{oneLine(state.model || "no model", 40)}</span>
      <span title="Permission mode">{state.mode ?? info?.sandbox?.mode ?? "ask"}</span>
      {limit ? (
        <button type="button" class="quiet" onClick={() => openPanel("usage")} title={`${used.toLocaleString("en")} of ${limit.toLocaleString("en")} tokens`}>
          <meter min={0} max={100} high={80} value={percent} aria-label="Context used">{percent} %</meter> {percent} %
        </button>
      ) : null}
      <button type="button" class="quiet" onClick={() => openPanel("usage")}>{tokens(total)} tokens · {price(state.unpriced ? null : state.cost_usd)}</button>
      {others > 0 ? <span title={(info?.clients ?? []).map((client) => oneLine(client.name, 60)).join(", ")}>+{others} watching</span> : null}
      {asking ? <button type="button" class="quiet notify" title="Show a notification of the system when a question waits and this page is not in view" onClick={() => void Notification.requestPermission().then(() => setAsking(false))}>Notify me</button> : null}
    </div>
  );
}
