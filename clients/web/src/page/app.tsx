// The page: sessions at the left, the session that is shown, its panels at the right.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { Client, type Status } from "../client/index.ts";
import { PairingForm } from "./pairing-form.tsx";
import { pairedKey } from "./pairing.ts";
import { openSession, useRoute } from "./route.ts";
import { SessionPage } from "./session-page.tsx";
import { Sessions } from "./sessions.tsx";
import { View } from "./store.ts";
import { browserName } from "./text.ts";

const REFUSED = "The server does not accept this browser any more: its token was removed or has expired, or its cookies were deleted.";

/** What Safari needs, which keeps no `Secure` cookie of a plain address, not even one of the same machine. */
const NO_COOKIE = "This browser did not keep the cookie of the pairing. Safari and other browsers with WebKit keep it only over https: serve with --tls-cert and --tls-key, or use another browser.";

/** The page; `problem` is that of the link in the address, `fresh` means that it was paired just now. */
export function App({ problem, fresh }: { problem: string; fresh: boolean }) {
  const [paired, setPaired] = useState(pairedKey() !== "");
  const [reason, setReason] = useState(problem);
  const isNew = useRef(fresh);
  const refuse = (known: boolean) => {
    setReason(known ? REFUSED : isNew.current ? NO_COOKIE : reason || REFUSED);
    setPaired(false);
  };
  const done = () => {
    isNew.current = true;
    setReason("");
    setPaired(true);
  };
  return paired ? <Connected refuse={refuse} problem={reason} /> : <PairingForm problem={reason} done={done} />;
}

/** Everything that needs a connection; `refuse` is called with whether the server has ever accepted this browser. */
function Connected({ refuse, problem }: { refuse: (known: boolean) => void; problem: string }) {
  const [status, setStatus] = useState<Status>("connecting");
  const client = useMemo(() => {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    return new Client({ url: `${scheme}://${location.host}/v1/connect`, token: pairedKey, name: browserName(), onStatus: setStatus });
  }, []);
  useEffect(() => () => client.close(), [client]);
  useEffect(() => {
    const check = () => client.connection.check();
    addEventListener("online", check);
    document.addEventListener("visibilitychange", check);
    return () => {
      removeEventListener("online", check);
      document.removeEventListener("visibilitychange", check);
    };
  }, [client]);
  useEffect(() => {
    if (status === "refused") refuse(client.connection.welcome !== undefined);
  }, [status]);
  const route = useRoute();
  const id = route.session;
  const { view, error } = useSessionView(client, id);
  return (
    <div class={`app ${id ? "has-session" : ""}`}>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>Skip to the conversation</a>
      <div class="banners">
        <Connection status={status} />
        {problem ? <UnusedLink problem={problem} /> : null}
      </div>
      <Sessions client={client} status={status} current={id} view={view} show={openSession} />
      <main id="main" tabIndex={-1}>
        {view ? <SessionPage key={id} view={view} status={status} route={route} show={openSession} /> : <Empty id={id} error={error} back={() => openSession("")} />}
      </main>
    </div>
  );
}

/** The view of a session, while it is the one in the address. */
function useSessionView(client: Client, id: string): { view: View | undefined; error: string } {
  const [found, setFound] = useState<{ id: string; view?: View; error: string }>({ id: "", error: "" });
  useEffect(() => {
    if (!id) return undefined;
    let view: View | undefined;
    let wanted = true;
    client.attach(id).then(
      (session) => {
        if (!wanted) return client.detach(session);
        view = new View(client, session);
        setFound({ id, view, error: "" });
      },
      (error: Error) => wanted && setFound({ id, error: error.message }),
    );
    return () => {
      wanted = false;
      view?.close();
      setFound({ id: "", error: "" });
    };
  }, [client, id]);
  return found.id === id ? { view: found.view, error: found.error } : { view: undefined, error: "" };
}

/** Shown from the loss of the connection until it is back, also during each attempt. */
function Connection({ status }: { status: Status }) {
  const lost = useRef(false);
  if (status !== "connecting") lost.current = status === "offline";
  const text = lost.current ? "Offline. What you see is the last known state; the connection is being restored."
    : status === "outdated" ? "The server has another version." : "";
  return (
    <div role="status" aria-live="polite" class={text ? "banner" : "sr-only"}>
      {text}
      {status === "outdated" ? <button type="button" class="button" onClick={() => location.reload()}>Reload the page</button> : null}
    </div>
  );
}

/** Why a link was not accepted, in a browser that needs none. */
function UnusedLink({ problem }: { problem: string }) {
  const [open, setOpen] = useState(true);
  if (!open) return null;
  return (
    <div role="alert" class="banner">
      <span class="grow">{problem} This browser is paired already.</span>
      <button type="button" class="button small" onClick={() => setOpen(false)}>Close</button>
    </div>
  );
}

function Empty({ id, error, back }: { id: string; error: string; back: () => void }) {
  return (
    <div class="empty">
      {error ? <><p class="strong">This session cannot be opened.</p><p>{error}</p><button type="button" class="button" onClick={back}>Back</button></>
        : id ? <p role="status">Loading…</p>
        : <><p class="strong">No session is open.</p><p>Choose one from the list, or begin a new one.</p></>}
    </div>
  );
}
