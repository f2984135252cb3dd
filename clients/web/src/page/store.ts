// What the page shows of a session: its state, the log of entries and notices, and hooks that redraw once a frame.

import { useEffect, useReducer } from "preact/hooks";

import { type Client, type Entry, type ProtocolEvent, type Session, isUnfinished } from "../client/index.ts";
import type { ContextBlock, TurnCompleted } from "../client/index.ts";
import { Tasks } from "./tasks.ts";
import { oneLine, titleOf, wordsOf } from "./text.ts";
import { budgetText, otherAnswer, retryText, waypointText } from "./wording.ts";

/** Something beside the conversation: what a command printed, a warning, a retry. */
export interface Notice {
  type: "notice";
  id: number;
  agent_id: string;
  level: "info" | "warning" | "error";
  title: string;
  text: string;
}

export type Item = Entry | Notice;

/** Items kept in the page; earlier ones are fetched again. */
const MOST_ITEMS = 1_500;
const PAGE = 100;
/** Among how many first events of a session its first message is searched. */
const FIRST_EVENTS = 50;
const TITLE_CHARS = 100;
/** How long a change waits for a frame. */
const HIDDEN_MS = 250;

/** Whether this browser may change sessions and run commands. */
export function isOwner(client: Client): boolean {
  return client.connection.welcome?.role === "owner";
}

/** A session as one page shows it. */
export class View {
  readonly session: Session;
  items: Item[] = [];
  /** Whether entries come before these. */
  more = false;
  /** Whether the reader is at the end, so that items may be dropped at the start. */
  atEnd = true;
  blocks: readonly ContextBlock[] = [];
  /** The questions that were answered here and whose events have not arrived. */
  answered = new Set<string>();
  /** When the last question was answered here or ended, in milliseconds since the page was opened. */
  answeredAt = -Infinity;
  readonly tasks: Tasks;
  progress = "";
  readonly client: Client;
  #notices = 0;
  #beginning = "";
  /** The listeners, and whether each is also called for text that arrives. */
  #listeners = new Map<() => void, boolean>();
  #stop: () => void;

  constructor(client: Client, session: Session) {
    this.client = client;
    this.session = session;
    this.tasks = new Tasks(session);
    this.#reset();
    this.#stop = session.listen((event) => this.#take(event));
  }

  /** Be called after each change; for text that arrives, which are most, only with `arriving`. */
  listen(listener: () => void, arriving = false): () => void {
    this.#listeners.set(listener, arriving);
    return () => this.#listeners.delete(listener);
  }

  close(): void {
    this.#stop();
    this.client.detach(this.session);
  }

