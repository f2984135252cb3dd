// What a browser sees that is not paired yet.

import { useEffect, useState } from "preact/hooks";

import { codeOf, onPairing, pair } from "./pairing.ts";

export function PairingForm({ problem, done }: { problem: string; done: () => void }) {
  const [error, setError] = useState(problem);
  const [busy, setBusy] = useState(false);
  useEffect(() => onPairing(done), []);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const link = new FormData(form).get("code") as string;
    if (!codeOf(link)) return setError("This is not a link from jaato web.");
    setBusy(true);
    try {
      await pair(link);
      done();
    } catch (failure) {
      setError((failure as Error).message);
    } finally {
      setBusy(false);
    }
  };
  return (
    <main class="pairing">
      <form onSubmit={(event) => void submit(event)}>
        <h1>Pair this browser</h1>
        <p>Run this on the machine of the server; it opens a link that is valid once.</p>
        <pre class="box-code">jaato web</pre>
        <label for="code">Or paste a link from <code>jaato web --no-open</code></label>
        <input id="code" name="code" class="field" autocomplete="off" spellcheck={false} required aria-describedby="pairing-error" />
        <p id="pairing-error" role="alert" class="error-text">{error}</p>
        <button type="submit" class="button primary" disabled={busy}>Pair</button>
      </form>
    </main>
  );
}
