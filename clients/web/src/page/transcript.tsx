// The conversation of one agent: messages, calls with their results, ends of turns, and the text that arrives.

import { Component, type ComponentChildren, type RefObject } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

import type { AgentView, GcCompleted, Message, MessageModel, MessageUser, ToolCallEnd, TurnCompleted } from "../client/index.ts";
import { Boundary } from "./boundary.tsx";
import { Call, type CallState } from "./call.tsx";
import { LongText } from "./code.tsx";
import { Markdown, StreamedMarkdown } from "./markdown.tsx";
import { MediaView } from "./media.tsx";
import { type Item, type Notice, useView, type View } from "./store.ts";
import { browserName, clock, oneLine, prose, wordsOf } from "./text.ts";
import { Timeline } from "./timeline.tsx";
import { compactionText, turnEnd, turnSummary } from "./wording.ts";

const NEAR_END_PX = 60;

interface Props {
  view: View;
  agentId: string;
  showAgent: (id: string) => void;
}

export function Transcript({ view, agentId, showAgent }: Props) {
  const { state } = view.session;
  const scroller = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const [atEnd, setAtEnd] = useState(true);
  const [fetching, setFetching] = useState(false);
  const agent = state.agents[agentId];
  const root = agentId === state.root_agent_id;
  const items = view.items.filter((item) => item.agent_id === agentId || (root && item.agent_id === ""));
  const results = useMemo(() => resultsOf(view.items), [view.items, view.items.length]);
  const scrolled = useStayAtEnd(view, scroller, content, setAtEnd);
  const earlier = async () => {
    const before = scroller.current!.scrollHeight - scroller.current!.scrollTop;
    view.atEnd = false;
    setFetching(true);
    try {
      await view.fetchEarlier();
    } catch (error) {
      view.notice("Earlier entries could not be fetched.", (error as Error).message, "error");
    }
    setFetching(false);
    requestAnimationFrame(() => {
      if (scroller.current) scroller.current.scrollTop = scroller.current.scrollHeight - before;
    });
  };
  const jump = () => {
    view.atEnd = true;
    setAtEnd(true);
    scroller.current!.scrollTop = scroller.current!.scrollHeight;
  };
  return (
    <div class="transcript-frame">
      <div ref={scroller} class="transcript" role="log" aria-label="Conversation" aria-live="off" tabIndex={0} onScroll={scrolled}>
        <div ref={content} class="transcript-content">
        {view.more ? <button type="button" class="button small earlier" disabled={fetching} onClick={() => void earlier()}>{fetching ? "Loading…" : "Show earlier"}</button> : null}
        {!items.length && !agent?.working ? <p class="muted begin">{root ? "Send a message to begin." : "This agent has not said anything yet."}</p> : null}
        {items.map((item) => <Row key={keyOf(item)} item={item} view={view} results={results} root={root} showAgent={showAgent} version={versionOf(item, view, results)} />)}
        {agent ? <Present view={view} agent={agent} /> : null}
        </div>
      </div>
      {atEnd ? null : <button type="button" class="button small jump" onClick={jump}>Jump to the end ↓</button>}
      <Announcer view={view} agentId={agentId} />
    </div>
  );
}

/** Keeps the end in view while the reader is there, whatever changes its size. Only scrolling up leaves the end. */
function useStayAtEnd(view: View, scroller: RefObject<HTMLDivElement | null>, content: RefObject<HTMLDivElement | null>, setAtEnd: (value: boolean) => void): () => void {
  const before = useRef({ top: 0, height: 0, shown: 0 });
  const follow = () => {
    if (view.atEnd && scroller.current) scroller.current.scrollTop = scroller.current.scrollHeight;
  };
  useLayoutEffect(follow);
  useEffect(() => {
    view.atEnd = true;
    const observer = new ResizeObserver(follow);
    observer.observe(scroller.current!);
    observer.observe(content.current!);
    return () => observer.disconnect();
  }, [view]);
  return () => {
    const { scrollTop, scrollHeight, clientHeight } = scroller.current!;
    const { top, height, shown } = before.current;
    if (scrollHeight - scrollTop - clientHeight < NEAR_END_PX) view.atEnd = true;
    else if (scrollTop < top && scrollHeight >= height && clientHeight === shown) view.atEnd = false;
    before.current = { top: scrollTop, height: scrollHeight, shown: clientHeight };
    setAtEnd(view.atEnd);
  };
}

