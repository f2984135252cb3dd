// Texts from outside, made safe to look at, and times.

import type { Message } from "../client/index.ts";

/** Escape sequences of terminals. */
// oxlint-disable-next-line no-control-regex
const SEQUENCES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[PX^_][^\u001b]*(?:\u001b\\)?|[@-Z\\-_])/g;
/** Characters without a picture of their own that could hide or reorder text. */
const INVISIBLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\uffff\ud800-\udfff\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]|(?<!\p{Emoji})\ufe0f/gu;

/** A text with everything invisible written out, for arguments, commands, paths, and names. */
export function visible(text: string): string {
  return text.replace(/\r\n/g, "\n").replace(INVISIBLE, (char) => `<U+${char.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}>`);
}

/** What a program printed, without colours and cursor movements. */
export function printed(text: string): string {
  const plain = text.replace(SEQUENCES, "").replace(/\r+\n/g, "\n");
  return visible(plain.includes("\r") ? plain.split("\n").map((line) => line.slice(line.lastIndexOf("\r") + 1)).join("\n") : plain);
}

/** Prose, without what could reorder or hide it; the characters that shape emoji and scripts stay. */
export function prose(text: string): string {
  return text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, "");
}

/** One line, cut. */
export function oneLine(text: string, most = 120): string {
  const line = visible(text.slice(0, most * 4)).replace(/\s+/g, " ").trim();
  return line.length > most || text.length > most * 4 ? `${line.slice(0, most - 1)}…` : line;
}

/** JSON up to this length stays on one line. */
const SHORT_CHARS = 80;

/** What a message says at its beginning; empty if it begins with something else, such as an image. The label that names
 * its source to the model is left out: the heading names it. */
export function wordsOf(message: Message): string {
  const [first] = message.parts;
  const text = first?.type === "text" ? first.text : "";
  const label = isOwn(message) ? "" : `[${message.source}] `;
  return text.startsWith(label) ? text.slice(label.length) : text;
}

/** Whether a person wrote a message. */
export function isOwn(message: Message): boolean {
  return (message.source ?? "user") === "user";
}

/** What a session is called: its name, its description, or the beginning of its id. */
export function titleOf(session: { name?: string | null; description?: string | null }, id: string): string {
  return session.name || session.description || `Untitled ${id.slice(1, 7)}`;
}

/** A path as a shell's prompt shows it: the home directory as `~`. */
export function shortPath(path: string, home = ""): string {
  return home.length > 1 && (path === home || path.startsWith(`${home}/`)) ? `~${path.slice(home.length)}` : path;
}

/** A value as text: a string as it is, else JSON. */
export function valueText(value: unknown): string {
  if (typeof value === "string") return value;
  const short = JSON.stringify(value);
  return short.length <= SHORT_CHARS ? short : JSON.stringify(value, null, 2);
}

/** A number of things: `1 file`, `2 files`. */
export function counted(number: number, what: string): string {
  return `${number.toLocaleString("en")} ${what}${number === 1 ? "" : "s"}`;
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
