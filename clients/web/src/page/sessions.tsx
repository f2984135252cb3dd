// The list of sessions, with search, and the form for a new one.

import { useEffect, useRef, useState } from "preact/hooks";

import type { Client, SessionEntry, Status } from "../client/index.ts";
import { rename } from "./commands.ts";
import { confirmDialog, promptDialog } from "./dialog.tsx";
import { NewSession } from "./new-session.tsx";
import { isNotifying, useListNotifications } from "./notifications.ts";
import { isOwner, useView, type View } from "./store.ts";
import { ago, oneLine, shortPath, titleOf } from "./text.ts";

interface Props {
  client: Client;
  status: Status;
  current: string;
  view: View | undefined;
  show: (id: string) => void;
}

const TYPING_MS = 200;
const REFRESH_MS = 10_000;
const PAGE = 40;

export function Sessions({ client, status, current, view, show }: Props) {
  useView(view);
  const [query, setQuery] = useState("");
  const [creating, setCreating] = useState(false);
  const begin = useRef<HTMLButtonElement>(null);
  const { list, error, more, fetchMore, refresh } = useSessions(client, status, query, view, useListNotifications(current, show));
  const owner = isOwner(client);
  const last = useRef("");
  last.current = current || last.current;
  return (
    <nav class="sessions" aria-label="Sessions">
      <div class="sessions-head">
        <h1>jaato</h1>
        {owner ? <button ref={begin} type="button" class="button primary small" aria-expanded={creating} onClick={() => setCreating(!creating)}>New</button> : null}
      </div>
      {creating ? (
        <NewSession client={client} known={list} close={() => { setCreating(false); begin.current?.focus(); }} done={(id) => { setCreating(false); refresh(); show(id); }} />
      ) : null}
      <input type="search" class="field search" placeholder="Search sessions" aria-label="Search sessions" value={query} onInput={(event) => setQuery(event.currentTarget.value)} />
      {error ? <p class="error-text pad" role="alert">{error}</p> : null}
      <ul class="session-list">
        {list.map((entry) => (
          <Row key={entry.id} entry={entry} current={entry.id === current} marked={entry.id === last.current} client={client} owner={owner} show={show} refresh={refresh} />
        ))}
      </ul>
      {!list.length && !error && status === "online" ? <p class="muted pad">{query ? "Nothing was found." : "There are no sessions yet. New begins one in a directory of the server’s machine."}</p> : null}
      {more ? <button type="button" class="quiet pad" onClick={fetchMore}>Show more</button> : null}
    </nav>
  );
}

interface RowProps {
  entry: SessionEntry;
  current: boolean;
  /** Whether it is the one that was opened last: on a phone the list is seen only when none is open. */
  marked: boolean;
  client: Client;
  owner: boolean;
  show: (id: string) => void;
  refresh: () => void;
}

function Row({ entry, current, marked, client, owner, show, refresh }: RowProps) {
  const title = titleOf(entry, entry.id);
  const home = client.connection.welcome?.home;
  const mark = entry.questions ? "waits for an answer" : entry.busy ? "working" : entry.interrupted ? "interrupted" : "";
  const askName = async () => {
    const submit = (name: string) => rename(client, entry.id, name);
    if ((await promptDialog({ title: "Name of the session", yes: "Rename", initial: entry.name ?? "", submit })) !== null) refresh();
  };
  const remove = async () => {
    const sure = await confirmDialog({ title: `Delete ${oneLine(title, 60)}?`, text: "Its log and its waypoints are removed for good.", yes: "Delete", danger: true });
    if (!sure) return;
    await client.ask({ type: "session.delete", session_id: entry.id }).then(() => { if (current) show(""); refresh(); }, (error: Error) => alertError(error));
  };
  return (
    <li class={marked ? "current" : ""}>
      <a href={`#s=${entry.id}`} aria-current={current ? "page" : undefined}>
        <span class="line"><span class="name" dir="auto" title={oneLine(title, 400)}>{oneLine(title, 80)}</span><time dateTime={entry.updated_at}>{ago(entry.updated_at)}</time></span>
        <span class="line sub">
          <span class="name">{entry.found ? oneLine(entry.found, 90) : oneLine(shortPath(entry.workspace, home).split("/").slice(-2).join("/"), 60)}</span>
          {mark ? <span class={`mark ${entry.questions ? "asks" : ""}`}>{mark}</span> : null}
        </span>
      </a>
      {marked && owner ? (
        <div class="row-actions">
          <button type="button" class="quiet" onClick={() => void askName()}>Rename</button>
          <button type="button" class="quiet" onClick={() => void remove()}>Delete</button>
        </div>
      ) : null}
    </li>
  );
}

function alertError(error: Error): void {
  void confirmDialog({ title: "That failed", text: error.message, yes: "OK", no: null });
}

/** The sessions that match, refreshed when the connection comes back and while the page is looked at or notifies. */
function useSessions(client: Client, status: Status, query: string, view: View | undefined, notify: (list: readonly SessionEntry[]) => void) {
  const [list, setList] = useState<readonly SessionEntry[]>([]);
  const [cursor, setCursor] = useState<string | null>(null);
  const [error, setError] = useState("");
  const [version, setVersion] = useState(0);
  const asked = useRef(0);
  /** How many rows a refresh fetches: also those of a page that it overtakes. */
  const wanted = useRef(PAGE);
  const pushed = view?.session.info?.sessions;
  const activity = view ? `${view.working} ${Object.keys(view.session.state.questions).length} ${view.session.state.name} ${view.session.isRemoved}` : "";
  const fetchPage = async (after: string | null) => {
    const mine = (asked.current += 1);
    if (after && !query) wanted.current = list.length + PAGE;
    try {
      const page = await client.sessions({ query: query || null, cursor: after, limit: after || query ? PAGE : wanted.current });
      if (mine !== asked.current) return;
      if (!query) notify(page.sessions);
      setList((before) => (after ? [...before, ...page.sessions] : page.sessions));
      setCursor(page.cursor ?? null);
      setError("");
    } catch (failure) {
      if (mine === asked.current) setError((failure as Error).message);
    }
  };
  useEffect(() => {
    if (status !== "online") return undefined;
    const timer = setTimeout(() => void fetchPage(null), query || activity ? TYPING_MS : 0);
    const again = setInterval(() => {
      if (query) void (isNotifying() && client.sessions({ limit: PAGE }).then((page) => notify(page.sessions), () => undefined));
      else if (!document.hidden || isNotifying()) void fetchPage(null);
    }, REFRESH_MS);
    return () => {
      clearTimeout(timer);
      clearInterval(again);
    };
  }, [client, status, query, version, pushed, activity]);
  return { list, error, more: cursor !== null, fetchMore: () => void fetchPage(cursor), refresh: () => setVersion((now) => now + 1) };
}
