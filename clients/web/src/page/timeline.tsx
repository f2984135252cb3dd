// The time of a turn: the model, its calls, and waiting for an answer, as bars on one scale.

import type { TurnCompleted } from "../client/index.ts";
import type { View } from "./store.ts";
import { oneLine } from "./text.ts";
import { duration } from "./wording.ts";

interface Bar {
  kind: "model" | "tool" | "wait";
  label: string;
  from: number;
  to: number;
}

const MOST_BARS = 60;

export function Timeline({ view, turn, label }: { view: View; turn: TurnCompleted; label: string }) {
  const bars = barsOf(view, turn);
  if (bars.length < 2) return <p class="turn-facts">{label}</p>;
  const start = Math.min(...bars.map((bar) => bar.from));
  const span = Math.max(1, Math.max(...bars.map((bar) => bar.to)) - start);
  const of = (kind: Bar["kind"]) => bars.filter((bar) => bar.kind === kind).reduce((sum, bar) => sum + bar.to - bar.from, 0) / 1_000;
  return (
    <details class="timeline">
      <summary class="turn-facts">{label}</summary>
      <div class="timeline-scale">
        {bars.slice(0, MOST_BARS).map((bar, index) => (
          <div key={index} class="timeline-row">
            <span class="timeline-label">{oneLine(bar.label, 28)}</span>
            <span class="timeline-track"><span class={`timeline-bar ${bar.kind}`} style={{ left: `${((bar.from - start) / span) * 100}%`, width: `${Math.max(0.4, ((bar.to - bar.from) / span) * 100)}%` }} /></span>
            <span class="timeline-time">{duration((bar.to - bar.from) / 1_000)}</span>
          </div>
        ))}
      </div>
      <ul class="legend">
        <li><span class="key model" />model {duration(of("model"))}</li><li><span class="key tool" />tools {duration(of("tool"))}</li>
        {of("wait") ? <li><span class="key wait" />waiting for you {duration(of("wait"))}</li> : null}
      </ul>
    </details>
  );
}

/** The bars of a turn, from the entries before its end. */
function barsOf(view: View, turn: TurnCompleted): Bar[] {
  const end = view.items.indexOf(turn);
  const bars: Bar[] = [];
  let last = NaN;
  for (let at = end - 1; at >= 0; at -= 1) {
    const item = view.items[at]!;
    if (item.type === "notice" || item.agent_id !== turn.agent_id) continue;
    if (item.type === "turn.completed") break;
    if ("turn_id" in item && item.turn_id !== turn.turn_id) break;
    const then = Date.parse(item.timestamp);
    if (item.type === "tool.call_end") {
      const wait = view.waits.get(item.call_id);
      const begun = then - item.duration_s * 1_000;
      const from = Math.min(then, Math.max(begun, wait?.settled ?? begun)); // the duration of a call includes its question
      bars.unshift({ kind: "tool", label: item.tool, from, to: then });
      if (wait) bars.unshift({ kind: "wait", label: "your answer", from: wait.asked, to: wait.settled ?? from });
    } else if (item.type === "message.model") bars.unshift({ kind: "model", label: "model", from: NaN, to: then });
    else if (item.type === "message.user") last = last > then || Number.isNaN(last) ? then : last;
  }
  let from = last;
  for (const bar of bars) {
    if (bar.kind === "model") {
      bar.from = Number.isNaN(from) ? bar.to : Math.min(from, bar.to);
    }
    from = Number.isNaN(from) ? bar.to : Math.max(from, bar.to);
  }
  return bars;
}
