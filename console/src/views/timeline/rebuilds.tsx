// Where something had to leave a prompt that else only grows.
import { plural } from "../../format";
import { numbersIn, type SessionData } from "../../session";
import type { TurnView } from "../../types";

/** The policy whose prompts only grow in between. */
export const LIVE = "contextrender_cache_aware";

export interface Rebuild {
  turn: number;
  /** How many results the call before had in view, and this one not. */
  dropped: number;
  /** How many were out of view before. */
  back: number;
}

/** Turns that are not loaded are holes: what follows one is not told. */
export function rebuildsOf(turns: TurnView[]): Rebuild[] {
  const found: Rebuild[] = [];
  let before = new Set<number>();
  let last: TurnView | undefined;
  for (let index = 0; index < turns.length; index++) {
    const turn = turns[index];
    const now = new Set(turn ? [...numbersIn(turn.complete), ...numbersIn(turn.substitutes)] : []);
    if (turn && last) {
      const had = last.results;
      const dropped = [...before].filter((number) => !now.has(number)).length;
      const back = [...now].filter((number) => number < had && !before.has(number)).length;
      if (dropped) found.push({ turn: turn.turn, dropped, back });
    }
    [before, last] = [now, turn];
  }
  return found;
}

const MOST = 100;

export function Rebuilds({ data, rebuilds }: { data: SessionData; rebuilds: Rebuild[] }) {
  const faults = data.turns.filter((turn) => turn?.faulted).length;
  if (rebuilds.length === 0) return null;
  return (
    <p class="rebuilds">
      Something had to leave in {plural(rebuilds.length, "call")}:{" "}
      {rebuilds.slice(0, MOST).map(({ turn, dropped, back }) => (
        <>
          <a
            key={turn}
            href={data.to("call", turn, { with: String(turn - 1) })}
            title={`${plural(dropped, "result")} dropped, ${back} came back`}
          >
            {turn}
          </a>{" "}
        </>
      ))}
      {faults > 0 && ` The budget grew in ${plural(faults, "call")} for what the turn before had missed.`}
    </p>
  );
}
