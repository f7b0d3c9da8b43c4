// The timeline of one session, updated while the page is open. The newest turns are loaded first; until all
// are loaded `turns` has holes. Long because loading, updating and settings share one state.
import { useEffect, useMemo, useState } from "preact/hooks";
import { ApiError, request } from "./api";
import { ago } from "./format";
import { address, type Options, type Place, type View } from "./route";
import { optionsOf, type Setting } from "./setting";
import type { TimelineView, TurnView } from "./types";

const FIRST_PAGE = 60;
const PAGE = 500;
const POLL_MS = 3000;

/** The policy whose prompts only grow between rebuilds. */
export const LIVE = "contextrender_cache_aware";
export const OMITTED = 0;
export const COMPLETE = 1;
export const EXCERPT = 2;

export interface Result {
  number: number;
  position: number;
  turn: number;
  tokens: number;
  tool: number;
}

/** The data that the views of a session share. `version` changes with every addition. */
export class SessionData {
  version = 0;
  results: Result[] = [];
  turns: TurnView[] = [];
  tools: string[] = [];
  /** By result number: the turns that used the result, and the turns that missed it. */
  usedAt: number[][] = [];
  missedAt: number[][] = [];
  last = 0;
  waiting = false;
  budget: number | string = 0;
  policy = "";
  policies: string[] = [];
  complete = false;
  /** The number of loaded turns. */
  loaded = 0;
  error: ApiError | null = null;
  private stop = new AbortController();
  private byPosition = new Map<number, number>();
  /** Whether calls are recomputed in order, from the first one on. */
  private oldestFirst = false;
  /** Whether a turn (by index) was loaded with everything, and not only with `newest_calls`. */
  private isLoaded: boolean[] = [];

  /** `branch` is null for the one written last. With a `setting` all calls are recomputed under it. `onChange` is
   * called after every addition. */
  constructor(
    readonly branch: { session: string; branch: number | null },
    readonly setting: Setting | null,
    private onChange: () => void,
  ) {}

  /** Return the address of a view of the session. */
  to(view: View, item: number | null = null, options: Options = {}): string {
    return address(this.branch.session, view, item, this.branch.branch, { ...(this.setting && optionsOf(this.setting)), ...options });
  }

  async run(): Promise<void> {
    while (!this.stop.signal.aborted) {
      try {
        await this.catchUp();
        this.error = null;
      } catch (error) {
        if (this.stop.signal.aborted) return;
        this.error = error instanceof ApiError ? error : new ApiError(0, String(error));
        this.announce();
        if (this.error.status === 401 || this.error.status === 404) return;
      }
      await new Promise((resolve) => setTimeout(resolve, document.hidden ? 5 * POLL_MS : POLL_MS));
    }
  }

  close(): void {
    this.stop.abort();
  }

  resultAt(position: number): Result | undefined {
    const number = this.byPosition.get(position);
    return number === undefined ? undefined : this.results[number];
  }

  /** Whether an answer may still come: a call with usage has been answered, recorded or not. */
  get isAnswering(): boolean {
    return this.waiting && !this.turns[this.last - 1]?.usage;
  }

  /** How the prompt of a turn (by index) had a result: OMITTED, COMPLETE, EXCERPT; -1 before the result existed. */
  state(turn: number, result: number): number {
    const call = this.turns[turn];
    if (!call || result >= call.results) return -1;
    if (isInRuns(call.complete, result)) return COMPLETE;
    return isInRuns(call.substitutes, result) ? EXCERPT : OMITTED;
  }

  /** Whether a call must wait for the replay of the calls before it, on which a cache-aware policy depends. */
  waitsFor = (turn: number): boolean => this.policy === LIVE && (this.setting !== null || this.oldestFirst) && !this.turns[turn - 1];

  /** The turns, from 1, that used a result or missed it. */
  markedAt(result: number): number[] {
    const [usedTurns, missedTurns] = [this.usedAt[result] ?? [], this.missedAt[result] ?? []];
    return missedTurns.length ? [...new Set([...usedTurns, ...missedTurns])].sort((a, b) => a - b) : usedTurns;
  }

  /** The steps so far: answers that used an earlier result, those of them with a miss, and all uses and misses. */
  get counts(): { steps: number; steps_with_misses: number; uses: number; misses: number } {
    const turns = this.turns.filter((turn) => turn && (turn.uses.length || turn.misses.length));
    const sum = (of: (turn: TurnView) => number) => turns.reduce((total, turn) => total + of(turn), 0);
    return {
      steps: turns.length,
      steps_with_misses: sum((turn) => Number(turn.misses.length > 0)),
      uses: sum((turn) => turn.uses.length),
      misses: sum((turn) => turn.misses.length),
    };
  }

  /** The number of answers so far. */
  get answers(): number {
    return this.last - Number(this.waiting);
  }