function keyOf(item: Item): string {
  return item.type === "notice" ? `n${item.id}` : `e${item.seq}`;
}

type Results = Map<string, ToolCallEnd>;

function resultsOf(items: readonly Item[]): Results {
  const found: Results = new Map();
  for (const item of items) if (item.type === "tool.call_end") found.set(item.call_id, item);
  return found;
}

/** What of a row depends on more than its entry: the calls of a reply. */
function versionOf(item: Item, view: View, results: Results): string {
  if (item.type !== "message.model") return "";
  const { calls, questions } = view.session.state;
  const asked = new Set(Object.values(questions).map((question) => question.call_id));
  return item.message.parts.map((part) => {
    if (part.type !== "tool_call") return "";
    const running = calls[part.call_id];
    return results.has(part.call_id) ? "r" : running ? `c${running.output_start}:${running.output.length}` : asked.has(part.call_id) ? "q" : "w";
  }).join();
}

interface RowProps {
  item: Item;
  view: View;
  results: Results;
  root: boolean;
  version: string;
  showAgent: (id: string) => void;
}

/** One item, drawn again only when it has changed. */
class Row extends Component<RowProps> {
  override shouldComponentUpdate(next: Readonly<RowProps>): boolean {
    return next.item !== this.props.item || next.version !== this.props.version;
  }

  override render(props: Readonly<RowProps>): ComponentChildren {
    return <Boundary><Entry {...props} /></Boundary>;
  }
}

function Entry({ item, view, results, showAgent }: RowProps): ComponentChildren {
  switch (item.type) {
    case "message.user":
      return <UserMessage entry={item} view={view} />;
    case "message.model":
      return <Reply entry={item} view={view} results={results} showAgent={showAgent} />;
    case "tool.call_end":
      return item.arguments && item.show_output !== false ? <Call view={view} name={item.tool} given={item.arguments} state={{ kind: "done", end: item }} /> : null;
    case "turn.completed":
      return <TurnEnd entry={item} view={view} />;
    case "gc.completed":
      return <Compaction entry={item} />;
    case "notice":
      return <NoticeView notice={item} />;
  }
}

/** Whether a person wrote a message. */
function isOwn(message: Message): boolean {
  return (message.source ?? "user") === "user";
}

/** Who wrote a message: the page, another client by its name, or a source such as the system. */
function writerOf(message: Message): string {
  if (!isOwn(message)) return SOURCES[message.source ?? "user"] ?? "System";
  return message.by && message.by !== browserName() ? oneLine(message.by, 60) : "You";
}

const SOURCES: Record<string, string> = { user: "You", parent: "Parent agent", system: "System", child: "Subagent" };

function UserMessage({ entry, view }: { entry: MessageUser; view: View }) {
  const { message } = entry;
  const words = wordsOf(message);
  const own = isOwn(message);
  return (
    <article class={`message user ${own ? "" : "other"}`}>
      <header><b>{writerOf(message)}</b> <time dateTime={entry.timestamp}>{clock(entry.timestamp)}</time></header>
      {own ? <div class="said" dir="auto"><LongText text={prose(words)} /></div> : <details><summary>{oneLine(words, 120)}</summary><Markdown text={words} /></details>}
      {message.parts.map((part, index) => (part.type === "media" ? <MediaView key={index} view={view} media={part} /> : null))}
    </article>
  );
}

function Reply({ entry, view, results, showAgent }: { entry: MessageModel; view: View; results: Results; showAgent: (id: string) => void }) {
  return (
    <article class="message model">
      {entry.message.parts.map((part, index) => {
        switch (part.type) {
          case "thinking":
            return part.text.trim() ? <Thinking key={index} text={part.text} /> : null;
          case "text":
            return part.text.trim() ? <Markdown key={index} text={part.text} /> : null;
          case "refusal":
            return <div key={index} class="notice warning"><b>The model declined.</b> <Markdown text={part.text} /></div>;
          case "tool_call":
            if (results.get(part.call_id)?.show_output === false) return null;
            return <Call key={part.call_id} view={view} name={part.name} given={part.arguments} malformed={part.malformed} state={callState(part.call_id, view, results)} showAgent={showAgent} />;
          case "media":
            return <MediaView key={index} view={view} media={part} />;
          default:
            return null;
        }
      })}
    </article>
  );
}

function callState(id: string, view: View, results: Results): CallState {
  const end = results.get(id);
  if (end) return { kind: "done", end };
  const running = view.session.state.calls[id];
  if (running) return { kind: "running", call: running };
  return Object.values(view.session.state.questions).some((question) => question.call_id === id) ? { kind: "asking" } : { kind: "waiting" };
}

