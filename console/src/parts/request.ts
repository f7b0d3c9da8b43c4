// Requests to a walker from a component.
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError, request, requestComplete } from "../api";

/** How long to wait before an attempt after a failure that may pass by itself. */
const RETRY_MS = 5000;

/** The report of a walker for these fields. The last report stays while the next one is loading. */
export function useReport<T>(walker: string, fields: object | null, delay = 0) {
  const load = async (report: (value: T) => void, signal: AbortSignal) => {
    if (fields === null) return;
    if (delay) await new Promise((resolve) => setTimeout(resolve, delay));
    report(await request<T>(walker, fields, signal));
  };
  const { busy, ...state } = useTask<T | null>(null, load, [walker, JSON.stringify(fields)]);
  return { ...state, busy: fields !== null && busy };
}

/** What a task of several requests has reported so far. It starts again when an entry of `inputs` changes,
 * on `again`, and by itself after a failure of the connection or the server. */
export function useTask<T>(start: T, task: (report: (value: T) => void, signal: AbortSignal) => Promise<unknown>, inputs: unknown[]) {
  const [round, setRound] = useState(0);
  const reload = useCallback(() => setRound((count) => count + 1), []);
  const [state, setState] = useState<{ value: T; error: unknown; finishedRun: object | null }>({ value: start, error: null, finishedRun: null });
  // Compared by identity, so that the task is busy as soon as an input changes.
  const run = useMemo(() => ({}), [...inputs, round]);
  useEffect(() => {
    const stop = new AbortController();
    const set = (change: Partial<typeof state>) => !stop.signal.aborted && setState((current) => ({ ...current, ...change }));
    task((value) => set({ value, error: null }), stop.signal)
      .then(() => set({ error: null }))
      .catch((error) => set({ error }))
      .finally(() => set({ finishedRun: run }));
    return () => stop.abort();
  }, [run]);
  const busy = state.finishedRun !== run;
  const canPass = state.error instanceof ApiError && (state.error.status === 0 || state.error.status >= 500);
  useEffect(() => {
    if (!canPass || busy) return;
    const timer = setTimeout(reload, RETRY_MS);
    return () => clearTimeout(timer);
  }, [canPass, busy]);
  return { value: state.value, error: state.error, busy, again: reload };
}

/** A report that is requested until it is complete, and again whenever `stamp` changes. */
export function useCompleteReport<T>(walker: string, fields: object, stamp: unknown) {
  return useTask<T | null>(null, (report, signal) => requestComplete<T>(walker, fields, signal, report), [walker, JSON.stringify(fields), stamp]);
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
