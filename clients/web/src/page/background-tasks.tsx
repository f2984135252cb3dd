// Background tasks: each with its state, its output as it arrives, and a button that cancels it.

import { useEffect, useState } from "preact/hooks";

import type { ToolCallEnd } from "../client/index.ts";
import { confirmDialog } from "./dialog.tsx";
import { exitCode, structuredOf, textOf } from "./tool-results.ts";
import { isOwner, useView, type View } from "./store.ts";
import type { Task } from "./tasks.ts";
import { counted, oneLine, printed, visible } from "./text.ts";
import { argumentsText, duration } from "./wording.ts";

/** Characters of the output that are shown at once: the newest. */
const TAIL_CHARS = 2_000;
const SHOWN_ENDED = 20;
const TICK_MS = 1_000;

const STATES: Record<Task["status"], string> = {
  running: "running", completed: "completed", failed: "failed", cancelled: "cancelled", interrupted: "interrupted: the server ended meanwhile",
};

/** The panel. */
export function Background({ view }: { view: View }) {
  const [error, setError] = useState("");
  const [all, setAll] = useState(false);
  useEffect(() => {
    view.tasks.fetch().then(() => view.changed(), (failure: Error) => setError(`Ended tasks could not be fetched: ${failure.message}`));
  }, [view]);
  const tasks = [...view.tasks.known.values()].reverse();
  const running = tasks.filter((task) => task.status === "running");
  const ended = tasks.filter((task) => task.status !== "running").sort((one, other) => other.endedAt.localeCompare(one.endedAt));
  return (
    <>
      <p role="alert" class="error-text">{error}</p>
      {running.length ? <ul class="plain-list tasks">{running.map((task) => <li key={task.id}><TaskView view={view} task={task} /></li>)}</ul> : <p class="muted">No background task runs.</p>}
      {ended.length ? <h4>Ended</h4> : null}
      <ul class="plain-list tasks">{ended.slice(0, all ? undefined : SHOWN_ENDED).map((task) => <li key={task.id}><TaskView view={view} task={task} /></li>)}</ul>
      {ended.length > SHOWN_ENDED && !all ? <button type="button" class="button small" onClick={() => setAll(true)}>Show all {ended.length} ended tasks</button> : null}
    </>
  );
}

/** The background task that a call has become or started; nothing for other calls. */
export function TaskOfCall({ view, end }: { view: View; end: ToolCallEnd }) {
  const [fetched, setFetched] = useState(false);
  const id = taskIdOf(end);
  const task = id ? view.tasks.known.get(id) : undefined;
  // of the many that have ended, none is drawn again with each event
  useView((task ? task.status !== "running" : fetched) ? undefined : view);
  useEffect(() => {
    if (id && !task) view.tasks.fetch().then(() => setFetched(true), () => setFetched(true)); // the panel says what went wrong
  }, [id, !task]);
  return task ? <TaskView view={view} task={task} /> : null;
}

/** The id of the task that a result promises. */
export function taskIdOf(end: ToolCallEnd): string {
  const { task_id, auto_backgrounded, status } = structuredOf(end.result);
  return typeof task_id === "string" && (auto_backgrounded === true || (status === "running" && end.tool === "start_background")) ? task_id : "";
}

function TaskView({ view, task }: { view: View; task: Task }) {
  const [error, setError] = useState("");
  const running = task.status === "running";
  const now = useClock(running);
  const owner = isOwner(view.client);
  const name = `${task.tool} ${task.id}`;
  const given = task.call ? oneLine(argumentsText(task.call.arguments), 160) : "";
  const cancel = async () => {
    if (!(await confirmDialog({ title: "Cancel this background task?", code: `${oneLine(task.tool, 60)} ${given}`, yes: "Cancel the task", no: "Let it run", danger: true }))) return;
    await view.client.ask({ type: "task.stop", session_id: view.session.id, task_id: task.id }).then(() => setError(""), (failure: Error) => setError(failure.message));
  };
  return (
    <section class={`task ${task.status}`} aria-label={`Background task ${oneLine(name, 100)}`}>
      <div class="line">
        <span class="grow"><code class="strong">{oneLine(task.tool, 60)}</code> <code dir="ltr">{given}</code></span>
        {running && owner ? <button type="button" class="button small" aria-label={`Cancel ${oneLine(name, 100)}`} onClick={() => void cancel()}>Cancel</button> : null}
      </div>
      <p class="muted small">{factsOf(task, now)}</p>
      <p role="alert" class="error-text">{error}</p>
      <Output task={task} name={name} />
    </section>
  );
}

function factsOf(task: Task, now: number): string {
  const code = exitCode(task.result);
  const end = task.endedAt ? Date.parse(task.endedAt) : now;
  const measured = structuredOf(task.result)["duration_s"];
  const seconds = typeof measured === "number" ? measured : (end - Date.parse(task.startedAt)) / 1_000;
  return [STATES[task.status], code === null ? "" : `exit code ${code}`, seconds >= 0 ? duration(seconds) : "", oneLine(task.id, 40)].filter(Boolean).join(" · ");
}

/** What it has printed: the end of it until more is asked for. */
function Output({ task, name }: { task: Task; name: string }) {
  const [whole, setWhole] = useState(false);
  const ended = task.result?.ok ? textOf(task.result).text : "";
  const text = ended || task.call?.output || "";
  const problem = task.result?.error?.message;
  const cut = !ended && (task.call?.output_start ?? 0) > 0;
  const shown = whole ? text : text.slice(-TAIL_CHARS);
  return (
    <>
      {problem ? <p class="error-text">{visible(problem)}</p> : null}
      {shown.length < text.length ? <button type="button" class="more" onClick={() => setWhole(true)}>{counted(text.length - shown.length, "earlier character")} not shown. Show all</button> : null}
      {cut && whole ? <p class="muted small">What was printed before is not kept here.</p> : null}
      {text ? <pre class="output live" dir="ltr" tabIndex={0} role="region" aria-label={`Output of ${oneLine(name, 100)}`}>{printed(shown)}</pre>
        : <p class="muted small">{task.status === "running" ? "It has printed nothing yet." : problem ? "" : "It has printed nothing, or that is not kept."}</p>}
    </>
  );
}

/** The time now, which advances while something runs. */
function useClock(runs: boolean): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    if (!runs) return undefined;
    const timer = setInterval(() => setNow(Date.now()), TICK_MS);
    return () => clearInterval(timer);
  }, [runs]);
  return now;
}
