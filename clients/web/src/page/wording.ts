// The words that the page has in common with terminals and editors: those of `jaato.cli.output`, to the letter.

import type { BudgetUpdated, ClarificationResolved, GcCompleted, PermissionResolved, Retry, TurnCompleted, Usage, WaypointUpdated } from "../client/index.ts";
import { counted, oneLine } from "./text.ts";

/** Characters of an argument in the line of a call. */
const VALUE_CHARS = 60;
/** Characters of a line about an event. */
const LINE_CHARS = 1_000;

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

/** The arguments of a call on one line; a command unabridged, before the others. */
export function argumentsText(given: Readonly<Record<string, unknown>>): string {
  const parts = Object.entries(given).filter(([name]) => name !== "command").map(([name, value]) => `${name}=${argumentText(value)}`);
  const command = given["command"];
  if (command == null) return parts.join(" ");
  return [typeof command === "string" ? command : JSON.stringify(command), ...(parts.length ? [`(${parts.join(" ")})`] : [])].join(" ");
}

function argumentText(value: unknown): string {
  if (typeof value !== "string") return cut(JSON.stringify(value));
  const short = cut(value.split("\n", 1)[0]!);
  const more = value.length > short.length ? ` (+${counted(value.length - short.length, "character")})` : "";
  return `${!short || short.includes(" ") ? JSON.stringify(short) : short}${more}`;
}

function cut(text: string): string {
  return text.length <= VALUE_CHARS ? text : `${text.slice(0, VALUE_CHARS - 1)}…`;
}

/** Why a turn ended; empty if it completed. */
export function turnEnd(turn: TurnCompleted): string {
  if (turn.error && (turn.reason === "error" || turn.reason === "limit")) return turn.error.message;
  return END_WORDS[turn.reason] ?? "";
}

const END_WORDS: Readonly<Record<string, string>> = {
  cancelled: "Interrupted; completed work is kept.",
  interrupted: "Interrupted; completed work is kept.",
  refusal: "The model refused to continue.",
  length: "The answer was truncated at the maximum length.",
};

/** Tokens, price, time and calls of a turn, and of the turns of subagents in it. */
export function turnSummary(turn: TurnCompleted, inner: readonly TurnCompleted[] = []): string {
  const turns = [turn, ...inner];
  const { usage, cost } = sumOf(turns);
  const calls = turns.reduce((total, one) => total + one.tool_calls, 0);
  return `${usageText(usage)}, ${price(cost)}, ${turn.duration_s.toFixed(1)} s, ${calls} call${calls === 1 ? "" : "s"}`;
}

/** What some turns have used together; the price is null where that of one is unknown. */
export function sumOf(turns: readonly TurnCompleted[]): { usage: Required<Pick<Usage, Counted>>; cost: number | null } {
  const sum = (name: Counted) => turns.reduce((total, one) => total + (one.usage[name] ?? 0), 0);
  const usage = { input_tokens: sum("input_tokens"), cached_input_tokens: sum("cached_input_tokens"), output_tokens: sum("output_tokens") };
  return { usage, cost: turns.some((one) => one.cost_usd == null) ? null : turns.reduce((total, one) => total + one.cost_usd!, 0) };
}

type Counted = "input_tokens" | "cached_input_tokens" | "output_tokens";

export function usageText(usage: Usage): string {
  const cached = usage.cached_input_tokens ? ` (${count(usage.cached_input_tokens)} cached)` : "";
  return `${counted(usage.input_tokens ?? 0, "token")} in${cached}, ${count(usage.output_tokens ?? 0)} out`;
}

function count(number: number): string {
  return number.toLocaleString("en");
}

/** A price; null where it is unknown. */
export function price(usd: number | null): string {
  if (usd === null) return "price unknown";
  const digits = usd < 1 ? 4 : 2;
  return usd === 0 ? "$0" : `$${usd.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })}`;
}

/** A number of tokens in few characters. */
export function tokens(number: number): string {
  if (number < 1_000) return String(number);
  return number < 1_000_000 ? `${(number / 1_000).toFixed(number < 100_000 ? 1 : 0)}k` : `${(number / 1_000_000).toFixed(1)}M`;
}

export function duration(seconds: number): string {
  if (seconds < 0.1) return `${(seconds * 1_000).toFixed(0)} ms`;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  return `${Math.floor(seconds / 60)} min ${Math.floor(seconds) % 60} s`;
}

/** A retry of a model call: its delay and the error. */
export function retryText(event: Retry): string {
  return oneLine(`retry ${event.attempt} of ${event.max_attempts} in ${Number(event.wait_s.toPrecision(3))} s: ${event.error.message}`, LINE_CHARS);
}

/** The outcome of a compaction. */
export function compactionText(event: GcCompleted): string {
  if (event.problem) return oneLine(`the context was not compacted: ${event.problem}`, LINE_CHARS);
  const cleared = event.cleared ? `, ${counted(event.cleared, "tool result")} cleared` : "";
  return oneLine(`context compacted, ${count(event.tokens_before)} to about ${counted(event.tokens_after, "token")}${cleared} (${event.strategy}: ${event.reason})`, LINE_CHARS);
}

/** A restore, or what the agent did with a waypoint of its own; empty for the rest, which the user's command shows. */
export function waypointText({ action, waypoint }: WaypointUpdated): string {
  if (action !== "restored" && (waypoint.owner !== "model" || waypoint.ceiling)) return "";
  return oneLine(`waypoint ${waypoint.id} ${action}: ${waypoint.description}`, LINE_CHARS);
}

/** A budget for which the user has allowed more. */
export function budgetText(event: BudgetUpdated): string {
  return `the budget per ${event.scope} is ${amount(event.unit, event.limit)} now`;
}

function amount(unit: BudgetUpdated["unit"], value: number): string {
  if (unit === "tokens") return counted(Math.round(value), "token");
  if (unit === "usd") return value ? price(value) : "$0.00";
  const hours = Math.floor(value / 3_600);
  const minutes = Math.floor((value % 3_600) / 60);
  const seconds = value % 60;
  const parts = [hours ? `${hours}h` : "", minutes ? `${minutes}m` : ""].join("");
  return parts + (seconds || !parts ? `${Number(seconds.toPrecision(3))}s` : "");
}
