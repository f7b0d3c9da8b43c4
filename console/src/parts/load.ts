// Asking a walker from a component.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { ApiError, ask, askWhole, isAbort } from "../api";

/** What may pass by itself is tried again after so long. */
const AGAIN_MS = 5000;

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
  const again = useCallback(() => setRound((n) => n + 1), []);
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
  const passing = state.error instanceof ApiError && (state.error.status === 0 || state.error.status >= 500);
  useEffect(() => {
    if (!passing || settled !== question) return;
    const timer = setTimeout(again, AGAIN_MS);
    return () => clearTimeout(timer);
  }, [passing, settled]);
  return { ...state, busy: fields !== null && settled !== question, again };
}

/** What a task of several questions has told so far; it begins anew whenever something of `on` changes. */
export function useTask<T>(start: T, task: (tell: (value: T) => void, signal: AbortSignal) => Promise<unknown>, on: unknown[]) {
  const [state, setState] = useState<{ value: T; error: unknown; busy: boolean }>({ value: start, error: null, busy: true });
  useEffect(() => {
    const stop = new AbortController();
    const set = (change: Partial<typeof state>) => !stop.signal.aborted && setState((now) => ({ ...now, ...change }));
    set({ busy: true });
    task((value) => set({ value, error: null }), stop.signal)
      .catch((error) => set({ error }))
      .finally(() => set({ busy: false }));
    return () => stop.abort();
  }, on);
  return state;
}

/** A report that is asked for until it is complete, and again whenever `stamp` changes. */
export function useWhole<T extends { complete?: boolean }>(walker: string, fields: object, stamp: unknown) {
  return useTask<T | null>(null, (tell, signal) => askWhole<T>(walker, fields, signal, tell), [walker, JSON.stringify(fields), stamp]);
}

/** What is typed, and the same once nobody has typed for a moment. */
export function useTyped(): [typed: string, settled: string, type: (text: string) => void] {
  const [typed, setTyped] = useState("");
  const [settled, setSettled] = useState("");
  useEffect(() => {
    const timer = setTimeout(() => setSettled(typed.trim()), 200);
    return () => clearTimeout(timer);
  }, [typed]);
  return [typed, settled, setTyped];
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