  /** How a turn (by index) used a result: a miss, a use of a value that was visible elsewhere, or a plain use. */
  markAt(turn: number, result: number): "miss" | "elsewhere" | "use" {
    if (this.turns[turn]?.misses.includes(result)) return "miss";
    return this.state(turn, result) === OMITTED ? "elsewhere" : "use";
  }

  private async catchUp(): Promise<void> {
    if (!this.version && !this.setting) this.add(await request<TimelineView>("newest_calls", { ...this.branch, limit: FIRST_PAGE }, this.stop.signal), false);
    const newest = this.waiting ? this.last : this.last + 1;
    await this.load(this.loaded ? newest : this.setting ? 1 : 1 - FIRST_PAGE, PAGE);
    for (let gap = this.gap(); gap; gap = this.gap()) await this.load(...gap);
  }

  private async load(start: number, limit: number): Promise<void> {
    const page = await request<TimelineView>("timeline", { ...this.branch, ...this.setting, start, limit }, this.stop.signal);
    this.oldestFirst ||= page.turns.length < limit && page.turns.every((turn) => !turn.recorded);
    this.add(page, true);
  }

  /** Return the turns to load next: a start and a count. */
  private gap(): [number, number] | null {
    if (this.loaded >= this.last) return null;
    let [start, end] = [0, this.last];
    if (this.oldestFirst) {
      while (this.isLoaded[start]) start++;
      return [start + 1, PAGE];
    }
    while (this.isLoaded[end - 1]) end--;
    start = end;
    while (start > 0 && !this.isLoaded[start - 1] && end - start < PAGE) start--;
    return [start + 1, end - start];
  }

  private add(page: TimelineView, isExact: boolean): void {
    const isSettled = this.complete && page.turn_count === this.last && page.awaits_answer === this.waiting;
    const isSame = isSettled && page.turns.every((turn) => JSON.stringify(turn) === JSON.stringify(this.turns[turn.turn - 1]));
    if (page.turn_count < this.last) Object.assign(this, { turns: [], usedAt: [], missedAt: [], isLoaded: [] });
    this.last = page.turn_count;
    this.waiting = page.awaits_answer;
    if (isSame) return;
    Object.assign(this, { budget: page.budget, policy: page.policy, policies: page.policies });
    const { offset: first, tools, names, positions, turns, tokens } = page.results;
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
      this.isLoaded[turn.turn - 1] ||= isExact;
      this.turns[turn.turn - 1] = turn;
      for (const result of turn.uses) addTurn((this.usedAt[result] ??= []), turn.turn);
      for (const result of turn.misses) addTurn((this.missedAt[result] ??= []), turn.turn);
    }
    this.loaded = this.isLoaded.filter(Boolean).length;
    this.complete = this.loaded >= this.last;
    this.announce();
  }

  /** Return a tool's index in `tools`; add the tool if it is new. */
  toolId(name: string): number {
    const index = this.tools.indexOf(name);
    return index < 0 ? this.tools.push(name) - 1 : index;
  }

  private announce(): void {
    this.version++;
    this.onChange();
  }
}

/** The properties of every view of a session. */
export interface ViewProps {
  place: Place;
  data: SessionData;
}

/** Models answer within minutes: a session that has waited longer has most likely ended. */
export const STOPPED_SECONDS = 900;

/** Describe the state of a session, and whether an answer may still come. `at` is the time of its last change, in seconds since 1970. */
export function describeState(isWaiting: boolean, at: number | null, now = Date.now() / 1000): { text: string; live: boolean } {
  if (!isWaiting) return { text: "Idle", live: false };
  if (at === null || now - at < STOPPED_SECONDS) return { text: "Model’s turn", live: at !== null };
  return { text: `No answer: stopped ${ago(at, now)}`, live: false };
}

function addTurn(turns: number[], turn: number): void {
  if (turns.includes(turn)) return;
  turns.push(turn);
  turns.sort((a, b) => a - b);
}

function isInRuns(runs: number[], value: number): boolean {
  for (let i = 0; i < runs.length; i += 2) {
    if (value < runs[i]) return false;
    if (value < runs[i] + runs[i + 1]) return true;
  }
  return false;
}

/** Return the numbers of runs: first, length, ... */
export function numbersIn(runs: number[]): number[] {
  const numbers: number[] = [];
  for (let i = 0; i < runs.length; i += 2) for (let n = 0; n < runs[i + 1]; n++) numbers.push(runs[i] + n);
  return numbers;
}

/** Return the data of a place's session under a setting; null while `isNeeded` is false. */
export function useSession({ session, branch }: Place, setting: Setting | null, isNeeded = true): SessionData | null {
  const [, setVersion] = useState(0);
  const key = JSON.stringify([session, branch, setting, isNeeded]);
  const data = useMemo(() => (isNeeded ? new SessionData({ session, branch }, setting, () => setVersion((count) => count + 1)) : null), [key]);
  useEffect(() => {
    void data?.run();
    return () => data?.close();
  }, [data]);
  return data;
}
