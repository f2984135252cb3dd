// Unified diffs: side by side where there is room, else one below the other.

import { useState } from "preact/hooks";

import { LongText } from "./code.tsx";
import { visible } from "./text.ts";

interface Line {
  kind: "same" | "added" | "removed" | "hunk" | "file";
  text: string;
  old?: number;
  new?: number;
}

const SHOWN_LINES = 2_000;

export function Diff({ text }: { text: string }) {
  const [most, setMost] = useState(SHOWN_LINES);
  const all = text.split("\n");
  const lines = parseDiff(all.slice(0, most));
  const rows = pairLines(lines);
  const added = lines.filter((line) => line.kind === "added").length;
  const removed = lines.filter((line) => line.kind === "removed").length;
  return (
    <div class="diff" role="region" aria-label={`Changes: ${added} lines added, ${removed} removed`} tabIndex={0}>
      <table class="unified"><colgroup><col class="number" /><col class="number" /><col class="sign" /><col /></colgroup><tbody>{lines.map((line, index) => <UnifiedRow key={index} line={line} />)}</tbody></table>
      <table class="split" aria-hidden="true"><colgroup><col class="number" /><col /><col class="number" /><col /></colgroup><tbody>{rows.map(([left, right], index) => <SplitRow key={index} left={left} right={right} />)}</tbody></table>
      {all.length > most ? <button type="button" class="more" onClick={() => setMost(Infinity)}>{(all.length - most).toLocaleString("en")} more lines are not shown. Show all</button> : null}
    </div>
  );
}

/** The lines of a diff with their numbers. Within a hunk the counts of its head decide, not what a line looks like. */
export function parseDiff(text: readonly string[]): Line[] {
  const found: Line[] = [];
  let [old, now, oldLeft, newLeft] = [0, 0, 0, 0];
  for (const raw of text) {
    const hunk = oldLeft > 0 || newLeft > 0 ? null : /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(raw);
    if (hunk) {
      [old, now, oldLeft, newLeft] = [Number(hunk[1]), Number(hunk[3]), Number(hunk[2] ?? 1), Number(hunk[4] ?? 1)];
      found.push({ kind: "hunk", text: raw });
    } else if (oldLeft <= 0 && newLeft <= 0) {
      if (raw && !raw.startsWith("--- ")) found.push({ kind: raw.startsWith("+++ ") ? "file" : "hunk", text: raw.replace(/^\+\+\+ /, "") });
    } else if (raw.startsWith("+")) {
      found.push({ kind: "added", text: raw.slice(1), new: now++ });
      newLeft -= 1;
    } else if (raw.startsWith("-")) {
      found.push({ kind: "removed", text: raw.slice(1), old: old++ });
      oldLeft -= 1;
    } else if (raw.startsWith("\\") || raw.startsWith("…")) found.push({ kind: "hunk", text: raw });
    else {
      found.push({ kind: "same", text: raw.slice(1), old: old++, new: now++ });
      oldLeft -= 1;
      newLeft -= 1;
    }
  }
  return found;
}

/** Removed lines beside the added ones that replace them. */
function pairLines(lines: readonly Line[]): [Line | null, Line | null][] {
  const rows: [Line | null, Line | null][] = [];
  let removed: Line[] = [];
  let added: Line[] = [];
  const flush = () => {
    for (let at = 0; at < Math.max(removed.length, added.length); at += 1) rows.push([removed[at] ?? null, added[at] ?? null]);
    removed = [];
    added = [];
  };
  for (const line of lines) {
    if (line.kind === "removed") removed.push(line);
    else if (line.kind === "added") added.push(line);
    else {
      flush();
      rows.push([line, line]);
    }
  }
  flush();
  return rows;
}

const SIGNS = { same: " ", added: "+", removed: "−", hunk: "", file: "" };

function UnifiedRow({ line }: { line: Line }) {
  if (line.kind === "hunk" || line.kind === "file") return <tr class={line.kind}><td colSpan={4}>{visible(line.text)}</td></tr>;
  return (
    <tr class={line.kind}>
      <td class="number">{line.old ?? ""}</td><td class="number">{line.new ?? ""}</td>
      <td class="sign">{SIGNS[line.kind]}</td><td class="text"><LongText text={visible(line.text)} /></td>
    </tr>
  );
}

function SplitRow({ left, right }: { left: Line | null; right: Line | null }) {
  if (left && (left.kind === "hunk" || left.kind === "file")) return <tr class={left.kind}><td colSpan={4}>{visible(left.text)}</td></tr>;
  return (
    <tr>
      <td class={`number ${left?.kind ?? "none"}`}>{left?.old ?? ""}</td><td class={`text ${left?.kind ?? "none"}`}>{left ? <LongText text={visible(left.text)} /> : ""}</td>
      <td class={`number ${right?.kind ?? "none"}`}>{right?.new ?? ""}</td><td class={`text ${right?.kind ?? "none"}`}>{right ? <LongText text={visible(right.text)} /> : ""}</td>
    </tr>
  );
}
