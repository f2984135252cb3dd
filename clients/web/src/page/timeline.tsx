// The time of a turn, from the session's log: the model, its calls, and waiting for answers, as bars on one scale.

import { useEffect, useState } from "preact/hooks";

import type { ProtocolEvent, Session, TurnCompleted } from "../client/index.ts";
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
const PAGE = 500;
const MOST_PAGES = 20;
const TYPES = [
  "message.user", "message.model", "tool.call_start", "tool.call_end", "permission.requested", "permission.resolved",
  "clarification.question", "clarification.resolved", "gc.completed",
];

export function Timeline({ view, turn, label }: { view: View; turn: TurnCompleted; label: string }) {
  const [open, setOpen] = useState(false);
  if (turn.model_calls + turn.tool_calls < 2) return <p class="turn-facts">{label}</p>;
  return (
    <details class="timeline" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary class="turn-facts">{label}</summary>
      {open ? <Bars view={view} turn={turn} /> : null}
    </details>
  );
}

function Bars({ view, turn }: { view: View; turn: TurnCompleted }) {
  const [bars, setBars] = useState<Bar[]>();
  const [error, setError] = useState("");
  useEffect(() => {
    let wanted = true;
    eventsOf(view.session, turn).then((events) => wanted && setBars(barsOf(events, turn)), (failure: Error) => wanted && setError(failure.message));
    return () => {
      wanted = false;
    };
  }, [view, turn]);
  if (error) return <p role="alert" class="error-text">The timeline could not be fetched: {error}</p>;
  if (!bars) return <p role="status" class="muted">Loading…</p>;
  if (!bars.length) return <p class="muted">The log has no times of this turn.</p>;
  const start = Math.min(...bars.map((bar) => bar.from));
  const span = Math.max(1, Math.max(...bars.map((bar) => bar.to)) - start);
  const times = timesOf(bars);
  return (
    <>
      <div class="timeline-scale" role="list" aria-label="What the turn did">
        {bars.slice(0, MOST_BARS).map((bar, index) => (
          <div key={index} class="timeline-row" role="listitem">
            <span class="timeline-label" title={oneLine(bar.label, 200)}>{oneLine(bar.label, 80)}</span>
            <span class="timeline-track"><span class={`timeline-bar ${bar.kind}`} style={{ left: `${((bar.from - start) / span) * 100}%`, width: `${Math.max(0.4, ((bar.to - bar.from) / span) * 100)}%` }} /></span>
            <span class="timeline-time">{duration((bar.to - bar.from) / 1_000)}</span>
          </div>
        ))}
      </div>
      {bars.length > MOST_BARS ? <p class="muted">{bars.length - MOST_BARS} later ones are not drawn; the sums have them.</p> : null}
      <ul class="legend">
        <li><span class="key model" />model {duration(times.model / 1_000)}</li><li><span class="key tool" />tools {duration(times.tool / 1_000)}</li>
        {times.wait ? <li><span class="key wait" />waiting for answers {duration(times.wait / 1_000)}</li> : null}
      </ul>
    </>
  );
}

/** The stored events of a turn that the timeline is made of. */
async function eventsOf(session: Session, turn: TurnCompleted): Promise<ProtocolEvent[]> {
  const began = Date.parse(turn.timestamp) - turn.duration_s * 1_000;
  let events: ProtocolEvent[] = [];
  let before: number | null = turn.seq;
  for (let page = 0; page < MOST_PAGES && before !== null; page += 1) {
    const found = await session.history(before, PAGE, TYPES);
    events = [...found.events, ...events];
    before = found.before_seq ?? null;
    const first = found.events[0];
    if (first && Date.parse(first.timestamp) < began) break;
  }
  const own = events.filter((event) => event.agent_id === turn.agent_id);
  const first = own.findIndex((event) => "turn_id" in event && event.turn_id === turn.turn_id);
  return first < 0 ? [] : own.slice(first);
}

/** The bars of a turn, in the order in which they began. */
function barsOf(events: readonly ProtocolEvent[], turn: TurnCompleted): Bar[] {
  const bars: Bar[] = [];
  const begun = new Map<string, number>();
  const asked = new Map<string, { from: number; label: string }>();
  const over = Date.parse(turn.timestamp);
  let ready = NaN;
  for (const event of events) {
    const at = Date.parse(event.timestamp);
    switch (event.type) {
      case "tool.call_start":
        begun.set(event.call_id, at);
        continue;
      case "permission.requested":
        asked.set(event.question_id, { from: at, label: `permission for ${event.tool}` });
        continue;
      case "clarification.question":
        asked.set(event.question_id, { from: at, label: "the agent's question" });
        continue;
      case "permission.resolved":
      case "clarification.resolved": {
        const question = asked.get(event.question_id);
        if (question) bars.push({ kind: "wait", label: event.by ? `${question.label}, answered by ${event.by}` : question.label, from: question.from, to: at });
        asked.delete(event.question_id);
        break;
      }
      case "message.model":
        bars.push({ kind: "model", label: "model", from: Number.isNaN(ready) ? at : Math.min(ready, at), to: at });
        break;
      case "tool.call_end": {
        const from = begun.get(event.call_id);
        if (from !== undefined) bars.push({ kind: "tool", label: event.tool, from, to: at });
        begun.delete(event.call_id);
      }
    }
    ready = at;
  }
  for (const { from, label } of asked.values()) bars.push({ kind: "wait", label: `${label}, not answered`, from, to: over });
  return bars.sort((one, other) => one.from - other.from);
}

/** How long each lasted, in milliseconds: what overlaps counts once, waiting before tools before the model. */
function timesOf(bars: readonly Bar[]): Record<Bar["kind"], number> {
  const times = { wait: 0, tool: 0, model: 0 };
  const edges = [...new Set(bars.flatMap((bar) => [bar.from, bar.to]))].sort((one, other) => one - other);
  const starts = [...bars].sort((one, other) => one.from - other.from);
  let active: Bar[] = [];
  let next = 0;
  for (let at = 0; at + 1 < edges.length; at += 1) {
    while (next < starts.length && starts[next]!.from <= edges[at]!) active.push(starts[next++]!);
    active = active.filter((bar) => bar.to > edges[at]!);
    const kind = (["wait", "tool", "model"] as const).find((one) => active.some((bar) => bar.kind === one));
    if (kind) times[kind] += edges[at + 1]! - edges[at]!;
  }
  return times;
}
