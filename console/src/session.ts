// One session's timeline, loaded page by page and kept up to date.
import { useEffect, useState } from "preact/hooks";
import { ApiError, ask, isAbort } from "./api";
import type { TimelineView, TurnView } from "./types";

const FIRST_PAGE = 60;
const PAGE = 500;
const POLL_MS = 3000;

export const OMITTED = 0;
export const COMPLETE = 1;
export const REPLACED = 2;

export interface Result {
  number: number;
  position: number;
  turn: number;
  tokens: number;
  tool: number;
}

/** What the views share. A changed `version` says that something was added. */
export class SessionData {
  version = 0;
  results: Result[] = [];
  turns: TurnView[] = [];
  tools: string[] = [];
  usedAt: number[][] = [];
  last = 0;
  waiting = false;
  budget = 0;
  policy = "";
  policies: string[] = [];
  complete = false;
  error: ApiError | null = null;
  private toolIds = new Map<string, number>();
  private listeners = new Set<() => void>();
  private stop = new AbortController();
  private byPosition = new Map<number, number>();

  constructor(
    readonly key: string,
    readonly branch: number | null,
  ) {}

  /** How many turns there are, recomputed yet or not. */
  get columns(): number {
    return Math.max(this.turns.length, this.last);
  }

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  async run(): Promise<void> {
    while (!this.stop.signal.aborted) {
      try {
        await this.catchUp();
        this.error = null;
      } catch (error) {
        if (isAbort(error)) return;
        this.error = error instanceof ApiError ? error : new ApiError(0, "error", String(error));
        this.tell();
        if (this.error.status === 401 || this.error.status === 404) return;
      }
      await new Promise((done) => setTimeout(done, document.hidden ? 5 * POLL_MS : POLL_MS));
    }
  }

  close(): void {
    this.stop.abort();
  }

  resultAt(position: number): Result | undefined {
    const found = this.byPosition.get(position);
    return found === undefined ? undefined : this.results[found];
  }

  /** What was shown of a result at a turn (by index): OMITTED, COMPLETE, REPLACED; -1 before it was there. */
  state(turn: number, result: number): number {
    const at = this.turns[turn];
    if (!at || result >= at.results) return -1;
    if (within(at.complete, result)) return COMPLETE;
    return within(at.replaced, result) ? REPLACED : OMITTED;
  }

  private async catchUp(): Promise<void> {
    let next: number | null = this.waiting ? Math.max(1, this.last) : this.turns.length + 1;
    while (next !== null) {
      const limit: number = this.turns.length ? PAGE : FIRST_PAGE;
      const page: TimelineView = await ask<TimelineView>(
        "timeline",
        { session: this.key, branch: this.branch, start: next, limit },
        this.stop.signal,
      );
      this.take(page, next);
      next = page.next;
    }
  }

  private take(page: TimelineView, start: number): void {
    const settled = this.complete && page.next === null;
    const same =
      settled && page.turns.length === this.turns.length - start + 1 && page.waiting === this.waiting &&
      JSON.stringify(page.turns) === JSON.stringify(this.turns.slice(start - 1));
    this.last = page.last;
    this.waiting = page.waiting;
    if (same) return;
    Object.assign(this, { budget: page.budget, policy: page.policy, policies: page.policies });
    const { first, tools, names, positions, turns, tokens } = page.results;
    const ids = tools.map((name) => this.toolId(name));
    names.forEach((name, index) => {
      this.byPosition.set(positions[index], first + index);
      this.results[first + index] = {
        number: first + index,
        position: positions[index],
        turn: turns[index],
        tokens: tokens[index],
        tool: ids[name],
      };
    });
    this.turns.length = start - 1;
    for (const used of this.usedAt) while (used?.length && used[used.length - 1] >= start) used.pop();
    for (const turn of page.turns) {
      this.turns.push(turn);
      for (const result of turn.uses) (this.usedAt[result] ??= []).push(turn.turn);
    }
    this.complete = page.next === null;
    this.tell();
  }

  private toolId(name: string): number {
    let id = this.toolIds.get(name);
    if (id === undefined) {
      id = this.tools.length;
      this.toolIds.set(name, id);
      this.tools.push(name);
    }
    return id;
  }

  private tell(): void {
    this.version++;
    for (const listener of [...this.listeners]) listener();
  }
}

function within(runs: number[], value: number): boolean {
  for (let i = 0; i < runs.length; i += 2) {
    if (value < runs[i]) return false;
    if (value < runs[i] + runs[i + 1]) return true;
  }
  return false;
}

/** The session's data, for a component that is keyed by session and branch. */
export function useSession(key: string, branch: number | null): SessionData {
  const [data] = useState(() => new SessionData(key, branch));
  const [, setVersion] = useState(0);
  useEffect(() => {
    const unsubscribe = data.subscribe(() => setVersion((count) => count + 1));
    void data.run();
    return () => {
      unsubscribe();
      data.close();
    };
  }, []);
  return data;
}
