// Savings of many sessions, asked for one at a time so that the service stays free for agents.
import { useEffect, useState } from "preact/hooks";
import { ask } from "../api";
import type { PolicyView, SavingsView, SessionView } from "../types";

interface Job {
  session: string;
  stamp: number;
}

const known = new Map<string, { stamp: number; totals: PolicyView; complete: boolean }>();
const waiting: Job[] = [];
const listeners = new Set<() => void>();
let working = false;

/** The session's figures so far, if they have been asked for. */
export const measured = (session: string): { totals: PolicyView; complete: boolean } | undefined =>
  known.get(session);

export function forgetMeasures(): void {
  known.clear();
  waiting.length = 0;
}

/** Keeps the figures of these sessions up to date; a change renders anew. */
export function useMeasures(sessions: SessionView[]): void {
  const [, setCount] = useState(0);
  useEffect(() => {
    const changed = () => setCount((n) => n + 1);
    listeners.add(changed);
    return () => void listeners.delete(changed);
  }, []);
  useEffect(() => {
    waiting.length = 0;
    for (const { session, updated_at: stamp } of sessions) {
      const found = known.get(session);
      if (!found?.complete || found.stamp !== stamp) waiting.push({ session, stamp });
    }
    void work();
  }, [JSON.stringify(sessions.map((view) => [view.session, view.updated_at]))]);
}

async function work(): Promise<void> {
  if (working) return;
  working = true;
  try {
    for (let job = waiting.shift(); job; job = waiting.shift()) await measure(job);
  } finally {
    working = false;
  }
}

async function measure(job: Job): Promise<void> {
  try {
    const view = await ask<SavingsView>("savings", { session: job.session, columns: false });
    known.set(job.session, { stamp: job.stamp, totals: view.totals, complete: view.complete });
    if (!view.complete) waiting.push(job);
  } catch {
    // The list itself tells of a service that does not answer; a figure stays unknown.
  }
  for (const listener of listeners) listener();
}
