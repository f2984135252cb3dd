// The `/` commands: those of the session's plugins, stored prompts, and the page's own.

import type { Client } from "../client/index.ts";
import { confirmDialog } from "./dialog.tsx";
import { exportSession } from "./export.ts";
import { ANSWERS } from "./questions.tsx";
import type { View } from "./store.ts";
import { oneLine } from "./text.ts";

/** Completions that are shown at most, and the width of a name in a list of commands. */
const MOST_SHOWN = 12;
const NAME_COLUMNS = 16;

export interface Completion {
  text: string;
  label: string;
  hint: string;
}

type Handler = (view: View, given: string, show: (id: string) => void) => Promise<void>;

const PAGE_COMMANDS: Record<string, { hint: string; run: Handler }> = {
  help: { hint: "list the commands and the keys", run: showHelp },
  stop: { hint: "stop what the agent does", run: async (view) => void (await view.session.stop()) },
  continue: { hint: "resume an interrupted turn", run: async (view) => void (await view.client.ask({ type: "turn.continue", session_id: view.session.id })) },
  rename: { hint: "give the session a name", run: (view, name) => rename(view.client, view.session.id, name) },
  model: { hint: "show or change the model", run: changeModel },
  fork: { hint: "go on in a copy of this session", run: fork },
  export: { hint: "save the conversation as one HTML file", run: async (view) => exportSession(view) },
  sessions: { hint: "back to the list of sessions", run: async (_view, _given, show) => show("") },
};

/** The keys, where they are not those of every page. */
const KEYS: readonly [string, string][] = [
  ["Enter", "send the message; while the agent works, at its next pause"],
  ["Shift+Enter", "begin a new line"],
  ["Escape", "in the message field: stop the turn; in a panel: close it"],
  ["Tab, Up, Down", "choose a completion of / and @"],
  ["Alt+Y, Alt+N", "allow or deny the call that is asked about"],
  ["Alt+E", "edit its arguments first"],
  ...ANSWERS.map(({ key, hint }): [string, string] => [`Alt+${key}`, hint]),
];

/** The commands by name: the page's own, those of the session's plugins, and stored prompts. */
function commandsOf(view: View): { name: string; hint: string; parameters: string }[] {
  const plugins = view.session.state.commands.map((command) => ({ name: command.name, hint: command.description, parameters: command.parameters ?? "" }));
  const own = Object.entries(PAGE_COMMANDS).map(([name, { hint }]) => ({ name, hint, parameters: "" }));
  return [...own, ...plugins.filter((command) => !(command.name in PAGE_COMMANDS))]
    .sort((one, other) => one.name.localeCompare(other.name));
}

async function showHelp(view: View): Promise<void> {
  const lines = (rows: readonly (readonly [string, string])[]) => rows.map(([name, hint]) => `\n${name.padEnd(NAME_COLUMNS)} ${oneLine(hint)}`).join("");
  view.notice("/help", lines(commandsOf(view).map(({ name, hint, parameters }) => [`/${oneLine(name, 60)}`, `${parameters} ${hint}`])));
  view.notice("Keys", lines(KEYS));
}

/** What may follow a slash that is being typed; nothing for other texts. */
export function completionsOf(view: View, text: string): Completion[] {
  const typed = /^\/([\w-]*)$/.exec(text)?.[1];
  if (typed === undefined) return [];
  return commandsOf(view)
    .filter((command) => command.name.startsWith(typed))
    .slice(0, MOST_SHOWN)
    .map(({ name, hint, parameters }) => ({ text: `/${name} `, label: `/${name} ${parameters}`.trim(), hint }));
}

/** The word that names a file at the end of a text, after an `@`; null without one. */
export function fileWord(text: string): string | null {
  return /(?:^|\s)@([^\s@]{0,100})$/.exec(text)?.[1] ?? null;
}

/** Files for the word at the end of a text. */
export async function fileCompletions(view: View, text: string): Promise<Completion[]> {
  const word = fileWord(text);
  if (word === null) return [];
  const { paths } = await view.client.ask({ type: "files.find", session_id: view.session.id, query: word, limit: 12 });
  const before = text.slice(0, text.length - word.length);
  return paths.map((path) => ({ text: `${before}${path} `, label: path, hint: "" }));
}

/** Run a command; false for what is a message: other texts, and stored prompts. */
export async function runSlash(view: View, text: string, show: (id: string) => void): Promise<boolean> {
  const found = /^\/([\w-]+)(?:\s+([\s\S]*))?$/.exec(text);
  if (!found) return false;
  const [, name = "", given = ""] = found;
  if (Object.hasOwn(PAGE_COMMANDS, name)) {
    await PAGE_COMMANDS[name]!.run(view, given.trim(), show);
    return true;
  }
  const command = view.session.state.commands.find((one) => one.name === name);
  if (!command || command.is_prompt) return false;
  view.notice(`/${name} ${given}`.trim(), `\n${await view.session.run(name, given.trim())}`.trimEnd());
  return true;
}

/** Give a session another name. */
export async function rename(client: Client, id: string, name: string): Promise<void> {
  if (!name.trim()) throw new Error("Give a name; a session that has one keeps it until it gets another.");
  await client.ask({ type: "session.update", session_id: id, name });
}

async function changeModel(view: View, model: string): Promise<void> {
  if (model) return void (await view.client.ask({ type: "session.update", session_id: view.session.id, model }));
  const models = view.session.info?.models ?? [];
  view.notice(`Model: ${view.session.state.model}`, models.length ? `\n${models.slice(0, 60).join("\n")}` : "");
}

async function fork(view: View, name: string, show: (id: string) => void): Promise<void> {
  if (view.working && !(await confirmDialog({ title: "Fork while the agent works?", text: "The copy ends with what is in the log now.", yes: "Fork" }))) return;
  const made = await view.client.ask({ type: "session.fork", session_id: view.session.id, name: name || null });
  show(made.session_id);
}
