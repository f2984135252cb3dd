// The conversation of one agent: its entries, what follows them, and the place at which it is read.

import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

import { Streaming } from "./streaming.tsx";
import { Rows } from "./messages.tsx";
import type { View } from "./store.ts";
import { oneLine } from "./text.ts";
import { turnEnd } from "./wording.ts";

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
        <Rows items={items} view={view} showAgent={showAgent} />
        {agent && !view.session.error ? <Streaming view={view} agent={agent} /> : null}
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

/** Finished replies, questions and ends of turns for screen readers; not every delta. */
function Announcer({ view, agentId }: { view: View; agentId: string }) {
  const last = view.items.findLast((item) => item.type !== "notice" && item.agent_id === agentId);
  let text = "";
  if (last?.type === "message.model") text = last.message.parts.map((part) => (part.type === "text" ? part.text : "")).join(" ");
  else if (last?.type === "turn.completed") text = turnEnd(last) || "The agent has finished.";
  return <div class="sr-only" role="status" aria-live="polite">{oneLine(text, 1_000)}</div>;
}
