// One session's timeline, kept up to date: the newest turns come first, then the rest. `turns` has holes
// until then.
import { useEffect, useState } from "preact/hooks";
import { ApiError, ask } from "./api";
import { ago } from "./format";
import { address, type Options, type Place, type View } from "./route";
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
  budget: number | string = 0;
  policy = "";
  policies: string[] = [];
  complete = false;
  /** Whether what there is is only what a first picture needs. */
  rough = true;
  /** How many turns are known. */
  known = 0;
  error: ApiError | null = null;
  private stop = new AbortController();
  private byPosition = new Map<number, number>();
  private oldestFirst = false;

  /** `line`: the branch, null for the one written last. `changed` is called whenever something is added. */
  constructor(
    readonly line: { session: string; branch: number | null },
    private changed: () => void,
  ) {}

  /** The address of a view of it. */
  to(view: View, item: number | null = null, options: Options = {}): string {
    return address(this.line.session, view, item, this.line.branch, options);
  }

  async run(): Promise<void> {
    while (!this.stop.signal.aborted) {
      try {
        await this.catchUp();
        this.error = null;
      } catch (error) {
        if (this.stop.signal.aborted) return;
        this.error = error instanceof ApiError ? error : new ApiError(0, String(error));
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

  /** Whether an answer may still come: a provider's bill tells that one was given, recorded or not. */
  get answering(): boolean {
    return this.waiting && !this.turns[this.last - 1]?.billed;
  }

  /** What was shown of a result at a turn (by index): OMITTED, COMPLETE, REPLACED; -1 before it was there. */
  state(turn: number, result: number): number {
    const at = this.turns[turn];
    if (!at || result >= at.results) return -1;
    if (within(at.complete, result)) return COMPLETE;
    return within(at.replaced, result) ? REPLACED : OMITTED;
  }

  private async catchUp(): Promise<void> {
    if (this.last === 0) await this.glimpse();
    await this.load(this.rough ? 1 - FIRST_PAGE : this.waiting ? this.last : this.last + 1, PAGE);
    for (let gap = this.gap(); gap; gap = this.gap()) await this.load(...gap);
  }

  /** The newest turns, at once however long the session is. */
  private async glimpse(): Promise<void> {
    const page = await ask<TimelineView>("glimpse", { ...this.line, limit: FIRST_PAGE }, this.stop.signal);
    if (page.turns.length > 0) this.take(page);
  }

  private async load(start: number, limit: number): Promise<void> {
    const page = await ask<TimelineView>("timeline", { ...this.line, start, limit }, this.stop.signal);
    // What was not noted is recomputed from the first call on, so it comes in that order.
    this.oldestFirst ||= page.turns.length < limit && page.turns.every((turn) => !turn.noted);
    this.take(page);
  }

  /** The turns to ask for next: a start and how many. */
  private gap(): [number, number] | null {
    if (this.known >= this.last) return null;
    const known = (turn: number) => this.turns[turn] !== undefined;
    let [start, end] = [0, this.last];
    if (this.oldestFirst) {
      while (known(start)) start++;
      return [start + 1, PAGE];
    }
    while (known(end - 1)) end--;
    start = end;
    while (start > 0 && !known(start - 1) && end - start < PAGE) start--;
    return [start + 1, end - start];
  }

  private take(page: TimelineView): void {
    const settled = this.complete && page.last === this.last && page.waiting === this.waiting;
    const same = settled && page.turns.every((turn) => JSON.stringify(turn) === JSON.stringify(this.turns[turn.turn - 1]));
    if (page.last < this.last || (this.rough && !page.rough)) Object.assign(this, { turns: [], usedAt: [], known: 0 });
    this.rough = page.rough;
    this.last = page.last;
    this.waiting = page.waiting;
    if (same) return;
    Object.assign(this, { budget: page.budget, policy: page.policy, policies: page.policies });
    const { first, tools, names, positions, turns, tokens } = page.results;
    const ids = tools.map((name) => this.toolId(name));
    for (let number = this.results.length; number < first; number++) {
      this.results[number] = { number, position: -1, turn: 0, tokens: 0, tool: -1 };
    }
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
    for (const turn of page.turns) {
      if (!this.turns[turn.turn - 1]) this.known++;
      this.turns[turn.turn - 1] = turn;
      for (const result of turn.uses) {
        const used = (this.usedAt[result] ??= []);
        if (!used.includes(turn.turn)) used.push(turn.turn);
        used.sort((a, b) => a - b);
      }
    }
    this.complete = !this.rough && this.known >= this.last;
    this.tell();
  }

  /** A tool's index in `tools`, new if need be. */
  toolId(name: string): number {
    const known = this.tools.indexOf(name);
    return known < 0 ? this.tools.push(name) - 1 : known;
  }

  private tell(): void {
    this.version++;
    this.changed();
  }
}

/** What every view of a session is given. */
export interface ViewProps {
  place: Place;
  data: SessionData;
}

/** Models answer within minutes: a run that has waited for longer has most likely ended. */
export const QUIET_SECONDS = 900;

/** What a session is doing, and whether an answer may be on its way. `at`: when it was last written, in seconds since 1970, if known. */
export function stateOf(waiting: boolean, at: number | null, now = Date.now() / 1000): { text: string; live: boolean } {
  if (!waiting) return { text: "Idle", live: false };
  if (at === null || now - at < QUIET_SECONDS) return { text: "Model’s turn", live: at !== null };
  return { text: `No answer: stopped ${ago(at, now)}`, live: false };
}

function within(runs: number[], value: number): boolean {
  for (let i = 0; i < runs.length; i += 2) {
    if (value < runs[i]) return false;
    if (value < runs[i] + runs[i + 1]) return true;
  }
  return false;
}

/** The numbers in runs of them: first, length, ... */
export function numbersIn(runs: number[]): number[] {
  const numbers: number[] = [];
  for (let i = 0; i < runs.length; i += 2) for (let n = 0; n < runs[i + 1]; n++) numbers.push(runs[i] + n);
  return numbers;
}

/** The session's data, for a component that is keyed by session and branch. */
export function useSession({ session, branch }: Place): SessionData {
  const [, setVersion] = useState(0);
  const [data] = useState(() => new SessionData({ session, branch }, () => setVersion((count) => count + 1)));
  useEffect(() => {
    void data.run();
    return () => data.close();
  }, []);
  return data;
}
