// The tools of a session by the plugin they come from: which the model is shown, and a switch for each.

import { useState } from "preact/hooks";

import { isOwner, type View } from "./store.ts";
import { counted, oneLine } from "./text.ts";
import { tokens } from "./wording.ts";

interface Tool {
  name: string;
  description: string;
  plugin: string;
  enabled: boolean;
  declared: boolean;
  /** What its declaration costs in each request. */
  tokens: number;
}

export function Tools({ view }: { view: View }) {
  const [query, setQuery] = useState("");
  const [error, setError] = useState("");
  const disabled = new Set(view.session.state.disabled);
  const tools = (view.session.info?.tools ?? []).map((sent) => readTool(sent, disabled));
  const wanted = query.trim().toLowerCase();
  const found = tools.filter((tool) => `${tool.name} ${tool.plugin} ${tool.description}`.toLowerCase().includes(wanted));
  const owner = isOwner(view.client);
  if (!tools.length) return <p class="muted">The tools are known once the session has begun to work.</p>;
  const toggle = (tool: Tool) => {
    view.client.ask({ type: "tools.disable", session_id: view.session.id, tools: [tool.name], disabled: tool.enabled }).then(() => setError(""), (failure: Error) => setError(failure.message));
  };
  const declared = tools.filter((tool) => tool.declared);
  const plugins = [...new Set(found.map((tool) => tool.plugin))].sort();
  return (
    <>
      <input type="search" class="field" placeholder={`Search ${counted(tools.length, "tool")}`} aria-label="Search tools" value={query} onInput={(event) => setQuery(event.currentTarget.value)} />
      <p role="alert" class="error-text">{error}</p>
      <p class="muted small">Declared to the model: {counted(declared.length, "tool")}, with {tokens(declared.reduce((sum, tool) => sum + tool.tokens, 0))} tokens; it finds the others when it needs them.</p>
      {plugins.map((plugin) => (
        <section key={plugin}>
          <h4>{oneLine(plugin, 40)}</h4>
          <ul class="plain-list">
            {found.filter((tool) => tool.plugin === plugin).map((tool) => (
              <li key={tool.name}>
                <label class="tool">
                  <input type="checkbox" checked={tool.enabled} disabled={!owner} onChange={() => toggle(tool)} />
                  <span><code class={tool.declared ? "strong" : ""}>{oneLine(tool.name, 60)}</code><small class="muted"> {tool.tokens ? counted(tool.tokens, "token") : ""}{tool.declared ? ", declared" : ""}</small><small class="muted about">{beginning(tool.description)}</small></span>
                </label>
              </li>
            ))}
          </ul>
        </section>
      ))}
    </>
  );
}

/** The first line of a description, which may end within a sentence. */
function beginning(description: string): string {
  const line = oneLine(description, 160);
  return /[.!?…]$/.test(line) ? line : `${line} …`;
}

function readTool(sent: Readonly<Record<string, unknown>>, disabled: ReadonlySet<string>): Tool {
  const text = (name: string) => (typeof sent[name] === "string" ? sent[name] : "");
  const name = text("name");
  return { name, description: text("description"), plugin: text("plugin"), enabled: !disabled.has(name), declared: sent["declared"] === true, tokens: typeof sent["tokens"] === "number" ? sent["tokens"] : 0 };
}
