// Texts from outside, made safe to look at, and numbers for people.

import type { ClarificationResolved, PermissionResolved } from "../client/index.ts";

/** Escape sequences of terminals. */
// oxlint-disable-next-line no-control-regex
const SEQUENCES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[PX^_][^\u001b]*(?:\u001b\\)?|[@-Z\\-_])/g;
/** Characters without a picture of their own that could hide or reorder text. */
const INVISIBLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\uffff]|[\u{e0000}-\u{e0fff}]/gu;

/** A text with everything invisible written out, for arguments, commands, paths, and names. */
export function visible(text: string): string {
  return text.replace(/\r\n/g, "\n").replace(INVISIBLE, (char) => `⟨U+${char.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

/** What a program printed, without colours and cursor movements. */
export function printed(text: string): string {
  return visible(text.replace(SEQUENCES, "").replace(/[^\n]*\r(?!\n)/g, ""));
}

/** Prose, without what could reorder or hide it; the characters that shape emoji and scripts stay. */
export function prose(text: string): string {
  return text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, "");
}

/** One line, cut. */
export function oneLine(text: string, most = 120): string {
  const line = visible(text.slice(0, most * 4)).replace(/\s+/g, " ").trim();
  return line.length > most || text.length > most * 4 ? `${line.slice(0, most)}…` : line;
}

/** JSON up to this length stays on one line. */
const SHORT_CHARS = 80;

/** What a session is called: its name, its description, or the beginning of its id. */
export function titleOf(session: { name?: string | null; description?: string | null }, id: string): string {
  return session.name || session.description || `Untitled ${id.slice(1, 7)}`;
}

/** A value as text: a string as it is, else JSON. */
export function valueText(value: unknown): string {
  if (typeof value === "string") return value;
  const short = JSON.stringify(value);
  return short.length <= SHORT_CHARS ? short : JSON.stringify(value, null, 2);
}

/** The documented answers in words, as terminals have them. */
const ANSWER_WORDS = new Map(Object.entries({
  y: "yes", n: "no", a: "always", t: "yes, for this turn", i: "yes, until idle", once: "yes, once", never: "never",
  all: "yes, to all pending", e: "yes, with edited arguments", c: "no, with a comment",
}));

/** The line about an answer that another client gave. */
export function otherAnswer(event: PermissionResolved | ClarificationResolved): string {
  const answer = event.type === "permission.resolved"
    ? `${answerWords(event.answer)}${event.answer === "c" ? `: ${event.permission.reason}` : ""}`
    : event.qa_pairs.map(([, given]) => given ?? "(no answer)").join("; ");
  return `${oneLine(event.by ?? "", 80)} answered: ${oneLine(answer, 300)}`;
}

/** The line for an answer that came after that of another client. */
export function lateAnswer(by: string, answer: string): string {
  return `${oneLine(by, 80) || "Another client"} already answered: ${answerWords(answer)}`;
}

function answerWords(answer: string): string {
  return ANSWER_WORDS.get(answer) ?? oneLine(answer, 300);
}

export function price(usd: number, unpriced = false): string {
  if (unpriced && !usd) return "no price";
  const text = usd === 0 ? "$0" : usd < 0.01 ? `$${usd.toFixed(4)}` : `$${usd.toFixed(2)}`;
  return unpriced ? `${text}+` : text;
}

export function tokens(count: number): string {
  if (count < 1_000) return String(count);
  return count < 1_000_000 ? `${(count / 1_000).toFixed(count < 10_000 ? 1 : 0)}k` : `${(count / 1_000_000).toFixed(1)}M`;
}

export function duration(seconds: number): string {
  if (seconds < 1) return `${Math.round(seconds * 1_000)} ms`;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  return seconds < 3_600 ? `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s` : `${(seconds / 3_600).toFixed(1)} h`;
}

/** What other clients see of this one. */
export function browserName(): string {
  const known = /(Firefox|Edg|Chrome|Safari)\//.exec(navigator.userAgent)?.[1] ?? "browser";
  return `${known === "Edg" ? "Edge" : known} page`;
}

/** How long ago, or a date. */
export function ago(timestamp: string, now = Date.now()): string {
  const then = Date.parse(timestamp);
  if (Number.isNaN(then)) return "";
  const seconds = (now - then) / 1_000;
  if (seconds < 60) return "now";
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3_600)} h`;
  if (seconds < 7 * 86_400) return `${Math.floor(seconds / 86_400)} d`;
  return new Date(then).toISOString().slice(0, 10);
}

export function clock(timestamp: string): string {
  const then = new Date(timestamp);
  return Number.isNaN(then.getTime()) ? "" : then.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
}
