// What waits for an answer, one at a time and counted: may this call run, and the model's own questions.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

import { parseJson } from "../client/exact-json.ts";
import type { ClarificationQuestion, PermissionRequested, Question, Status } from "../client/index.ts";
import { Arguments } from "./tool-call.tsx";
import { LongText } from "./code.tsx";
import { Diff } from "./diff.tsx";
import { inTab } from "./storage.ts";
import type { View } from "./store.ts";
import { clock, oneLine, prose, valueText, visible } from "./text.ts";
import { lateAnswer } from "./wording.ts";

/** Buttons do nothing for this long after a question appears, so that a second click does not answer the next one. */
const SETTLE_MS = 400;
/** Nor do keys, if another question ended so shortly before: then they may be meant for that. */
const FOLLOWS_MS = 2_000;
/** Arguments that the diff of a call shows. */
const IN_PREVIEW = new Set(["content", "new_content", "old", "new", "prologue", "epilogue", "edits", "patch"]);

/** The line at which the server has cut a diff: then the arguments have what it leaves out. */
const CUT = /^… the diff goes on/m;

export function Questions({ view, status }: { view: View; status: Status }) {
  const all = view.session.error ? [] : Object.values(view.session.state.questions);
  const question = all[0];
  const role = view.client.connection.welcome?.role;
  if (!question) return <div class="sr-only" role="status" aria-live="assertive" />;
  const agent = view.session.state.agents[question.agent_id];
  const who = agent && agent.parent_agent_id !== null ? `Subagent ${oneLine(agent.name, 60)}: ` : "";
  const count = all.length > 1 ? `1 of ${all.length}` : "";
  const can = role !== "viewer" && status === "online";
  return (
    <section class="question" aria-label="A question waits" key={question.question_id}>
      <div class="sr-only" role="status" aria-live="assertive">{question.type === "permission.requested" ? `${who}May ${oneLine(question.tool, 60)} run?` : `${who}The agent has a question.`}</div>
      {question.type === "permission.requested"
        ? <Permission view={view} question={question} who={who} count={count} can={can} />
        : <Clarification view={view} question={question} who={who} count={count} can={can} />}
      {role === "viewer" ? <p class="muted">You only watch here; somebody else answers.</p> : null}
    </section>
  );
}

interface QuestionProps<T> {
  view: View;
  question: T;
  who: string;
  count: string;
  can: boolean;
}

type AnswerDetails = { arguments?: Record<string, unknown>; comment?: string };

/** The answers that last, and the keys that give them with Alt. */
export const ANSWERS: readonly { answer: string; label: string; key: string; covers: boolean; hint: string }[] = [
  { answer: "t", label: "For this turn", key: "T", covers: true, hint: "allow calls like this until the turn ends" },
  { answer: "i", label: "Until idle", key: "I", covers: true, hint: "allow calls like this until the agent has nothing more to do" },
  { answer: "a", label: "Always", key: "A", covers: true, hint: "allow calls like this from now on" },
  { answer: "once", label: "Exactly this, once", key: "O", covers: true, hint: "allow exactly this call, once" },
  { answer: "all", label: "All that wait", key: "L", covers: true, hint: "allow every request that waits now" },
  { answer: "never", label: "Never", key: "X", covers: false, hint: "deny calls like this from now on" },
];

