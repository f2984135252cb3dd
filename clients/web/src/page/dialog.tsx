// Modal dialogs: a question with yes and no, or a line of text.

import { type ComponentChildren, render } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

import { visible } from "./text.ts";

interface DialogOptions {
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

function Dialog({ options, close }: { options: DialogOptions; close: (answer: string | null) => void }) {
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
      await options.submit?.(answer);
      close(answer);
    } catch (failure) {
      setError((failure as Error).message);
      setBusy(false);
      input.current?.focus();
    }
  };
  return (
    <dialog ref={dialog} class={`dialog ${options.body ? "wide" : ""}`} aria-labelledby="dialog-title" onCancel={() => close(null)}>
      <form onSubmit={(event) => void submit(event)}>
        <h2 id="dialog-title">{options.title}</h2>
        {options.text ? <p>{options.text}</p> : null}
        {options.code ? <pre class="box-code">{visible(options.code)}</pre> : null}
        {options.body ? <div class="dialog-body" tabIndex={0} role="region" aria-label="What would change">{options.body}</div> : null}
        {options.initial === undefined ? null : <input ref={input} class="field" aria-label={options.title} defaultValue={options.initial} aria-invalid={error ? true : undefined} aria-describedby="dialog-error" />}
        <p id="dialog-error" role="alert" class="error-text">{error}</p>
        <div class="row end">
          {options.no === null ? null : <button type="button" class="button" onClick={() => close(null)}>{options.no ?? "Cancel"}</button>}
          <button type="submit" class={`button ${options.danger ? "danger" : "primary"}`} disabled={busy} onClick={(event) => { if (event.detail > 1) event.preventDefault(); }}>{options.yes}</button>
        </div>
      </form>
    </dialog>
  );
}

/** Show a dialog until it is answered, or another session is opened. */
function ask(options: DialogOptions): Promise<string | null> {
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
    render(<Dialog options={options} close={close} />, place);
  });
}

/** Whether the user confirms. */
export async function confirmDialog(options: Omit<DialogOptions, "initial">): Promise<boolean> {
  return (await ask(options)) !== null;
}

/** A line of text, null if the user cancels. */
export function promptDialog(options: DialogOptions & { initial: string }): Promise<string | null> {
  return ask(options);
}
