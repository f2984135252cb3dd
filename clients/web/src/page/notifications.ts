// Notifications of the system: a question waits and its session is not looked at.

import { useEffect, useRef } from "preact/hooks";

import type { Question, SessionEntry } from "../client/index.ts";
import type { View } from "./store.ts";
import { counted, oneLine, titleOf } from "./text.ts";

type Show = (id: string) => void;

/** Whether notifications can be asked for. */
export function canNotify(): boolean {
  return "Notification" in window && Notification.permission === "default";
}

/** Whether notifications are shown. */
export function isNotifying(): boolean {
  return "Notification" in window && Notification.permission === "granted";
}

/** Show a notification, which replaces the one before of the same session and opens it. */
function notify(id: string, title: string, body: string, show: Show): void {
  try {
    const shown = new Notification(oneLine(title, 80), { body, tag: id, renotify: true } as NotificationOptions);
    shown.onclick = () => {
      window.focus();
      show(id);
      shown.close();
    };
  } catch {
    // Chromium on Android has no notifications of pages; the title of the tab counts the questions there
  }
}

/** Notify of the questions of the open session while the page is not looked at. */
export function useNotifications(view: View, questions: readonly Question[], show: Show): void {
  const seen = useRef(new Set<string>());
  const ids = questions.map((question) => question.question_id).join(" ");
  const id = view.session.id;
  useEffect(() => {
    for (const question of questions) {
      if (seen.current.has(question.question_id)) continue;
      seen.current.add(question.question_id);
      if (!isNotifying() || (document.visibilityState === "visible" && document.hasFocus())) continue;
      notify(id, view.title, question.type === "permission.requested" ? `May ${oneLine(question.tool, 60)} run?` : "The agent has a question.", show);
    }
  }, [ids]);
  useEffect(() => {
    let close = () => {};
    const closed = new Promise<void>((resolve) => { close = resolve; });
    navigator.locks?.request(lockOf(id), { mode: "shared" }, () => closed).catch(() => undefined);
    return close;
  }, [id]);
}

/** The lock that a tab holds while it shows a session. */
function lockOf(id: string): string {
  return `jaato.session.${id}`;
}

/** Whether another tab shows a session: then that one notifies of its questions. */
async function isShownElsewhere(id: string): Promise<boolean> {
  const locks = await navigator.locks?.query().catch(() => undefined);
  return (locks?.held ?? []).some((lock) => lock.name === lockOf(id));
}

/** Gives the function that takes each list of sessions and notifies, once, of questions in those that are not open. */
export function useListNotifications(current: string, show: Show): (list: readonly SessionEntry[]) => void {
  const latest = useRef({ current, show });
  latest.current = { current, show };
  const known = useRef<{ counts: Map<string, number>; updated: string | null }>({ counts: new Map(), updated: null });
  return (list) => {
    const { counts, updated } = known.current;
    for (const entry of list) {
      const count = entry.questions ?? 0;
      // what a longer list shows for the first time has waited before, and what waits when the page is opened is marked in it
      const before = counts.get(entry.id) ?? (updated !== null && entry.updated_at > updated ? 0 : count);
      counts.set(entry.id, count);
      if (count <= before || entry.id === latest.current.current || !isNotifying()) continue;
      void isShownElsewhere(entry.id).then((elsewhere) => {
        if (!elsewhere) notify(entry.id, titleOf(entry, entry.id), `${counted(count, "question")} ${count === 1 ? "waits" : "wait"} for an answer.`, (id) => latest.current.show(id));
      });
    }
    known.current.updated = list.reduce((newest, entry) => (entry.updated_at > newest ? entry.updated_at : newest), updated ?? "");
  };
}
