// The tree of waypoints as a drawing, with a preview of what going back would change.

import { useState } from "preact/hooks";

import type { Waypoint } from "../client/index.ts";
import { confirmDialog, promptDialog } from "./dialog.tsx";
import { Diff } from "./diff.tsx";
import { isOwner, type View } from "./store.ts";
import { clock, counted, oneLine } from "./text.ts";

const ROW_PX = 52;
const STEP_PX = 18;
/** From the top of a row to its node, which is beside the first of its two lines. */
const NODE_PX = 14;
const MOST_COLUMNS = 7;
const START = "w0";

interface Placed {
  waypoint: Waypoint;
  column: number;
  row: number;
  from: { column: number; row: number };
}

export function Waypoints({ view }: { view: View }) {
  const { state } = view.session;
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const owner = isOwner(view.client);
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
    const output = await run(`diff ${id} --json`);
    if (!output) return;
    const preview = parsePreview(output);
    if (!preview) return setError(output);
    if (await confirmDialog({ title: `Go back to ${id}?`, text: changesOf(preview), body: <Preview preview={preview} />, yes: "Restore", danger: true })) {
      const done = await run(`restore ${id}`);
      if (done) view.notice(`Restored ${id}`, `\n${done}`);
    }
  };
  const create = async () => {
    const submit = async (text: string) => text.trim() && view.session.run("waypoint", `create ${text.trim()}`);
    await promptDialog({ title: "What is this point?", yes: "Create", initial: "", submit });
  };
  const width = STEP_PX * (Math.max(0, ...placed.map((one) => one.column)) + 1);
  return (
    <>
      {owner ? <button type="button" class="button small" disabled={busy} onClick={() => void create()}>Create a waypoint</button> : null}
      <p role="alert" class="error-text">{error}</p>
      <div class="waypoints">
        <svg width={width} height={(placed.length + 1) * ROW_PX} aria-hidden="true">
          {placed.map((one) => <path key={one.waypoint.id} class="edge" d={edge(one)} />)}
          <circle class={current === START ? "node current" : "node"} cx={x(0)} cy={y(0)} r={5} />
          {placed.map((one) => <circle key={one.waypoint.id} class={one.waypoint.id === current ? "node current" : "node"} cx={x(one.column)} cy={y(one.row)} r={5} />)}
        </svg>
        <ol>
          <Line id={START} text="Start of the session" facts="before the first change" current={current === START} restore={owner ? restore : null} busy={busy} />
          {placed.map(({ waypoint }) => (
            <Line key={waypoint.id} id={waypoint.id} text={waypoint.description} current={waypoint.id === current} restore={owner ? restore : null} busy={busy}
              facts={`${waypoint.owner === "user" ? "yours" : "the agent's"} · ${clock(waypoint.created_at ?? "")}${waypoint.ceiling ? " · before a restore" : ""}`} />
          ))}
        </ol>
      </div>
    </>
  );
}

/** What `/waypoint diff ID --json` gives. */
interface RestorePreview {
  changed: { path: string; change: string; added?: number; removed?: number; note?: string }[];
  changed_in_all?: number;
  kept?: { path: string; reason: string }[];
  kept_in_all?: number;
  makes_ceiling: boolean;
  diff: string;
}

/** The answer of the command; undefined for a sentence that says why there is none. */
function parsePreview(output: string): RestorePreview | undefined {
  return output.startsWith("{") ? (JSON.parse(output) as RestorePreview) : undefined;
}

function changesOf({ changed, changed_in_all, kept, kept_in_all, makes_ceiling }: RestorePreview): string {
  const files = changed_in_all ?? changed.length;
  if (!files) return "No file would change.";
  const sum = (name: "added" | "removed") => changed.reduce((all, file) => all + (file[name] ?? 0), 0);
  return [
    `${counted(files, "file")} would change: ${counted(sum("added"), "line")} added, ${sum("removed")} removed.`,
    kept?.length ? `${kept_in_all ?? kept.length} would stay as they are.` : "",
    makes_ceiling ? "What is there now becomes a waypoint first." : "",
  ].filter(Boolean).join(" ");
}

function Preview({ preview }: { preview: RestorePreview }) {
  const { changed, changed_in_all, kept } = preview;
  return (
    <>
      <ul class="plain-list" aria-label="Files that would change">
        {changed.map((file) => (
          <li key={file.path} class="line">
            <code class="grow" dir="ltr">{oneLine(file.path, 200)}</code>
            <small class="muted">{oneLine(file.note ? `${file.change}; ${file.note}` : file.change, 200)}</small>
            {file.added === undefined ? null : <span class="added-text">+{file.added}</span>}{file.removed === undefined ? null : <span class="removed-text">−{file.removed}</span>}
          </li>
        ))}
      </ul>
      {changed_in_all ? <p class="muted small">{changed_in_all - changed.length} more are not listed.</p> : null}
      {kept?.length ? <><h3>Kept as they are</h3><ul class="plain-list" aria-label="Files that would stay">{kept.map((file) => <li key={file.path}><code dir="ltr">{oneLine(file.path, 200)}</code> <small class="muted">{oneLine(file.reason, 200)}</small></li>)}</ul></> : null}
      {preview.diff ? <Diff text={preview.diff} /> : null}
    </>
  );
}

function Line({ id, text, facts, current, restore, busy }: { id: string; text: string; facts: string; current: boolean; restore: ((id: string) => Promise<void>) | null; busy: boolean }) {
  return (
    <li class={current ? "current" : ""}>
      <span class="name" title={oneLine(text, 400)}><code>{oneLine(id, 20)}</code> {oneLine(text, 80)}</span>
      <small class="muted">{[facts, current ? "here" : ""].filter(Boolean).join(" · ")}</small>
      {restore === null ? null : <button type="button" class="quiet" disabled={busy} aria-label={`Go back to ${oneLine(id, 20)}`} onClick={() => void restore(id)}>Restore…</button>}
    </li>
  );
}

/** The waypoints in the order of the drawing: the newest child stays in the column of its parent, older ones come before it, one column further. */
function place(waypoints: readonly Waypoint[]): Placed[] {
  const known = new Set(waypoints.map((waypoint) => waypoint.id));
  const children = new Map<string, Waypoint[]>();
  for (const waypoint of waypoints) {
    const parent = waypoint.parent != null && known.has(waypoint.parent) ? waypoint.parent : START;
    children.set(parent, [...(children.get(parent) ?? []), waypoint]);
  }
  const placed: Placed[] = [];
  const walk = (parent: string, column: number, row: number) => {
    const next = children.get(parent) ?? [];
    next.forEach((waypoint, index) => {
      const own = { waypoint, column: index < next.length - 1 ? Math.min(column + 1, MOST_COLUMNS) : column, row: placed.length + 1, from: { column, row } };
      placed.push(own);
      walk(waypoint.id, own.column, own.row);
    });
  };
  walk(START, 0, 0);
  return placed;
}

function x(column: number): number {
  return STEP_PX / 2 + column * STEP_PX;
}

function y(row: number): number {
  return NODE_PX + row * ROW_PX;
}

function edge({ column, row, from }: Placed): string {
  const start = `M ${x(from.column)} ${y(from.row)} V`;
  return column === from.column ? `${start} ${y(row)}` : `${start} ${y(row) - 8} Q ${x(from.column)} ${y(row)} ${x(from.column) + 8} ${y(row)} H ${x(column)}`;
}
