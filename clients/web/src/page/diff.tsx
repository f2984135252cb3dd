// Unified diffs: side by side where there is room, else one below the other, with the words that changed marked.

import { useMemo, useState } from "preact/hooks";

import { LongText } from "./code.tsx";
import { counted, visible } from "./text.ts";
import { changedWords, type Piece } from "./word-diff.ts";

interface Line {
  kind: "same" | "added" | "removed" | "hunk" | "file";
  text: string;
  old?: number;
  new?: number;
}

const SHOWN_LINES = 2_000;
/** Changed lines whose words are compared. */
const MARKED_LINES = 400;

export function Diff({ text }: { text: string }) {
  const [most, setMost] = useState(SHOWN_LINES);
  const { count, lines, rows, marks } = useMemo(() => {
    const all = text.split("\n");
    const parsed = parseDiff(all.slice(0, most));
    const pairs = pairLines(parsed);
    return { count: all.length, lines: parsed, rows: pairs, marks: markWords(pairs) };
  }, [text, most]);
  const added = lines.filter((line) => line.kind === "added").length;
  const removed = lines.filter((line) => line.kind === "removed").length;
  return (
    <div class="diff" role="region" aria-label={`Changes: ${counted(added, "line")} added, ${removed} removed`} tabIndex={0}>
      <div class="unified"><table><colgroup><col class="number" /><col class="number" /><col class="sign" /><col /></colgroup><tbody>{lines.map((line, index) => <UnifiedRow key={index} line={line} marks={marks} />)}</tbody></table></div>
      <table class="split" aria-hidden="true"><colgroup><col class="number" /><col /><col class="number" /><col /></colgroup><tbody>{rows.map(([left, right], index) => <SplitRow key={index} left={left} right={right} marks={marks} />)}</tbody></table>
      {count > most ? <button type="button" class="more" onClick={() => setMost(Infinity)}>{counted(count - most, "more line")} not shown. Show all</button> : null}
    </div>
  );
}

/** The lines of a diff with their numbers. Within a hunk the counts of its head decide, not what a line looks like. */
function parseDiff(text: readonly string[]): Line[] {
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

type Marks = ReadonlyMap<Line, readonly Piece[]>;

/** The pieces of the lines that were changed, not replaced. */
function markWords(rows: readonly [Line | null, Line | null][]): Marks {
  const marks = new Map<Line, readonly Piece[]>();
  for (const [left, right] of rows) {
    if (marks.size >= 2 * MARKED_LINES) break;
    const found = left && right && left !== right ? changedWords(left.text, right.text) : null;
    if (!found) continue;
    marks.set(left!, found[0]);
    marks.set(right!, found[1]);
  }
  return marks;
}

function LineText({ line, marks }: { line: Line; marks: Marks }) {
  const pieces = marks.get(line);
  if (!pieces) return <LongText text={visible(line.text)} />;
  return <>{pieces.map((piece, index) => (piece.changed ? <span key={index} class="word">{visible(piece.text)}</span> : visible(piece.text)))}</>;
}

const SIGNS = { same: " ", added: "+", removed: "−", hunk: "", file: "" };

function UnifiedRow({ line, marks }: { line: Line; marks: Marks }) {
  if (line.kind === "hunk" || line.kind === "file") return <tr class={line.kind}><td colSpan={4}>{visible(line.text)}</td></tr>;
  return (
    <tr class={line.kind}>
      <td class="number">{line.old ?? ""}</td><td class="number">{line.new ?? ""}</td>
      <td class="sign">{SIGNS[line.kind]}</td><td class="text"><LineText line={line} marks={marks} /></td>
    </tr>
  );
}

function SplitRow({ left, right, marks }: { left: Line | null; right: Line | null; marks: Marks }) {
  if (left && (left.kind === "hunk" || left.kind === "file")) return <tr class={left.kind}><td colSpan={4}>{visible(left.text)}</td></tr>;
  return (
    <tr>
      <td class={`number ${left?.kind ?? "none"}`}>{left?.old ?? ""}</td><td class={`text ${left?.kind ?? "none"}`}>{left ? <LineText line={left} marks={marks} /> : ""}</td>
      <td class={`number ${right?.kind ?? "none"}`}>{right?.new ?? ""}</td><td class={`text ${right?.kind ?? "none"}`}>{right ? <LineText line={right} marks={marks} /> : ""}</td>
    </tr>
  );
}
