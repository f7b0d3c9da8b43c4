// Asking a walker from a component.
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError, ask, askWhole } from "../api";

/** What may pass by itself is tried again after so long. */
const AGAIN_MS = 5000;

/** The report of a walker for these fields; the last one stays while the next is on its way. */
export function useAsk<T>(walker: string, fields: object | null, delay = 0) {
  const [round, setRound] = useState(0);
  const again = useCallback(() => setRound((n) => n + 1), []);
  const load = async (tell: (value: T) => void, signal: AbortSignal) => {
    if (fields === null) return;
    if (delay) await new Promise((done) => setTimeout(done, delay));
    tell(await ask<T>(walker, fields, signal));
  };
  const { busy, ...state } = useTask<T | null>(null, load, [walker, JSON.stringify(fields), round]);
  const passing = state.error instanceof ApiError && (state.error.status === 0 || state.error.status >= 500);
  useEffect(() => {
    if (!passing || busy) return;
    const timer = setTimeout(again, AGAIN_MS);
    return () => clearTimeout(timer);
  }, [passing, busy]);
  return { ...state, busy: fields !== null && busy, again };
}

/** What a task of several questions has told so far; it begins anew whenever something of `on` changes. */
export function useTask<T>(start: T, task: (tell: (value: T) => void, signal: AbortSignal) => Promise<unknown>, on: unknown[]) {
  const [state, setState] = useState<{ value: T; error: unknown; done: object | null }>({ value: start, error: null, done: null });
  // Compared, so that it is busy as soon as something changes.
  const run = useMemo(() => ({}), on);
  useEffect(() => {
    const stop = new AbortController();
    const set = (change: Partial<typeof state>) => !stop.signal.aborted && setState((now) => ({ ...now, ...change }));
    task((value) => set({ value, error: null }), stop.signal)
      .catch((error) => set({ error }))
      .finally(() => set({ done: run }));
    return () => stop.abort();
  }, [run]);
  return { value: state.value, error: state.error, busy: state.done !== run };
}

/** A report that is asked for until it is complete, and again whenever `stamp` changes. */
export function useWhole<T extends { complete?: boolean }>(walker: string, fields: object, stamp: unknown) {
  return useTask<T | null>(null, (tell, signal) => askWhole<T>(walker, fields, signal, tell), [walker, JSON.stringify(fields), stamp]);
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
