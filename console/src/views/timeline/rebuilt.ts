// Where something had to leave a prompt that else only grows.
import { numbersIn } from "../../session";
import type { TurnView } from "../../types";

/** The policy whose prompts only grow in between. */
export const LIVE = "contextrender_frozen";

export interface Rebuild {
  turn: number;
  /** Numbers of the results that the call before had in view, and this one not. */
  dropped: number[];
  /** Those that were out of view before. */
  back: number[];
}

/** Turns that are not loaded are holes: what follows one is not told. */
export function rebuildsOf(turns: TurnView[]): Rebuild[] {
  const found: Rebuild[] = [];
  let before = new Set<number>();
  let last: TurnView | undefined;
  for (let index = 0; index < turns.length; index++) {
    const turn = turns[index];
    const now = new Set(turn ? [...numbersIn(turn.complete), ...numbersIn(turn.replaced)] : []);
    if (turn && last) {
      const had = last.results;
      const dropped = [...before].filter((number) => !now.has(number)).sort(byNumber);
      const back = [...now].filter((number) => number < had && !before.has(number)).sort(byNumber);
      if (dropped.length) found.push({ turn: turn.turn, dropped, back });
    }
    [before, last] = [now, turn];
  }
  return found;
}

const byNumber = (a: number, b: number): number => a - b;
