// A notification of the system when a question waits and the page is not looked at.

import { useEffect, useRef } from "preact/hooks";

import type { Question } from "../client/index.ts";
import { oneLine } from "./text.ts";

/** Whether notifications can be asked for. */
export function canNotify(): boolean {
  return "Notification" in window && Notification.permission === "default";
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
      const shown = new Notification(oneLine(title, 80), { body: text, tag: question.question_id });
      shown.onclick = () => {
        window.focus();
        shown.close();
      };
    }
  }, [ids]);
}
