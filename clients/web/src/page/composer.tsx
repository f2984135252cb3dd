// Where messages are written: drafts that stay, commands, stop.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { RefObject, TargetedEvent } from "preact";

import type { Status } from "../client/index.ts";
import { Attachments, PASTED_CHARS, useAttachments, useDrop } from "./attachments.tsx";
import { runSlash } from "./commands.ts";
import { Completions, useCompletions } from "./completions.tsx";
import { drafts, inTab } from "./storage.ts";
import { isOwner, type View } from "./store.ts";
import { oneLine } from "./text.ts";

/** Below this width there is no room for hints. */
const NARROW_PX = 480;
/** A message that the server has not taken for so long is shown. */
const SENDING_MS = 500;
/** What is being sent from this page, by session: a reload brings it back until the server has it; it is not in the field. */
const sending = new Map<string, readonly string[]>();

function setSending(id: string, texts: readonly string[]): void {
  if (texts.length) sending.set(id, texts);
  else sending.delete(id);
  inTab.set(`sending.${id}`, texts.length ? JSON.stringify(texts) : null);
}

/** Texts as one, in their order. */
function join(...texts: readonly string[]): string {
  return texts.filter(Boolean).join("\n\n");
}

/** The draft of a session, after what an earlier page has not sent to the end. */
function loadDraft(id: string): string {
  const draft = drafts.get(`draft.${id}`);
  const unsent = sending.has(id) ? null : inTab.get(`sending.${id}`);
  if (!unsent) return draft;
  const text = join(...(JSON.parse(unsent) as string[]), draft);
  drafts.set(`draft.${id}`, text);
  setSending(id, []);
  return text;
}

interface Props {
  view: View;
  status: Status;
  show: (id: string) => void;
}

export function Composer({ view, status, show }: Props) {
  const gone = view.session.error !== undefined;
  const working = view.working && !gone;
  const field = useRef<HTMLTextAreaElement>(null);
  const { text, change, error, setError, pending, send, attachments } = useMessage(view, status, show);
  const { attached, read, paste } = attachments;
  const owner = isOwner(view.client);
  const over = useDrop((files) => owner && void read(files));
  const completing = useCompletions(view, text, change);
  useHeight(field, text);
  useEffect(() => {
    if (matchMedia("(pointer: fine)").matches) field.current?.focus();
  }, []);
  if (!owner) return <p class="composer muted">{view.client.connection.welcome?.role === "viewer" ? "You watch this session." : "You may answer questions here, not send messages."}</p>;
  const stop = () => {
    void view.session.stop().catch((failure: Error) => setError(failure.message));
    if (matchMedia("(pointer: fine)").matches) field.current?.focus();
  };
  const press = (event: TargetedEvent<HTMLTextAreaElement, KeyboardEvent>) => {
    if (event.isComposing || event.keyCode === 229 || completing.press(event)) return;
    const sends = event.key === "Enter" && !event.shiftKey && !matchMedia("(pointer: coarse)").matches;
    if (!sends && !(event.key === "Escape" && working)) return;
    event.preventDefault();
    if (sends) void send();
    else stop();
  };
  const complete = (value: string) => {
    change(value);
    field.current?.focus();
  };
  const empty = !text.trim() && !attached.files.length && !attached.pasted.length;
  const several = completing.found.length > 0;
  return (
    <form class={`composer ${over ? "over" : ""}`} onSubmit={(event) => { event.preventDefault(); void send(); }}>
      <Completions completing={completing} take={complete} />
      <p role="status" class="muted small">{pending ? `Sending: ${oneLine(pending)}` : ""}</p>
      <p role="alert" class="error-text">{error}</p>
      <Attachments attached={attached} change={attachments.change} />
      <div class="composer-row">
        <textarea ref={field} class="field" rows={1} aria-label="Message" readOnly={gone} placeholder={gone ? "Nothing can be sent to this session." : innerWidth < NARROW_PX ? "Message" : working ? "Write to the agent while it works…" : "Message, / for commands, @ for files"} value={text} dir="auto"
          aria-controls={several ? "completions" : undefined} aria-autocomplete="list" aria-activedescendant={several ? `completion-${completing.chosen}` : undefined}
          onInput={(event) => change(event.currentTarget.value)} onKeyDown={press} onPaste={paste} />
        {working ? <button type="button" class="button danger" onClick={stop} title="Escape">Stop</button> : null}
        <button type="submit" class="button primary" disabled={status !== "online" || gone || empty}>{working ? "Queue" : "Send"}</button>
      </div>
    </form>
  );
}

/** The message that is being written; what could not be sent comes back. */
function useMessage(view: View, status: Status, show: (id: string) => void) {
  const { id } = view.session;
  const draft = `draft.${id}`;
  const [text, setText] = useState(() => loadDraft(id));
  const [pending, setPending] = useState("");
  const [error, setError] = useState("");
  const attachments = useAttachments(id, setError);
  const change = (value: string) => {
    setText(value);
    setError("");
    drafts.set(draft, value);
  };
  const send = async () => {
    const whole = [text, ...attachments.attached.pasted].join("\n\n").trim();
    if ((!whole && !attachments.attached.files.length) || status !== "online" || view.session.error) return;
    change("");
    setSending(id, [...(sending.get(id) ?? []), text]);
    const timer = setTimeout(() => setPending(whole), SENDING_MS);
    const attached = attachments.take();
    view.atEnd = true;
    try {
      if (await runSlash(view, whole, show)) attachments.attach({ files: attached.files });
      else await view.session.send(whole, attached.files);
      attachments.forget(attached);
    } catch (failure) {
      attachments.attach(attached);
      change(join(text, drafts.get(draft)));
      setError((failure as Error).message);
    } finally {
      const left = [...(sending.get(id) ?? [])];
      left.splice(left.indexOf(text), 1);
      setSending(id, left);
      clearTimeout(timer);
      setPending("");
    }
  };
  return { text, change, error, setError, pending, send, attachments };
}

/** Make the field as high as its text, up to a part of the window. */
function useHeight(field: RefObject<HTMLTextAreaElement | null>, text: string): void {
  useLayoutEffect(() => {
    const area = field.current;
    if (!area) return;
    if (text.length < PASTED_CHARS) area.style.height = "auto";
    area.style.height = `${Math.min(area.scrollHeight, innerHeight * 0.4)}px`;
  }, [text]);
}
