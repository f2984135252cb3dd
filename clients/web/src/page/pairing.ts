// Pairing: a one-time code, from the fragment of the link or typed in, is exchanged for the two halves of a token.
// The cookie's half is out of reach of scripts; the other is kept here, out of reach of other ports of the same host.

import { kept } from "./store.ts";

const KEY = "key";

/** The page's half of the token; empty before pairing. */
export function pairedKey(): string {
  return kept.get(KEY);
}

/** Take the code out of the address, so that neither the history nor a shared link has it. */
export function takeCode(): string {
  const code = codeOf(location.hash);
  const directory = directoryOf(location.hash);
  if (code && directory) kept.set("workspace", directory);
  if (code) history.replaceState(null, "", location.pathname);
  return code;
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

/** Exchange a code. Throws an error that says what to do. */
export async function pair(code: string): Promise<void> {
  const response = await fetch("/pair", {
    method: "POST",
    headers: { authorization: `Pairing ${code}` },
    credentials: "same-origin",
    cache: "no-store",
    redirect: "error",
  });
  const body = (await response.json().catch(() => ({}))) as { key?: string; error?: { message?: string } };
  if (!response.ok || !body.key) throw new Error(body.error?.message ?? `The server answered ${response.status}.`);
  kept.set(KEY, body.key);
}
