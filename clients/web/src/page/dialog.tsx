// Modal dialogs: a question with yes and no, or a line of text.

import { type ComponentChildren, render } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

import { visible } from "./text.ts";

interface Wanted {
  title: string;
  text?: string;
  code?: string;
  yes: string;
  /** The button that changes nothing, if it is not to be called Cancel; null for none. */
  no?: string | null;
  /** More to look at before the answer. */
  body?: ComponentChildren;
  /** With an initial text, the dialog asks for one line. */
  initial?: string;
  /** What is done with the line; if it fails, the dialog stays with the line and the reason. */
  submit?: (line: string) => Promise<unknown>;
  danger?: boolean;
}

function Dialog({ wanted, close }: { wanted: Wanted; close: (answer: string | null) => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const input = useRef<HTMLInputElement>(null);
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  useLayoutEffect(() => {
    dialog.current?.showModal();
    input.current?.select();
  }, []);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (busy) return;
    const answer = input.current?.value ?? "yes";
    setBusy(true);
    try {
      await wanted.submit?.(answer);
      close(answer);
    } catch (failure) {
      setError((failure as Error).message);
      setBusy(false);
      input.current?.focus();
    }
  };
  return (
    <dialog ref={dialog} class={`dialog ${wanted.body ? "wide" : ""}`} aria-labelledby="dialog-title" onCancel={() => close(null)}>
      <form onSubmit={(event) => void submit(event)}>
        <h2 id="dialog-title">{wanted.title}</h2>
        {wanted.text ? <p>{wanted.text}</p> : null}
        {wanted.code ? <pre class="box-code">{visible(wanted.code)}</pre> : null}
        {wanted.body ? <div class="dialog-body" tabIndex={0} role="region" aria-label="What would change">{wanted.body}</div> : null}
        {wanted.initial === undefined ? null : <input ref={input} class="field" aria-label={wanted.title} defaultValue={wanted.initial} aria-invalid={error ? true : undefined} aria-describedby="dialog-error" />}
        <p id="dialog-error" role="alert" class="error-text">{error}</p>
        <div class="row end">
          {wanted.no === null ? null : <button type="button" class="button" onClick={() => close(null)}>{wanted.no ?? "Cancel"}</button>}
          <button type="submit" class={`button ${wanted.danger ? "danger" : "primary"}`} disabled={busy} onClick={(event) => { if (event.detail > 1) event.preventDefault(); }}>{wanted.yes}</button>
        </div>
      </form>
    </dialog>
  );
}

/** Show a dialog until it is answered, or another session is opened. */
function ask(wanted: Wanted): Promise<string | null> {
  return new Promise((resolve) => {
    const place = document.createElement("div");
    const before = document.activeElement;
    document.body.append(place);
    const close = (answer: string | null) => {
      if (!place.isConnected) return;
      removeEventListener("hashchange", leave);
      render(null, place);
      place.remove();
      if (before instanceof HTMLElement) before.focus();
      resolve(answer);
    };
    const leave = () => close(null);
    addEventListener("hashchange", leave);
    render(<Dialog wanted={wanted} close={close} />, place);
  });
}

/** Whether the user confirms. */
export async function confirmDialog(wanted: Omit<Wanted, "initial">): Promise<boolean> {
  return (await ask(wanted)) !== null;
}

/** A line of text, null if the user cancels. */
export function promptDialog(wanted: Wanted & { initial: string }): Promise<string | null> {
  return ask(wanted);
}
