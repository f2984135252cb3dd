// What calls gave back, as text.

import type { ToolResult } from "../client/index.ts";

export function structuredOf(result: ToolResult | undefined): Record<string, unknown> {
  const value = result?.structured;
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}

export function exitCode(result: ToolResult | undefined): number | null {
  const code = structuredOf(result)["exit_code"];
  return typeof code === "number" ? code : null;
}

/** What of a structured result is its text; the head of the call has the exit code and the time. */
const TEXTS = ["output", "content", "stdout", "text"];
const IN_HEAD = new Set(["exit_code", "duration_s", "diff"]);

/** The text of a result, and the other facts of a structured one, which the model is sent as JSON. */
export function textOf(result: ToolResult): { text: string; facts: [string, unknown][] } {
  const data = structuredOf(result);
  const main = TEXTS.find((name) => typeof data[name] === "string");
  if (main) return { text: (data[main] as string).trimEnd(), facts: Object.entries(data).filter(([name]) => name !== main && !IN_HEAD.has(name)) };
  const text = (result.content ?? []).map((part) => (part.type === "text" ? part.text : "")).join("\n").trim();
  return { text: /^[[{]/.test(text) && Object.keys(data).length ? JSON.stringify(data, null, 2) : text, facts: [] };
}
