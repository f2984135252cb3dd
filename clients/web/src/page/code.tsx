// Code with its language, a button that copies it, and colours once the highlighter is there.

import { useEffect, useState } from "preact/hooks";

import type { Highlighted } from "./highlight.ts";
import { counted, visible } from "./text.ts";

/** Longer code is not highlighted. */
const HIGHLIGHTED_CHARS = 40_000;
/** Longer text is shown in part. */
const SHOWN_CHARS = 20_000;

export function Code({ text, language, still = false }: { text: string; language: string; still?: boolean }) {
  const shown = visible(text);
  const colours = useHighlight(shown, still ? "" : language);
  return (
    <div class="code">
      <div class="code-head">
        <span>{visible(language).slice(0, 30)}</span>
        <CopyButton text={text} />
      </div>
      <pre tabIndex={0}><code dir="ltr">{colours ? <Coloured nodes={colours} /> : <LongText text={shown} />}</code></pre>
    </div>
  );
}

/** A text of which a very long one is cut until asked for. */
export function LongText({ text }: { text: string }) {
  const [whole, setWhole] = useState(false);
  if (whole || text.length <= SHOWN_CHARS * 1.2) return <>{text}</>;
  return (
    <>
      {text.slice(0, SHOWN_CHARS)}
      <button type="button" class="more" onClick={() => setWhole(true)}>{counted(text.length - SHOWN_CHARS, "more character")} not shown. Show all</button>
    </>
  );
}

export function CopyButton({ text, what }: { text: string; what?: string }) {
  const [outcome, setOutcome] = useState("");
  useEffect(() => {
    if (!outcome) return undefined;
    const timer = setTimeout(() => setOutcome(""), 1_500);
    return () => clearTimeout(timer);
  }, [outcome]);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setOutcome("Copied");
    } catch {
      setOutcome("Not copied");
    }
  };
  return <button type="button" class="quiet" aria-label={what && !outcome ? `Copy ${what}` : undefined} onClick={() => void copy()}>{outcome || "Copy"}</button>;
}

function Coloured({ nodes }: { nodes: readonly Highlighted[] }) {
  return <>{nodes.map((node, index) => (typeof node === "string" ? node : <span key={index} class={node.classes}><Coloured nodes={node.children} /></span>))}</>;
}

/** The highlighted code, null until it is there or where there is none. The highlighter is loaded when code first appears. */
function useHighlight(text: string, language: string): readonly Highlighted[] | null {
  const [found, setFound] = useState<{ text: string; nodes: readonly Highlighted[] | null }>({ text: "", nodes: null });
  useEffect(() => {
    if (!language || text.length > HIGHLIGHTED_CHARS) return undefined;
    let wanted = true;
    import("./highlight.ts").then(
      ({ highlight }) => {
        if (wanted) setFound({ text, nodes: highlight(text, language) });
      },
      () => undefined, // code without colours is still code
    );
    return () => {
      wanted = false;
    };
  }, [text, language]);
  return found.text === text ? found.nodes : null;
}
