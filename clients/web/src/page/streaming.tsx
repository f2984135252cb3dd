// What follows the entries of a conversation: the text that arrives, the messages that wait, what the agent does.

import type { AgentView, Message } from "../client/index.ts";
import { LongText } from "./code.tsx";
import { Markdown, StreamedMarkdown } from "./markdown.tsx";
import { writerOf } from "./messages.tsx";
import { useView, type View } from "./store.ts";
import { isOwn, oneLine, prose, wordsOf } from "./text.ts";

/** All of it, drawn again with each piece of text. */
export function Streaming({ view, agent }: { view: View; agent: AgentView }) {
  useView(view, true);
  const { streaming, status, reason } = agent;
  return (
    <>
      <StreamingReply streaming={streaming} />
      {Object.values(agent.queued).map((message) => <Queued key={message.id} message={message} working={status === "active"} />)}
      {view.progress ? <p class="muted">{oneLine(view.progress)}</p> : null}
      {status === "active" && !streaming["model"] && !streaming["thinking"] ? <p class="working"><span class="spinner" aria-hidden="true" />{reason ? oneLine(reason) : "Working…"}</p> : null}
    </>
  );
}

function StreamingReply({ streaming }: { streaming: Record<string, string> }) {
  const { thinking, model, refusal } = streaming;
  if (!thinking && !model && !refusal) return null;
  return (
    <article class="message model streaming">
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
      {own ? <div class="words" dir="auto">{prose(words)}</div> : <details><summary>{oneLine(words, 120)}</summary><Markdown text={words} /></details>}
    </article>
  );
}
