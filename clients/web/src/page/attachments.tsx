// What is sent beside the words that are typed: images by drop and paste, and long texts that were pasted.

import type { TargetedEvent } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import type { File as SentFile } from "../client/index.ts";
import { drafts } from "./storage.ts";
import { oneLine } from "./text.ts";

/** As many as the server takes for an image. */
const MAX_IMAGE_BYTES = 5 << 20;
/** A longer text that is pasted stays out of the field, which lays out all of its text for each key. */
export const PASTED_CHARS = 20_000;
const IMAGES = /^image\/(png|jpeg|gif|webp)$/;

export interface Attached {
  files: readonly SentFile[];
  pasted: readonly string[];
}

const NOTHING: Attached = { files: [], pasted: [] };
/** What is attached and not sent, by session: images as long as the page, which asks before it is left; pasted texts also over a reload. */
const unsent = new Map<string, Attached>();
/** What is being sent. */
const leaving = new Set<Partial<Attached>>();
addEventListener("beforeunload", (event) => {
  if ([...unsent.values(), ...leaving].some(({ files }) => files?.length)) event.preventDefault();
});

function loadAttached(id: string): Attached {
  const pasted = drafts.get(`pasted.${id}`);
  return unsent.get(id) ?? (pasted ? { files: [], pasted: JSON.parse(pasted) as string[] } : NOTHING);
}

/** What is attached, and how it becomes so. `report` gets the errors of files that cannot be sent. */
export function useAttachments(id: string, report: (error: string) => void) {
  const [attached, setAttached] = useState(() => loadAttached(id));
  const change = (next: Attached) => {
    unsent.set(id, next);
    setAttached(next);
    drafts.set(`pasted.${id}`, next.pasted.length ? JSON.stringify(next.pasted) : "");
  };
  const attach = (given: Partial<Attached>) => {
    const { files = [], pasted = [] } = given;
    leaving.delete(given);
    const now = loadAttached(id);
    change({ files: [...now.files, ...files], pasted: [...now.pasted, ...pasted] });
  };
  /** Take all of it out, to be sent; a reload brings the texts back until `forget` is called with it. */
  const take = (): Attached => {
    unsent.set(id, NOTHING);
    setAttached(NOTHING);
    leaving.add(attached);
    return attached;
  };
  /** It was sent. */
  const forget = (taken: Attached) => {
    const { pasted } = taken;
    leaving.delete(taken);
    if (drafts.get(`pasted.${id}`) === JSON.stringify(pasted)) drafts.set(`pasted.${id}`, "");
  };
  const read = async (given: FileList | null) => {
    const problems: string[] = [];
    for (const file of [...(given ?? [])]) {
      if (!IMAGES.test(file.type)) problems.push(`${oneLine(file.name, 60)} is no PNG, JPEG, GIF or WebP image.`);
      else if (file.size > MAX_IMAGE_BYTES) problems.push(`${oneLine(file.name, 60)} is larger than 5 MB. Scale it down.`);
      else attach({ files: [{ name: file.name || "image", mime_type: file.type, data: await base64(file) }] });
    }
    report(problems.join(" "));
  };
  const paste = (event: TargetedEvent<HTMLTextAreaElement, ClipboardEvent>) => {
    const words = event.clipboardData?.getData("text/plain") ?? "";
    if (words.length > PASTED_CHARS) attach({ pasted: [words] });
    else if (event.clipboardData?.files.length) void read(event.clipboardData.files);
    else return;
    event.preventDefault();
  };
  return { attached, change, attach, take, forget, read, paste };
}

/** Whether files are dragged over the page; where they are dropped does not matter. Otherwise a browser leaves the page for
 * a file that is dropped beside the field. */
export function useDrop(take: (files: FileList) => void): boolean {
  const [over, setOver] = useState(false);
  const latest = useRef(take);
  latest.current = take;
  useEffect(() => {
    const drag = (event: DragEvent) => {
      const files = event.dataTransfer?.types.includes("Files") ? event.dataTransfer.files : null;
      if (files) event.preventDefault();
      setOver(files !== null && event.type === "dragover");
      if (files && event.type === "drop") latest.current(files);
    };
    const kinds = ["dragover", "dragleave", "drop"] as const;
    for (const kind of kinds) addEventListener(kind, drag);
    return () => {
      for (const kind of kinds) removeEventListener(kind, drag);
    };
  }, []);
  return over;
}

/** The list of it, each with a button that removes it. */
export function Attachments({ attached: { files, pasted }, change }: { attached: Attached; change: (attached: Attached) => void }) {
  if (!files.length && !pasted.length) return null;
  return (
    <ul class="attachments">
      {pasted.map((words, index) => <li key={`t${index}`} title={oneLine(words, 400)}>Pasted text, {words.length.toLocaleString("en")} characters <Remove what={`pasted text ${index + 1}`} remove={() => change({ files, pasted: pasted.filter((_, at) => at !== index) })} /></li>)}
      {files.map((file, index) => <li key={index}>{oneLine(file.name, 40)} <Remove what={oneLine(file.name, 40)} remove={() => change({ pasted, files: files.filter((_, at) => at !== index) })} /></li>)}
    </ul>
  );
}

function Remove({ what, remove }: { what: string; remove: () => void }) {
  return <button type="button" class="quiet" aria-label={`Remove ${what}`} onClick={remove}>×</button>;
}

async function base64(file: Blob): Promise<string> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}
