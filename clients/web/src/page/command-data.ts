// What a user command gives as JSON, asked again when certain events come.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";

import type { ProtocolEvent } from "../client/index.ts";
import type { View } from "./store.ts";

/** Events that come together cause one question. */
const SETTLE_MS = 200;

interface CommandData<T> {
  /** Undefined until the first answer. */
  data: T | undefined;
  error: string;
  busy: boolean;
  /** Run another command of the session, then ask again; whether it succeeded. */
  run: (name: string, given: string) => Promise<boolean>;
  reload: () => void;
}

/** The answer of `/name given`, kept up to date. `concerns` says which events may have changed it. */
export function useCommandData<T>(view: View, name: string, given: string, concerns: (event: ProtocolEvent) => boolean): CommandData<T> {
  const [data, setData] = useState<T>();
  const [failed, setFailed] = useState("");
  const [refused, setRefused] = useState("");
  const [busy, setBusy] = useState(false);
  const asked = useRef(0);
  const load = useCallback(async () => {
    const number = (asked.current += 1);
    try {
      const found = JSON.parse(await view.session.run(name, given)) as T;
      if (asked.current !== number) return;
      setData(found);
      setFailed("");
    } catch (failure) {
      if (asked.current === number) setFailed((failure as Error).message);
    }
  }, [view, name, given]);
  useEffect(() => {
    void load();
    let timer = 0;
    const stop = view.session.listen((event) => {
      const attached = event?.type === "session.info" && (event.state || event.live); // anything may have changed
      if (timer || !event || !(attached || concerns(event))) return;
      timer = window.setTimeout(() => {
        timer = 0;
        void load();
      }, SETTLE_MS);
    });
    return () => {
      asked.current += 1;
      clearTimeout(timer);
      stop();
    };
  }, [load]);
  const run = async (other: string, rest: string): Promise<boolean> => {
    setBusy(true);
    setRefused("");
    try {
      await view.session.run(other, rest);
      return true;
    } catch (failure) {
      setRefused((failure as Error).message);
      return false;
    } finally {
      await load();
      setBusy(false);
    }
  };
  const reload = () => {
    setRefused("");
    void load();
  };
  return { data, error: refused || failed, busy, run, reload };
}
