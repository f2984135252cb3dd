// Completion of commands and of files while a message is written.

import type { TargetedEvent } from "preact";
import { useEffect, useState } from "preact/hooks";

import { type Completion, completionsOf, fileCompletions, fileWord } from "./commands.ts";
import type { View } from "./store.ts";
import { oneLine } from "./text.ts";

const TYPING_MS = 80;

interface Completing {
  found: readonly Completion[];
  chosen: number;
  /** Take a key: choose another, take the chosen one, or close the list. False for other keys. */
  press: (event: TargetedEvent<HTMLTextAreaElement, KeyboardEvent>) => boolean;
}

/** The completions of a text, and the keys that choose among them. */
export function useCompletions(view: View, text: string, change: (text: string) => void): Completing {
  const [choice, setChoice] = useState({ text: "", index: 0 });
  const [dismissed, setDismissed] = useState("");
  const files = useFiles(view, text);
  const found: readonly Completion[] = text === dismissed ? [] : [...completionsOf(view, text), ...files];
  const chosen = choice.text === text ? Math.min(choice.index, found.length - 1) : 0;
  const press = (event: TargetedEvent<HTMLTextAreaElement, KeyboardEvent>): boolean => {
    const one = found[chosen];
    if (!one) return false;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) setChoice({ text, index: (chosen + step + found.length) % found.length });
    else if (event.key === "Escape") setDismissed(text);
    else if ((event.key === "Tab" || event.key === "Enter") && !event.shiftKey && (event.key === "Tab" || text !== one.text.trim())) change(one.text);
    else return false;
    event.preventDefault();
    return true;
  };
  return { found, chosen, press };
}

export function Completions({ completing: { found, chosen }, take }: { completing: Completing; take: (text: string) => void }) {
  if (!found.length) return null;
  return (
    <ul id="completions" class="completions" role="listbox" aria-label="Completions">
      {found.map((one, index) => (
        <li key={one.text} id={`completion-${index}`} role="option" aria-selected={index === chosen} onMouseDown={(event) => { event.preventDefault(); take(one.text); }}>
          <code>{oneLine(one.label, 60)}</code> <span class="muted">{oneLine(one.hint, 100)}</span>
        </li>
      ))}
    </ul>
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
