// Asking a walker from a component.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { ask, isAbort } from "../api";

export interface Loaded<T> {
  value: T | null;
  error: unknown;
  busy: boolean;
  again: () => void;
}

/** The report of a walker for these fields; the last one stays while the next is on its way. */
export function useAsk<T>(walker: string, fields: object | null, delay = 0): Loaded<T> {
  const [state, setState] = useState<{ value: T | null; error: unknown }>({ value: null, error: null });
  const [round, setRound] = useState(0);
  const started = useRef(false);
  const asked = JSON.stringify(fields);
  // Told from what is asked, so that it holds as soon as the fields change.
  const question = `${round} ${walker} ${asked}`;
  const [settled, setSettled] = useState("");
  useEffect(() => {
    if (fields === null) return;
    const stop = new AbortController();
    const start = () =>
      ask<T>(walker, fields, stop.signal)
        .then((value) => setState({ value, error: null }))
        .catch((error) => !isAbort(error) && setState((now) => ({ ...now, error })))
        .finally(() => !stop.signal.aborted && setSettled(question));
    const timer = setTimeout(start, started.current ? delay : 0);
    started.current = true;
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [question]);
  return { ...state, busy: fields !== null && settled !== question, again: useCallback(() => setRound((n) => n + 1), []) };
}

/** Calls back every `ms` milliseconds while the page is visible. */
export function useInterval(callback: () => void, ms: number): void {
  const latest = useRef(callback);
  latest.current = callback;
  useEffect(() => {
    const timer = setInterval(() => !document.hidden && latest.current(), ms);
    return () => clearInterval(timer);
  }, [ms]);
}
