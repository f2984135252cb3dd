// Where messages are written: drafts that stay, images by drop and paste, commands and their completion, stop.

import type { TargetedEvent } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

import type { File as SentFile, Status } from "../client/index.ts";
import { type Completion, completionsOf, fileCompletions, fileWord, runSlash } from "./commands.ts";
import { kept, type View } from "./store.ts";
import { oneLine } from "./text.ts";

const MAX_FILE_BYTES = 8 << 20;
const TYPING_MS = 80;
/** A longer text that is pasted stays out of the field, which lays out all of its text for each key. */
const PASTED_CHARS = 20_000;
/** Below this width there is no room for hints. */
const NARROW_PX = 480;
const IMAGES = /^image\/(png|jpeg|gif|webp)$/;

interface Props {
  view: View;
  status: Status;
  show: (id: string) => void;
}

export function Composer({ view, status, show }: Props) {
  const draft = `draft.${view.session.id}`;
  const [text, setText] = useState(() => kept.get(draft));
  const [files, setFiles] = useState<readonly SentFile[]>([]);
  const [pasted, setPasted] = useState<readonly string[]>([]);
  const [error, setError] = useState("");
  const [chosen, setChosen] = useState(0);
  const [dismissed, setDismissed] = useState("");
  const [over, setOver] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  const role = view.client.connection.welcome?.role ?? "owner";
  const working = view.working;
  const filesFound = useFiles(view, text);
  const completions: readonly Completion[] = text === dismissed ? [] : [...completionsOf(view, text), ...filesFound];
  const change = (value: string) => {
    setText(value);
    setChosen(0);
    kept.set(draft, value);
  };
  useLayoutEffect(() => {
    const area = field.current;
    if (!area) return;
    if (text.length < PASTED_CHARS) area.style.height = "auto";
    area.style.height = `${Math.min(area.scrollHeight, innerHeight * 0.4)}px`;
  }, [text]);
  useEffect(() => {
    if (matchMedia("(pointer: fine)").matches) field.current?.focus();
  }, []);
  const send = async () => {
    const said = [text, ...pasted].join("\n\n").trim();
    if ((!said && !files.length) || status !== "online") return;
    const [before, attached, texts] = [text, files, pasted];
    change("");
    setFiles([]);
    setPasted([]);
    setError("");
    view.atEnd = true;
    try {
      if (await runSlash(view, said, show)) return;
      await view.session.send(said, attached);
    } catch (failure) {
      setError((failure as Error).message);
      setFiles(attached);
      setPasted(texts);
      setText((now) => now || before);
      if (!kept.get(draft)) kept.set(draft, before);
    }
  };
  const take = async (given: FileList | null) => {
    for (const file of [...(given ?? [])]) {
      if (!IMAGES.test(file.type)) setError(`${oneLine(file.name, 60)} is no PNG, JPEG, GIF or WebP image.`);
      else if (file.size > MAX_FILE_BYTES) setError(`${oneLine(file.name, 60)} is larger than 8 MB.`);
      else {
        const data = await base64(file);
        setFiles((now) => [...now, { name: file.name || "image", mime_type: file.type, data }]);
      }
    }
  };
  const paste = (event: TargetedEvent<HTMLTextAreaElement, ClipboardEvent>) => {
    const words = event.clipboardData?.getData("text/plain") ?? "";
    if (words.length > PASTED_CHARS) setPasted([...pasted, words]);
    else if (event.clipboardData?.files.length) void take(event.clipboardData.files);
    else return;
    event.preventDefault();
  };
  const press = (event: TargetedEvent<HTMLTextAreaElement, KeyboardEvent>) => {
    if (event.isComposing || event.keyCode === 229) return;
    if (completions.length && handleCompletion(event)) return;
    if (event.key === "Enter" && !event.shiftKey && !matchMedia("(pointer: coarse)").matches) {
      event.preventDefault();
      void send();
    } else if (event.key === "Escape" && working) {
      event.preventDefault();
      stop();
    }
  };
  const handleCompletion = (event: TargetedEvent<HTMLTextAreaElement, KeyboardEvent>): boolean => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) setChosen((chosen + step + completions.length) % completions.length);
    else if (event.key === "Escape") setDismissed(text);
    else if (event.key === "Tab" || (event.key === "Enter" && !event.shiftKey && text !== completions[chosen]!.text.trim())) change(completions[chosen]!.text);
    else return false;
    event.preventDefault();
    return true;
  };
  const stop = () => void view.session.stop().catch((failure: Error) => setError(failure.message));
  if (role !== "owner") return <p class="muted pad">{role === "viewer" ? "You watch this session." : "You may answer questions here, not send messages."}</p>;
  return (
    <form class={`composer ${over ? "over" : ""}`} onSubmit={(event) => { event.preventDefault(); void send(); }}
      onDragOver={(event) => { event.preventDefault(); setOver(true); }} onDragLeave={() => setOver(false)}
      onDrop={(event) => { event.preventDefault(); setOver(false); void take(event.dataTransfer?.files ?? null); }}>
      {completions.length ? (
        <ul id="completions" class="completions" role="listbox" aria-label="Completions">
          {completions.map((one, index) => (
            <li key={one.text} id={`completion-${index}`} role="option" aria-selected={index === chosen} onMouseDown={(event) => { event.preventDefault(); change(one.text); field.current?.focus(); }}>
              <code>{oneLine(one.label, 60)}</code> <span class="muted">{oneLine(one.hint, 100)}</span>
            </li>
          ))}
        </ul>
      ) : null}
      <p role="alert" class="error-text">{error}</p>
      {files.length || pasted.length ? (
        <ul class="attachments">
          {pasted.map((words, index) => <li key={`t${index}`} title={oneLine(words, 400)}>Pasted text, {words.length.toLocaleString("en")} characters <button type="button" class="quiet" aria-label={`Remove pasted text ${index + 1}`} onClick={() => setPasted(pasted.filter((_, at) => at !== index))}>×</button></li>)}
          {files.map((file, index) => <li key={index}>{oneLine(file.name, 40)} <button type="button" class="quiet" aria-label={`Remove ${oneLine(file.name, 40)}`} onClick={() => setFiles(files.filter((_, at) => at !== index))}>×</button></li>)}
        </ul>
      ) : null}
      <div class="composer-row">
        <textarea ref={field} class="field" rows={1} aria-label="Message" placeholder={innerWidth < NARROW_PX ? "Message" : working ? "Write to the agent while it works…" : "Message, / for commands, @ for files"} value={text} dir="auto"
          aria-controls={completions.length ? "completions" : undefined} aria-autocomplete="list" aria-activedescendant={completions.length ? `completion-${chosen}` : undefined}
          onInput={(event) => change(event.currentTarget.value)} onKeyDown={press} onPaste={paste} />
        {working ? <button type="button" class="button danger" onClick={stop} title="Escape">Stop</button> : null}
        <button type="submit" class="button primary" disabled={status !== "online" || (!text.trim() && !files.length && !pasted.length)}>{working ? "Queue" : "Send"}</button>
      </div>
    </form>
  );
}

/** The files that complete the end of a text. */
function useFiles(view: View, text: string): readonly Completion[] {
  const [found, setFound] = useState<{ text: string; completions: readonly Completion[] }>({ text: "", completions: [] });
  useEffect(() => {
    if (fileWord(text) === null) return undefined;
    let wanted = true;
    const timer = setTimeout(() => {
      fileCompletions(view, text).then((completions) => wanted && setFound({ text, completions }), () => undefined);
    }, TYPING_MS);
    return () => {
      wanted = false;
      clearTimeout(timer);
    };
  }, [view, text]);
  return found.text === text ? found.completions : [];
}

async function base64(file: Blob): Promise<string> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}