function Permission({ view, question, who, count, can }: QuestionProps<PermissionRequested>) {
  const [{ editing, text }, setEdit] = useUnsent(view, question, "edit", () => ({ editing: false, text: JSON.stringify(question.arguments, null, 2) }));
  const [comment, setComment] = useUnsent(view, question, "comment", () => "");
  const toggle = () => setEdit({ editing: !editing, text });
  const { error, busy, ready, send } = useAnswer(view, question, (answer: string, more: AnswerDetails = {}) => view.session.answer(question, answer, more));
  const field = useRef<HTMLTextAreaElement>(null);
  const edit = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (!editing) return undefined;
    field.current?.focus();
    return () => {
      if (document.activeElement === document.body) edit.current?.focus();
    };
  }, [editing]);
  const off = !can || busy || !ready;
  const options = new Set(question.options);
  const offered = ANSWERS.filter((one) => options.has(one.answer) && (question.shape || !one.covers));
  const allow = () => {
    if (!editing) return send("y");
    const parsed = parseArguments(text);
    if (typeof parsed === "string") return send.fail(parsed);
    return send("e", { arguments: parsed });
  };
  const deny = () => (comment.trim() ? send("c", { comment: comment.trim() }) : send("n"));
  const press = (act: () => void) => () => {
    if (!can || busy) return;
    if (!ready && performance.now() - view.answeredAt < FOLLOWS_MS) send.fail("This question has just followed another. Press the key again to answer it.");
    else act();
  };
  useShortcuts({
    Y: press(allow),
    N: press(deny),
    E: () => can && options.has("e") && toggle(),
    ...Object.fromEntries(offered.map((one) => [one.key, press(() => send(one.answer))])),
  });
  return (
    <>
      <header class="question-head">
        <h3>{who}May <code>{oneLine(question.tool, 60)}</code> run?</h3>
        <span class="muted">{count}</span>
      </header>
      {question.access?.profile === "full" ? <p class="danger-text">It may do everything your account can: there is no sandbox.</p> : null}
      <div class="question-body">
        {editing ? (
          <textarea ref={field} class="field code-field" aria-label="Arguments as JSON" rows={Math.min(14, text.split("\n").length + 1)} spellcheck={false} value={text} onInput={(event) => setEdit({ editing, text: event.currentTarget.value })} />
        ) : <WhatIsAsked question={question} />}
        {question.access ? <Access access={question.access} /> : null}
        <p class="muted">Because <LongText text={visible(question.reason)} />{question.deadline ? ` · denied at ${clock(question.deadline)} without an answer` : ""}</p>
        {question.shape ? <p class="muted covers">An answer that lasts covers: <code>{oneLine(question.shape.replaceAll("\n", "; "), 300)}</code></p> : <p class="muted">The answer applies to this call only.</p>}
      </div>
      <p role="alert" class="error-text">{error}</p>
      <div class="answers">
        <button type="button" class="button primary" disabled={off} aria-keyshortcuts="Alt+Y" title="Alt+Y" onClick={() => allow()}>{editing ? "Allow with these arguments" : "Allow"}</button>
        <button type="button" class="button" disabled={off} aria-keyshortcuts="Alt+N" title="Alt+N" onClick={() => deny()}>{comment.trim() ? "Deny with comment" : "Deny"}</button>
        {options.has("c") ? <input class="field comment" aria-label="Comment for the agent, if you deny" placeholder="Comment if you deny…" value={comment} onInput={(event) => setComment(event.currentTarget.value)} onKeyDown={(event) => { if (event.key === "Enter" && !event.isComposing && comment.trim() && !off) deny(); }} /> : null}
        {options.has("e") ? <button ref={edit} type="button" class="button" disabled={!can} aria-pressed={editing} aria-keyshortcuts="Alt+E" title="Alt+E" onClick={toggle}>{editing ? "Discard the edit" : "Edit"}</button> : null}
      </div>
      {offered.length && !editing ? (
        <div class="answers lasting" role="group" aria-label="Answers that last">
          {offered.map((one) => <button key={one.answer} type="button" class="button small" disabled={off} aria-keyshortcuts={`Alt+${one.key}`} title={`${one.hint} (Alt+${one.key})`} onClick={() => send(one.answer)}>{one.label}</button>)}
        </div>
      ) : null}
    </>
  );
}

/** The arguments, then the diff of what would change; a diff that was cut comes first, as the arguments repeat it. */
function WhatIsAsked({ question }: { question: PermissionRequested }) {
  const diff = question.preview ? <Diff text={question.preview} /> : null;
  const isCut = CUT.test(question.preview ?? "");
  return <>{isCut ? diff : null}<AskedArguments question={question} isCut={isCut} />{isCut ? null : diff}</>;
}

function AskedArguments({ question, isCut }: { question: PermissionRequested; isCut: boolean }) {
  const heads = (question.preview ?? "").split("\n").filter((line) => line.startsWith("+++ "));
  const previewed = question.preview && !isCut;
  const shown = ([name, value]: [string, unknown]) => !previewed || !(IN_PREVIEW.has(name) || (name === "path" && heads.length === 1 && heads[0] === `+++ ${valueText(value)}`));
  const entries = Object.entries(question.arguments).filter(shown);
  if (!entries.length) return question.preview ? null : <p class="muted">It has no arguments.</p>;
  return <Arguments entries={entries} asked />;
}

function Access({ access }: { access: NonNullable<PermissionRequested["access"]> }) {
  const lines = [
    ...(access.profile === "full" ? [] : [access.profile === "workspace-write" ? "write in the workspace" : "read only"]),
    ...(access.domains ?? []).map((domain) => (domain === "*" ? "reach every public host" : `reach ${domain}`)),
    ...(access.paths ?? []).map((path) => `change ${path}`),
    ...(access.control ? ["change the control files of the workspace"] : []),
  ];
  if (!lines.length) return null;
  return <div class="access"><b>It may</b><ul>{lines.map((line) => <li key={line}>{visible(line)}</li>)}</ul></div>;
}

