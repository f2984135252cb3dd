// What the page shows, as its address has it: a session, one of its agents, and a panel beside it. A reload shows the same,
// and the browser's Back closes what was opened last.

import { useEffect, useState } from "preact/hooks";

import type { PanelName } from "./panels.tsx";

export interface Route {
  /** Empty for the list of sessions alone. */
  session: string;
  /** Empty for the main agent. */
  agent: string;
  panel: PanelName | "";
}

/** The route in the address. */
function currentRoute(): Route {
  const parts = new URLSearchParams(location.hash.slice(1));
  const session = parts.get("s") ?? "";
  if (!/^[A-Za-z0-9_-]{1,100}$/.test(session)) return { session: "", agent: "", panel: "" };
  return { session, agent: parts.get("agent") ?? "", panel: (parts.get("panel") ?? "") as PanelName };
}

function hashOf({ session, agent, panel }: Route): string {
  return `#${new URLSearchParams({ s: session, ...(agent ? { agent } : {}), ...(panel ? { panel } : {}) }).toString()}`;
}

/** Open a session; an empty id for the list alone. */
export function openSession(id: string): void {
  location.hash = id ? `s=${id}` : "";
}

/** Whether the browser is going back, which takes it a moment. */
let isGoingBack = false;
addEventListener("popstate", () => { isGoingBack = false; });

/** Show another agent or panel of the session. What opens is an entry of the browser's history, and closing it leaves that. */
export function changeRoute(change: Partial<Omit<Route, "session">>): void {
  if (isGoingBack) return addEventListener("popstate", () => changeRoute(change), { once: true });
  const now = currentRoute();
  const hash = hashOf({ ...now, ...change });
  if (hash === location.hash) return;
  if ((history.state as { from?: string } | null)?.from === hash) {
    isGoingBack = true;
    return history.back();
  }
  const opens = (change.panel && !now.panel) || (change.agent && !now.agent);
  if (opens) history.pushState({ from: location.hash }, "", hash);
  else history.replaceState(history.state, "", hash);
  dispatchEvent(new Event("hashchange")); // which neither of them causes
}

/** The route, redrawn when it changes. */
export function useRoute(): Route {
  const [route, setRoute] = useState(currentRoute);
  useEffect(() => {
    const follow = () => setRoute(currentRoute());
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  return route;
}
