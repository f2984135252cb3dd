// Pairing: a one-time code, from the fragment of the link or typed in, is exchanged for the two halves of a token.
// The cookie's half is out of reach of scripts; the other is kept here, out of reach of other ports of the same host.

import { storageKey, stored } from "./storage.ts";

const KEY = "key";

const ANSWER_MS = 10_000;

/** The page's half of the token; empty before pairing. */
export function pairedKey(): string {
  return stored.get(KEY);
}

/** Be called when another tab has paired this browser. Returns the function that stops it. */
export function onPairing(listener: () => void): () => void {
  const changed = (event: StorageEvent) => event.key === storageKey(KEY) && event.newValue && listener();
  addEventListener("storage", changed);
  return () => removeEventListener("storage", changed);
}

/** The link of the address, empty if it has no code. The code is taken out, so that neither the history nor a shared link has it. */
export function takeLink(): string {
  const link = location.hash;
  if (!codeOf(link)) return "";
  history.replaceState(null, "", location.pathname);
  return link;
}

/** The code in a link or in what was typed; empty without one. */
export function codeOf(text: string): string {
  const found = /(?:#pair=|^\s*)([A-Za-z0-9_-]{43})(?:&in=\S*)?\s*$/.exec(text);
  return found?.[1] ?? "";
}

/** The directory in a link, in which `jaato web` was typed: new sessions suggest it. Empty without one. */
function directoryOf(link: string): string {
  try {
    return decodeURIComponent(/&in=(\S*)\s*$/.exec(link)?.[1] ?? "");
  } catch {
    return ""; // no UTF-8
  }
}

/** Exchange the code of a link; the directory of one that is valid is suggested. Throws an error that says what to do. */
export async function pair(link: string): Promise<void> {
  const response = await fetch("/pair", {
    method: "POST",
    headers: { authorization: `Pairing ${codeOf(link)}` },
    credentials: "same-origin",
    cache: "no-store",
    redirect: "error",
    signal: AbortSignal.timeout(ANSWER_MS),
  }).catch(() => {
    throw new Error("The server does not answer. Look whether it runs, and try the link again.");
  });
  const body = (await response.json().catch(() => ({}))) as { key?: string; error?: { message?: string } };
  if (!response.ok || !body.key) throw new Error(body.error?.message ?? `The server answered ${response.status}.`);
  stored.set(KEY, body.key);
  const directory = directoryOf(link);
  if (directory) stored.set("workspace", directory);
}
