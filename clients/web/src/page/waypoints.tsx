// The tree of waypoints as a drawing, with a preview of what going back would change.

import { useState } from "preact/hooks";

import type { Waypoint } from "../client/index.ts";
import { confirmDialog, promptDialog } from "./dialog.tsx";
import type { View } from "./store.ts";
import { clock, oneLine } from "./text.ts";

const ROW_PX = 44;
const STEP_PX = 18;
const START = "w0";

interface Placed {
  waypoint: Waypoint;
  depth: number;
  row: number;
  parent: number;
}

export function Waypoints({ view }: { view: View }) {
  const { state } = view.session;
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const placed = place(Object.values(state.waypoints));
  const current = state.waypoint || START;
  const run = async (given: string): Promise<string> => {
    setBusy(true);
    setError("");
    try {
      return await view.session.run("waypoint", given);
    } catch (failure) {
      setError((failure as Error).message);
      return "";
    } finally {
      setBusy(false);
    }
  };
  const restore = async (id: string) => {
    const preview = await run(`restore ${id} --dry-run`);
    if (!preview) return;
    if (await confirmDialog({ title: `Go back to ${id}?`, text: "This would change:", code: preview, yes: "Restore", danger: true })) {
      const done = await run(`restore ${id}`);
      if (done) view.notice(`Restored ${id}`, `\n${done}`);
    }
  };
  const create = async () => {
    const text = await promptDialog({ title: "What is this point?", yes: "Create", initial: "" });
    if (text?.trim()) await run(`create ${text.trim()}`);
  };
  const width = STEP_PX * (Math.max(0, ...placed.map((one) => one.depth)) + 2);
  return (
    <>
      <button type="button" class="button small" disabled={busy} onClick={() => void create()}>Create a waypoint</button>
      <p role="alert" class="error-text">{error}</p>
      <div class="waypoints">
        <svg width={width} height={(placed.length + 1) * ROW_PX} aria-hidden="true">
          {placed.map((one) => <path key={one.waypoint.id} class="edge" d={edge(one)} />)}
          <circle class={current === START ? "node current" : "node"} cx={STEP_PX / 2} cy={ROW_PX / 2} r={5} />
          {placed.map((one) => <circle key={one.waypoint.id} class={one.waypoint.id === current ? "node current" : "node"} cx={x(one.depth)} cy={y(one.row)} r={5} />)}
        </svg>
        <ol>
          <Line id={START} text="Start of the session" facts="" current={current === START} restore={restore} busy={busy} />
          {placed.map(({ waypoint }) => (
            <Line key={waypoint.id} id={waypoint.id} text={waypoint.description} current={waypoint.id === current} restore={restore} busy={busy}
              facts={`${waypoint.owner === "user" ? "yours" : "the agent's"} · ${clock(waypoint.created_at ?? "")}${waypoint.ceiling ? " · before a restore" : ""}`} />
          ))}
        </ol>
      </div>
    </>
  );
}

function Line({ id, text, facts, current, restore, busy }: { id: string; text: string; facts: string; current: boolean; restore: (id: string) => Promise<void>; busy: boolean }) {
  return (
    <li class={current ? "current" : ""}>
      <span class="grow"><code>{oneLine(id, 20)}</code> {oneLine(text, 80)}<small class="muted">{facts}{current ? " here" : ""}</small></span>
      <button type="button" class="quiet" disabled={busy} aria-label={`Go back to ${oneLine(id, 20)}`} onClick={() => void restore(id)}>Restore…</button>
    </li>
  );
}

/** The waypoints in the order of the drawing: each below the one it went on from. */
function place(waypoints: readonly Waypoint[]): Placed[] {
  const known = new Set(waypoints.map((waypoint) => waypoint.id));
  const placed: Placed[] = [];
  const walk = (parent: string | null, depth: number, row: number) => {
    for (const waypoint of waypoints) {
      const above = waypoint.parent != null && known.has(waypoint.parent) ? waypoint.parent : null;
      if (above !== parent || placed.some((one) => one.waypoint.id === waypoint.id)) continue;
      const own = { waypoint, depth, row: placed.length + 1, parent: row };
      placed.push(own);
      walk(waypoint.id, Math.min(depth + 1, 8), own.row);
    }
  };
  walk(null, 1, 0);
  return placed;
}

function x(depth: number): number {
  return STEP_PX / 2 + depth * STEP_PX;
}

function y(row: number): number {
  return ROW_PX / 2 + row * ROW_PX;
}

function edge({ depth, row, parent }: Placed): string {
  return `M ${x(depth - 1)} ${y(parent)} V ${y(row) - 8} Q ${x(depth - 1)} ${y(row)} ${x(depth - 1) + 8} ${y(row)} H ${x(depth)}`;
}