function Thinking({ text }: { text: string }) {
  return <details class="thinking"><summary>Thinking <span class="muted">{oneLine(text, 80)}</span></summary><div class="prose" dir="auto"><LongText text={prose(text)} /></div></details>;
}

/** What follows the entries: the text that arrives, the messages that wait, and what the agent does. */
function Present({ view, agent }: { view: View; agent: AgentView }) {
  useView(view, true);
  const { streaming, status, reason } = agent;
  return (
    <>
      <Arriving streaming={streaming} />
      {Object.values(agent.queued).map((message) => <Queued key={message.id} message={message} working={status === "active"} />)}
      {view.progress ? <p class="muted">{oneLine(view.progress)}</p> : null}
      {status === "active" && !streaming["model"] && !streaming["thinking"] ? <p class="working"><span class="spinner" aria-hidden="true" />{reason ? oneLine(reason) : "Working…"}</p> : null}
    </>
  );
}

function Arriving({ streaming }: { streaming: Record<string, string> }) {
  const { thinking, model, refusal } = streaming;
  if (!thinking && !model && !refusal) return null;
  return (
    <article class="message model arriving">
      {thinking ? <details class="thinking"><summary><span class="spinner" aria-hidden="true" /> Thinking <span class="muted">{oneLine(thinking.slice(-120), 80)}</span></summary><div class="prose" dir="auto"><LongText text={prose(thinking)} /></div></details> : null}
      {model ? <StreamedMarkdown text={model} /> : null}
      {refusal ? <p class="notice warning">{prose(refusal)}</p> : null}
    </article>
  );
}

function Queued({ message, working }: { message: Message; working: boolean }) {
  const words = wordsOf(message);
  const own = isOwn(message);
  return (
    <article class={`message user queued ${own ? "" : "other"}`}>
      <header><b>{writerOf(message)}</b> <span class="tag">{working ? "waits for the agent's next pause" : "reaches the agent with the next message"}</span></header>
      {own ? <div class="said" dir="auto">{prose(words)}</div> : <details><summary>{oneLine(words, 120)}</summary><Markdown text={words} /></details>}
    </article>
  );
}

function TurnEnd({ entry, view }: { entry: TurnCompleted; view: View }) {
  const why = turnEnd(entry);
  return (
    <div class={`turn-end ${entry.reason}`}>
      {why ? <p class={entry.reason === "error" || entry.reason === "limit" ? "error-text" : "warning-text"}>{prose(why)}</p> : null}
      <Timeline view={view} turn={entry} label={turnSummary(entry, innerTurns(view, entry))} />
    </div>
  );
}

/** The turns of subagents that ended within a turn of the root agent. */
function innerTurns(view: View, turn: TurnCompleted): TurnCompleted[] {
  if (turn.agent_id !== view.session.state.root_agent_id) return [];
  const ends = view.items.filter((item): item is TurnCompleted => item.type === "turn.completed" && item.seq < turn.seq);
  return ends.slice(ends.findLastIndex((end) => end.agent_id === turn.agent_id) + 1);
}

function Compaction({ entry }: { entry: GcCompleted }) {
  return <p class={`notice ${entry.problem ? "warning" : ""}`}>{compactionText(entry)}</p>;
}

function NoticeView({ notice }: { notice: Notice }) {
  const lines = notice.text.includes("\n");
  return (
    <div class={`notice ${notice.level}`} role={notice.level === "error" ? "alert" : undefined}>
      {notice.title ? <b>{oneLine(notice.title)}</b> : null}{lines ? <pre class="plain"><LongText text={prose(notice.text).replace(/^\n/, "")} /></pre> : <> <span>{prose(notice.text)}</span></>}
    </div>
  );
}

/** Finished replies, questions and ends of turns for screen readers; not every delta. */
function Announcer({ view, agentId }: { view: View; agentId: string }) {
  const last = view.items.findLast((item) => item.type !== "notice" && item.agent_id === agentId);
  let text = "";
  if (last?.type === "message.model") text = last.message.parts.map((part) => (part.type === "text" ? part.text : "")).join(" ");
  else if (last?.type === "turn.completed") text = turnEnd(last) || "The agent has finished.";
  return <div class="sr-only" role="status" aria-live="polite">{oneLine(text, 1_000)}</div>;
}