function Clarification({ view, question, who, count, can }: QuestionProps<ClarificationQuestion>) {
  const form = useRef<HTMLFormElement>(null);
  const [written, keep] = useUnsent<Record<string, string>>(view, question, "answers", () => ({}));
  const [before] = useState(written);
  const { error, busy, ready, send } = useAnswer(view, question, (answers: (string | null)[]) => view.session.clarify(question, answers));
  const off = !can || busy || !ready;
  const submit = () => {
    const data = new FormData(form.current!);
    send(question.questions.map((asked, index) => {
      const typed = ((data.get(`text${index}`) as string | null) ?? "").trim();
      const chosen = data.get(`choice${index}`) as string | null;
      return typed || chosen || (typeof asked["default"] === "string" ? asked["default"] : null);
    }));
  };
  return (
    <form ref={form} onInput={() => keep(Object.fromEntries(new FormData(form.current!)) as Record<string, string>)} onSubmit={(event) => { event.preventDefault(); if (!off) submit(); }}>
      <header class="question-head"><h3>{who}{question.outcome ? "What happened to this call?" : "The agent asks"}</h3><span class="muted">{count}</span></header>
      <div class="question-body">
        {question.context ? <p dir="auto"><LongText text={prose(question.context)} /></p> : null}
        {question.questions.map((asked, index) => <ClarificationField key={index} asked={asked} index={index} before={before} />)}
        {question.deadline ? <p class="muted">Defaults are used from {clock(question.deadline)}.</p> : null}
      </div>
      <p role="alert" class="error-text">{error}</p>
      <div class="answers"><button type="submit" class="button primary" disabled={off}>Answer</button></div>
    </form>
  );
}

function ClarificationField({ asked, index, before }: { asked: Readonly<Record<string, unknown>>; index: number; before: Readonly<Record<string, string>> }) {
  const choices = Array.isArray(asked["choices"]) ? asked["choices"].map(String) : [];
  const preset = typeof asked["default"] === "string" ? asked["default"] : "";
  return (
    <fieldset class="clarify">
      <legend dir="auto"><LongText text={prose(String(asked["question"] ?? ""))} /></legend>
      {choices.map((choice) => <label key={choice} class="choice"><input type="radio" name={`choice${index}`} value={choice} defaultChecked={choice === (before[`choice${index}`] ?? preset)} /> <span dir="auto"><LongText text={prose(choice)} /></span></label>)}
      <input class="field" name={`text${index}`} defaultValue={before[`text${index}`]} aria-label={choices.length ? "Another answer" : "Answer"} placeholder={choices.length ? "Another answer…" : preset || "Answer…"} autocomplete="off" />
    </fieldset>
  );
}

/** Part of an answer that is not sent yet: a reload keeps it, while the question waits. */
function useUnsent<T>(view: View, question: Question, name: string, initial: () => T): [T, (value: T) => void] {
  const key = `answer.${question.question_id}.${name}`;
  const [value, setValue] = useState<T>(() => {
    const kept = inTab.get(key);
    return kept === null ? initial() : (JSON.parse(kept) as T);
  });
  useEffect(() => () => {
    if (!view.session.state.questions[question.question_id]) inTab.set(key, null);
  }, []);
  const set = (next: T) => {
    setValue(next);
    inTab.set(key, JSON.stringify(next));
  };
  return [value, set];
}

function parseArguments(text: string): Record<string, unknown> | string {
  try {
    const parsed = parseJson(text);
    if (typeof parsed === "object" && parsed !== null && !Array.isArray(parsed)) return parsed as Record<string, unknown>;
    return "The arguments are a JSON object: {…}.";
  } catch (failure) {
    return `This is no JSON: ${(failure as Error).message}`;
  }
}

/** Sends an answer once; `ready` becomes true a moment after the question appeared. */
function useAnswer<A extends unknown[]>(view: View, question: PermissionRequested | ClarificationQuestion, ask: (...given: A) => Promise<{ accepted: boolean; by?: string; answer?: string }>) {
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const [ready, setReady] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setReady(true), SETTLE_MS);
    return () => clearTimeout(timer);
  }, []);
  useLayoutEffect(() => () => {
    if (document.activeElement?.closest(".question") && matchMedia("(pointer: fine)").matches) document.querySelector<HTMLElement>(".composer textarea")?.focus();
  }, []);
  const send = (...given: A) => {
    setBusy(true);
    setError("");
    view.answeredAt = performance.now();
    view.answered.add(question.question_id);
    ask(...given).then(
      (settled) => {
        if (!settled.accepted && settled.answer) view.notice(lateAnswer(settled.by ?? "", settled.answer), "", "warning");
      },
      (failure: Error) => {
        view.answered.delete(question.question_id);
        setError(failure.message);
        setBusy(false);
      },
    );
  };
  send.fail = setError;
  return { error, busy, ready, send };
}

/** Alt and a letter, wherever the focus is: plain keys stay what they are for whoever is typing. */
function useShortcuts(actions: Record<string, () => unknown>): void {
  const latest = useRef(actions);
  latest.current = actions;
  useLayoutEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (!event.altKey || event.ctrlKey || event.metaKey || event.repeat || document.querySelector("dialog[open]")) return;
      const action = latest.current[letterOf(event)];
      if (!action) return;
      event.preventDefault();
      action();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}

/** The letter on a key; its place on an English keyboard where Alt makes another character of it, as on a Mac. Empty where
 * that character belongs to a text that is being written. */
function letterOf(event: KeyboardEvent): string {
  if (/^[a-z]$/i.test(event.key)) return event.key.toUpperCase();
  const field = event.target;
  const isWriting = (field instanceof HTMLTextAreaElement || field instanceof HTMLInputElement) && field.value !== "";
  return isWriting ? "" : event.code.replace(/^Key/, "");
}
