// The background tasks of a session: those that run, from its state, and those that have ended, from its log.

import type { BackgroundUpdated, CallView, ProtocolEvent, Session, ToolResult } from "../client/index.ts";

/** A background task as the page shows it. */
export interface Task {
  id: string;
  tool: string;
  callId: string;
  status: BackgroundUpdated["status"];
  /** When it began and ended; empty where that is not known. */
  startedAt: string;
  endedAt: string;
  /** Its call, with what it has printed while this page followed it. */
  call?: CallView | undefined;
  result?: ToolResult | undefined;
}

const FETCHED = 100;
/** Ended tasks that are kept; the oldest are dropped. */
const MOST = 300;

/** The tasks by their id, in the order in which the page has received them. */
export class Tasks {
  readonly known = new Map<string, Task>();
  #session: Session;
  #fetching: Promise<void> | undefined;

  constructor(session: Session) {
    this.#session = session;
  }

  /** Take in the state, after the session was attached to. */
  reset(): void {
    for (const event of Object.values(this.#session.state.tasks)) this.#note(event);
    let missed = false;
    for (const task of this.known.values()) {
      task.call = this.#callOf(task.callId) ?? task.call;
      missed ||= task.status === "running" && !this.#session.state.tasks[task.id];
    }
    if (!missed) return;
    this.#fetching = undefined;
    void this.fetch().catch(() => undefined); // the panel asks again, and says what went wrong
  }

  take(event: ProtocolEvent): void {
    if (event.type === "background.updated") this.#note(event);
    else if (event.type === "tool.call_start") for (const task of this.known.values()) if (task.callId === event.call_id) task.call = this.#callOf(event.call_id);
  }

  /** Fetch the newest tasks that have ended; once, until something was missed. */
  fetch(): Promise<void> {
    this.#fetching ??= this.#fetch();
    return this.#fetching;
  }

  async #fetch(): Promise<void> {
    try {
      const page = await this.#session.history(null, FETCHED, ["background.updated"]);
      for (const event of page.events) if (event.type === "background.updated") this.#note(event);
    } catch (error) {
      this.#fetching = undefined;
      throw error;
    }
  }

  #callOf(id: string): CallView | undefined {
    const { calls, background_calls } = this.#session.state;
    return calls[id] ?? background_calls[id];
  }

  #note(event: BackgroundUpdated): void {
    const callId = event.call_id ?? "";
    const before = this.known.get(event.task_id);
    const task: Task = before ?? { id: event.task_id, tool: event.tool, callId, status: "running", startedAt: "", endedAt: "", call: this.#callOf(callId) };
    if (event.status === "running") task.startedAt = task.call?.started_at ?? (task.startedAt || event.timestamp);
    else Object.assign(task, { status: event.status, endedAt: event.timestamp, result: event.result ?? undefined });
    this.known.set(event.task_id, task);
    if (this.known.size <= MOST) return;
    const oldest = [...this.known.values()].find((one) => one.status !== "running");
    if (oldest) this.known.delete(oldest.id);
  }
}