  /** Call the listeners; with `arriving`, those that are called for text that arrives. */
  changed(arriving = false): void {
    for (const [listener, always] of this.#listeners) if (always || !arriving) listener();
  }

  /** Whether an agent of the session works. */
  get working(): boolean {
    return isUnfinished(this.session.state);
  }

  /** What the session is called: as in the list, without a name or description by its first message. */
  get title(): string {
    const { name, description, session_id } = this.session.state;
    return titleOf({ name, description: description || this.#beginning }, session_id);
  }

  /** Add something beside the conversation. */
  notice(title: string, text = "", level: Notice["level"] = "info", agent_id = ""): void {
    this.#notices += 1;
    this.items.push({ type: "notice", id: this.#notices, agent_id, level, title, text });
    this.changed();
  }

  /** The turns of subagents that ended within a turn of the root agent. */
  innerTurns(turn: TurnCompleted): TurnCompleted[] {
    if (turn.agent_id !== this.session.state.root_agent_id) return [];
    const ends = this.items.filter((item): item is TurnCompleted => item.type === "turn.completed" && item.seq < turn.seq);
    return ends.slice(ends.findLastIndex((end) => end.agent_id === turn.agent_id) + 1);
  }

  /** The text of the last reply of a turn, as the model wrote it. */
  answerOf(turn: TurnCompleted): string {
    const reply = this.items.findLast((item) => item.type === "message.model" && item.agent_id === turn.agent_id && item.seq < turn.seq);
    if (reply?.type !== "message.model" || reply.turn_id !== turn.turn_id) return "";
    return reply.message.parts.map((part) => (part.type === "text" ? part.text : "")).join("\n\n").trim();
  }

  /** Fetch what comes before the first entry. */
  async fetchEarlier(): Promise<void> {
    const first = this.items.find((item) => item.type !== "notice");
    if (!first) return;
    const page = await this.session.history(first.seq, PAGE);
    this.items = [...(page.events as Entry[]), ...this.items];
    this.more = page.before_seq != null;
    this.changed();
  }

  /** Whether the newest item is a notice with this text. */
  #isShown(text: string): boolean {
    const last = this.items.at(-1);
    return last?.type === "notice" && last.text === text;
  }

  #reset(): void {
    this.items = [...this.session.state.entries];
    this.more = (this.session.state.earlier ?? 0) > 0;
    if (!this.more) this.#begin(this.items);
    else if (!this.#beginning) void this.#fetchBeginning();
    this.tasks.reset();
  }

  /** Remember the first message. */
  #begin(items: readonly (Item | ProtocolEvent)[]): void {
    const first = items.find((item) => item.type === "message.user");
    if (first) this.#beginning ||= oneLine(wordsOf(first.message), TITLE_CHARS);
  }

  async #fetchBeginning(): Promise<void> {
    const page = await this.session.history(FIRST_EVENTS, FIRST_EVENTS, ["message.user"]).catch(() => null);
    this.#begin(page?.events ?? []);
    this.changed();
  }

  #take(event: ProtocolEvent | undefined): void {
    if (event) this.#note(event);
    else if (this.session.error) this.notice("This session cannot be shown any more.", this.session.error.message, "error");
    this.changed(event?.type === "agent.output");
  }

  #note(event: ProtocolEvent): void {
    this.tasks.take(event);
    switch (event.type) {
      case "session.info":
        if (event.state) this.#reset();
        return;
      case "message.user":
      case "message.model":
      case "tool.call_end":
      case "turn.completed":
      case "gc.completed": {
        const last = this.items.findLast((item) => item.type !== "notice");
        if (last && last.seq >= event.seq) return;
        this.items.push(event);
        this.#begin([event]);
        this.progress = "";
        if (this.atEnd && this.items.length > MOST_ITEMS) {
          this.items.splice(0, this.items.length - MOST_ITEMS);
          this.more = true;
        }
        return;
      }
      case "permission.resolved":
      case "clarification.resolved":
        if (event.by && !this.answered.has(event.question_id)) this.notice(otherAnswer(event), "", "info", event.agent_id);
        this.answered.delete(event.question_id);
        this.answeredAt = performance.now();
        return;
      case "context.updated":
        if (event.agent_id === this.session.state.root_agent_id) this.blocks = event.blocks ?? [];
        return;
      case "init.progress":
        this.progress = `${event.step}: ${event.done.toLocaleString("en")}${event.total ? ` of ${event.total.toLocaleString("en")}` : ""} ${event.unit ?? ""}`;
        return;
      default:
        this.#noteRest(event);
    }
  }

  #noteRest(event: ProtocolEvent): void {
    switch (event.type) {
      case "retry":
        return this.notice("", retryText(event), "warning", event.agent_id);
      case "error":
        return this.notice("error:", event.error.message, "error", event.agent_id);
      case "system.message":
        if (this.#isShown(event.text)) return; // as after each of several restarts of the server
        return this.notice(event.level === "error" ? "Error" : "Notice", event.text, event.level ?? "info", event.agent_id);
      case "background.updated":
        return this.notice("", `background task ${event.task_id} (${event.tool}): ${event.status}`, event.status === "failed" ? "warning" : "info");
      case "waypoint.updated":
        if (waypointText(event)) this.notice("", waypointText(event));
        return;
      case "session.updated":
        if (event.model) this.notice("", `the model is now ${event.model}`);
        if (event.mode) this.notice("", `the mode is now ${event.mode}`, "warning");
        return;
      case "budget.updated":
        if (event.status === "extended") this.notice("", budgetText(event));
        else this.notice(`Budget per ${event.scope} used up`, `${event.used} of ${event.limit} ${event.unit}`, "warning");
        return;
    }
  }
}

/** Redraw at most once a frame when the view changes; when text arrives, only with `arriving`. */
export function useView(view: View | undefined, arriving = false): void {
  const [, redraw] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    if (!view) return undefined;
    let cancel: (() => void) | undefined;
    const stop = view.listen(() => {
      cancel ??= atNextFrame(() => {
        cancel = undefined;
        redraw(undefined);
      });
    }, arriving);
    redraw(undefined);
    return () => {
      stop();
      cancel?.();
    };
  }, [view, arriving]);
}

/** Call at the next frame, or a moment later where there is none: in a hidden page, also if it was hidden meanwhile. */
function atNextFrame(work: () => void): () => void {
  const cancel = () => {
    cancelAnimationFrame(frame);
    clearTimeout(timer);
  };
  const run = () => {
    cancel();
    work();
  };
  const frame = requestAnimationFrame(run);
  const timer = setTimeout(run, HIDDEN_MS);
  return cancel;
}
