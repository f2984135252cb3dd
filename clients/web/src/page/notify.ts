// A notification of the system when a question waits and the page is not looked at.

import { useEffect, useRef } from "preact/hooks";

import type { Question } from "../client/index.ts";
import { oneLine } from "./text.ts";

/** Whether notifications can be asked for. */
export function canNotify(): boolean {
  return "Notification" in window && Notification.permission === "default";
}

function notify(title: string, body: string, tag: string): void {
  try {
    const shown = new Notification(title, { body, tag });
    shown.onclick = () => {
      window.focus();
      shown.close();
    };
  } catch {
    // Chromium on Android has no notifications of pages; the title of the tab counts the questions there
  }
}

export function useNotifications(title: string, questions: readonly Question[]): void {
  const seen = useRef(new Set<string>());
  const ids = questions.map((question) => question.question_id).join(" ");
  useEffect(() => {
    for (const question of questions) {
      if (seen.current.has(question.question_id)) continue;
      seen.current.add(question.question_id);
      if (document.visibilityState === "visible" && document.hasFocus()) continue;
      if (!("Notification" in window) || Notification.permission !== "granted") continue;
      const text = question.type === "permission.requested" ? `May ${oneLine(question.tool, 60)} run?` : "The agent has a question.";
      notify(oneLine(title, 80), text, question.question_id);
    }
  }, [ids]);
}
