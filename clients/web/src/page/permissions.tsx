// What runs without a question: the mode, the rules in force with where each comes from, and the answers that last.

import { useEffect, useState } from "preact/hooks";

import type { Grant, ProtocolEvent } from "../client/index.ts";
import { useCommandData } from "./command-data.ts";
import { confirmDialog } from "./dialog.tsx";
import { isOwner, type View } from "./store.ts";
import { clock, oneLine, visible } from "./text.ts";

interface Rule {
  effect: "allow" | "deny";
  pattern: string;
  source: "session" | "file" | "answer" | "program";
}

interface InForce {
  mode: string;
  modes: Record<string, string>;
  default: "allow" | "deny" | "ask";
  file: string | null;
  distrust: string;
  deferred: boolean;
  locked: string | null;
  rules: Rule[];
  grants: { grant: Grant; covers: string }[];
}

const SHOWN_RULES = 100;
const SOURCES: Record<Rule["source"], string> = { session: "set when the session began", file: "the permission file", answer: "an answer", program: "the program that began the session" };
const SCOPES: Record<Grant["scope"], string> = { always: "always, in this workspace", session: "in this session", turn: "until this turn ends", idle: "until the agent is idle", once: "once", call: "for one call" };
const DEFAULTS: Record<InForce["default"], string> = { ask: "is asked about", allow: "runs", deny: "is denied" };

function concerns(event: ProtocolEvent): boolean {
  return event.type === "permission.granted" || event.type === "permission.revoked" || event.type === "turn.completed" || (event.type === "session.updated" && event.mode != null);
}

export function Permissions({ view }: { view: View }) {
  if (!isOwner(view.client)) return <p class="muted">Only a browser that is paired as owner can see and change permissions.</p>;
  return <Loaded view={view} />;
}

function Loaded({ view }: { view: View }) {
  const { data, error, busy, run, reload } = useCommandData<InForce>(view, "permissions", "json", concerns);
  const problem = <p role="alert" class="error-text">{error}</p>;
  if (!data) return error ? <>{problem}<button type="button" class="button small" onClick={reload}>Try again</button></> : <p role="status" class="muted">Loading…</p>;
  return (
    <>
      {problem}
      {data.locked ? <p class="error-text">Nothing is allowed until the permission file is repaired: {visible(data.locked)}</p> : null}
      <Mode data={data} busy={busy} change={(mode) => void run("mode", mode)} />
      <Rules data={data} />
      <Answers data={data} busy={busy} revoke={(id) => void run("permissions", `revoke ${id}`)} />
    </>
  );
}

function Mode({ data, busy, change }: { data: InForce; busy: boolean; change: (mode: string) => void }) {
  const [chosen, setChosen] = useState(data.mode);
  useEffect(() => setChosen(data.mode), [data.mode]);
  return (
    <section>
      <h4 id="mode-title">Mode</h4>
      <form class="row" onSubmit={(event) => { event.preventDefault(); change(chosen); }}>
        <select class="field mode" aria-labelledby="mode-title" aria-describedby="mode-text" value={chosen} onChange={(event) => setChosen(event.currentTarget.value)}>
          {Object.keys(data.modes).map((mode) => <option key={mode} value={mode}>{mode}</option>)}
        </select>
        <button type="submit" class="button" disabled={busy || chosen === data.mode}>Change</button>
      </form>
      <p id="mode-text" class="muted small">Without a question: {data.modes[chosen]}.</p>
    </section>
  );
}

function Rules({ data }: { data: InForce }) {
  return (
    <section>
      <h4>Rules</h4>
      {data.distrust ? <p class="warning-text small">{visible(data.distrust)}</p> : null}
      {data.deferred ? <p class="muted small">The permission file allows more by now; that holds from the next session on.</p> : null}
      <RuleList title="Denied" empty="No rule denies a call." rules={data.rules.filter((rule) => rule.effect === "deny")} />
      <RuleList title="Allowed" empty="No rule allows a call." rules={data.rules.filter((rule) => rule.effect === "allow")} />
      <h5>Asked about</h5>
      <p class="small">What no rule covers {DEFAULTS[data.default]}. Tools that only read run; changes of control files, which decide what runs later, are asked about each time.</p>
      {data.file ? <p class="muted small">Permission file: <code>{oneLine(data.file, 300)}</code></p> : null}
    </section>
  );
}

function RuleList({ title, empty, rules }: { title: string; empty: string; rules: readonly Rule[] }) {
  const [all, setAll] = useState(false);
  return (
    <>
      <h5>{title}</h5>
      {rules.length ? <ul class="plain-list" aria-label={title}>{rules.slice(0, all ? undefined : SHOWN_RULES).map((rule) => <li key={rule.pattern}><code dir="ltr">{oneLine(rule.pattern, 300)}</code> <small class="muted">{SOURCES[rule.source]}</small></li>)}</ul> : <p class="muted small">{empty}</p>}
      {rules.length > SHOWN_RULES && !all ? <button type="button" class="button small" onClick={() => setAll(true)}>Show all {rules.length} rules</button> : null}
    </>
  );
}

/** A client over the network may only tighten: it revokes no answer that denies. */
function Answers({ data, busy, revoke }: { data: InForce; busy: boolean; revoke: (id: string) => void }) {
  const ask = async (grant: Grant, covers: string) => {
    if (await confirmDialog({ title: "Revoke this answer?", text: "Calls like this are asked about again.", code: covers, yes: "Revoke", danger: true })) revoke(grant.id);
  };
  return (
    <section>
      <h4>Remembered answers</h4>
      <p class="muted small">An answer that lasts covers what its question showed: of a command, what is written below, where * stands for anything; of another tool, exactly these arguments or the tool. <b>Always</b> and <b>Never</b> hold in this workspace, in all sessions, until they are revoked.</p>
      {data.grants.length ? (
        <ul class="plain-list" aria-label="Remembered answers">
          {data.grants.map(({ grant, covers }) => (
            <li key={grant.id}>
              <div class="line">
                <span class="grow"><b>{grant.effect === "allow" ? "Allow" : "Deny"}</b> <code dir="ltr">{oneLine(covers.replaceAll("\n", "; "), 300)}</code></span>
                {grant.effect === "allow" ? <button type="button" class="button small" disabled={busy} aria-label={`Revoke ${oneLine(covers, 80)}`} onClick={() => void ask(grant, covers)}>Revoke</button> : null}
              </div>
              <p class="muted small">{answerFacts(grant)}</p>
              {grant.effect === "deny" ? <p class="muted small">Lifted on the server's machine: <code>jaato permissions revoke {oneLine(grant.id, 60)}</code></p> : null}
            </li>
          ))}
        </ul>
      ) : <p class="muted small">No answer lasts beyond its question.</p>}
    </section>
  );
}

function answerFacts(grant: Grant): string {
  const date = grant.created_at ? grant.created_at.slice(0, 10) : "";
  return [SCOPES[grant.scope], grant.created_by ? `answered by ${oneLine(grant.created_by, 60)}` : "", date, grant.expires ? `expires ${grant.expires.slice(0, 10)} ${clock(grant.expires)}` : ""].filter(Boolean).join(" · ");
}
