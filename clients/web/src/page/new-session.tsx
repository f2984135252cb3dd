// The form for a new session.

import { useEffect, useRef, useState } from "preact/hooks";

import { newKey, type Client, type SessionCreate, type SessionEntry } from "../client/index.ts";
import { stored } from "./storage.ts";

const MODES: readonly [NonNullable<SessionCreate["mode"]>, string][] = [
  ["ask", "ask before anything but reading"],
  ["accept-edits", "also edit files in the workspace"],
  ["auto", "also run commands in it"],
  ["plan", "read only until a plan is approved"],
  ["read-only", "deny everything but reading"],
];

interface Props {
  client: Client;
  known: readonly SessionEntry[];
  close: () => void;
  done: (id: string) => void;
}

export function NewSession({ client, known, close, done }: Props) {
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const form = useRef<HTMLFormElement>(null);
  const shown = useRef(true);
  useEffect(() => () => { shown.current = false; }, []);
  useEffect(() => {
    if (matchMedia("(pointer: fine)").matches) form.current?.querySelector("input")?.focus();
  }, []);
  const workspaces = [...new Set([stored.get("workspace"), ...known.map((entry) => entry.workspace)])].filter(Boolean);
  const create = async (form: FormData) => {
    const text = (name: string) => (form.get(name) as string).trim();
    if (client.connection.status !== "online") return setError("There is no connection to the server; try again when it is back.");
    setBusy(true);
    setError("");
    try {
      const workspace = text("workspace");
      const made = await client.ask({
        type: "session.create",
        attach: false,
        once: newKey(),
        workspace,
        name: text("name") || null,
        provider: text("provider") || null,
        model: text("model") || null,
        mode: (text("mode") || null) as SessionCreate["mode"],
      });
      stored.set("workspace", workspace);
      if (shown.current) done(made.session_id);
    } catch (failure) {
      setError((failure as Error).message);
    } finally {
      setBusy(false);
    }
  };
  return (
    <form ref={form} class="new-session" onSubmit={(event) => { event.preventDefault(); void create(new FormData(event.currentTarget)); }} onKeyDown={(event) => event.key === "Escape" && close()}>
      <label>Directory on the server
        <input name="workspace" class="field" list="workspaces" required defaultValue={workspaces[0] ?? ""} spellcheck={false} autocomplete="off" placeholder="/home/me/project" />
      </label>
      <datalist id="workspaces">{workspaces.map((workspace) => <option key={workspace} value={workspace} />)}</datalist>
      <label><span>Name <span class="muted">optional</span></span><input name="name" class="field" autocomplete="off" /></label>
      <label>Without a question
        <select name="mode" class="field">
          <option value="">as configured</option>
          {MODES.map(([mode, text]) => <option key={mode} value={mode}>{mode}: {text}</option>)}
        </select>
      </label>
      <details>
        <summary>Model</summary>
        <label>Provider<input name="provider" class="field" autocomplete="off" placeholder="as configured" /></label>
        <label>Model<input name="model" class="field" autocomplete="off" placeholder="as configured" /></label>
      </details>
      <p role="alert" class="error-text">{error}</p>
      <div class="row end">
        <button type="button" class="button" onClick={close}>Cancel</button>
        <button type="submit" class="button primary" disabled={busy}>Create</button>
      </div>
    </form>
  );
}
