// The entries of a conversation: messages, calls with their results, ends of turns, and notices.

import { Component, type ComponentChildren } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";

import type { GcCompleted, Message, MessageModel, MessageUser, ToolCallEnd, TurnCompleted } from "../client/index.ts";
import { Boundary } from "./boundary.tsx";
import { Call, type CallState } from "./tool-call.tsx";
import { CopyButton, LongText } from "./code.tsx";
import { Markdown } from "./markdown.tsx";
import { MediaView } from "./media.tsx";
import type { Item, Notice, View } from "./store.ts";
import { browserName, clock, isOwn, oneLine, prose, wordsOf } from "./text.ts";
import { Timeline } from "./timeline.tsx";
import { compactionText, turnEnd, turnSummary } from "./wording.ts";

/** About how many events a group of rows spans. */
const GROUP_EVENTS = 100;

interface Group {
  number: number;
  items: Item[];
}

/** The entries, in groups that begin with a message where that is possible. */
export function Rows({ items, view, showAgent }: { items: readonly Item[]; view: View; showAgent: (id: string) => void }) {
  const results = useMemo(() => resultsOf(view.items), [view.items, view.items.length]);
  return (
    <>
      {groupsOf(items).map((group) => (
        <RowGroup key={group.number}>
          {group.items.map((item) => <Row key={keyOf(item)} item={item} view={view} results={results} showAgent={showAgent} version={versionOf(item, view, results)} />)}
        </RowGroup>
      ))}
    </>
  );
}

/** The browser's work for a key grows with the elements that it may skip, so it skips groups. Their numbers stay when items
 * come before or after them. */
function groupsOf(items: readonly Item[]): Group[] {
  const groups: Group[] = [];
  for (const item of items) {
    const last = groups.at(-1);
    const number = item.type === "notice" ? (last?.number ?? 0) : Math.floor(item.seq / GROUP_EVENTS);
    const begins = !last || number > last.number + 1 || (number > last.number && item.type === "message.user");
    if (begins) groups.push({ number, items: [item] });
    else last.items.push(item);
  }
  return groups;
}

/** Rows that are not laid out while they are out of sight, once their height is known. */
function RowGroup({ children }: { children: ComponentChildren }) {
  const [known, setKnown] = useState(false);
  useEffect(() => {
    let frame = requestAnimationFrame(() => {
      frame = requestAnimationFrame(() => setKnown(true));
    });
    return () => cancelAnimationFrame(frame);
  }, []);
  return <div class={`rows ${known ? "known" : ""}`}>{children}</div>;
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

/** Who wrote a message: the page, another client by its name, or a source such as the system. */
export function writerOf(message: Message): string {
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
      {own ? <div class="words" dir="auto"><LongText text={prose(words)} /></div> : <details><summary>{oneLine(words, 120)}</summary><Markdown text={words} /></details>}
      {message.parts.map((part, index) => (part.type === "media" ? <MediaView key={index} view={view} media={part} atOnce={own} /> : null))}
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

function TurnEnd({ entry, view }: { entry: TurnCompleted; view: View }) {
  const why = turnEnd(entry);
  const answer = view.answerOf(entry);
  return (
    <div class={`turn-end ${entry.reason}`}>
      {why ? <p class={entry.reason === "error" || entry.reason === "limit" ? "error-text" : "warning-text"}>{prose(why)}</p> : null}
      <div class="turn-line">
        <Timeline view={view} turn={entry} label={turnSummary(entry, view.innerTurns(entry))} />
        {answer ? <CopyButton text={answer} what="the answer" /> : null}
      </div>
    </div>
  );
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
