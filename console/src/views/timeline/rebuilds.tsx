// Calls that dropped results, under a policy whose prompts otherwise only grow.
import { plural } from "../../format";
import { numbersIn, type SessionData } from "../../session";
import type { TurnView } from "../../types";

export interface Rebuild {
  turn: number;
  /** The number of results that the previous call showed and this call does not. */
  dropped: number;
  /** The number of earlier results that this call shows and the previous call did not. */
  restored: number;
}

/** Return the calls that dropped results. Turns that are not loaded are holes; the turn after one is skipped. */
export function rebuildsOf(turns: TurnView[]): Rebuild[] {
  const rebuildList: Rebuild[] = [];
  let before = new Set<number>();
  let last: TurnView | undefined;
  for (let index = 0; index < turns.length; index++) {
    const turn = turns[index];
    const now = new Set(turn ? [...numbersIn(turn.complete), ...numbersIn(turn.substitutes)] : []);
    if (turn && last) {
      const had = last.results;
      const dropped = [...before].filter((number) => !now.has(number)).length;
      const restored = [...now].filter((number) => number < had && !before.has(number)).length;
      if (dropped) rebuildList.push({ turn: turn.turn, dropped, restored });
    }
    [before, last] = [now, turn];
  }
  return rebuildList;
}

const MOST = 100;

export function Rebuilds({ data, rebuilds }: { data: SessionData; rebuilds: Rebuild[] }) {
  const faults = data.turns.filter((turn, index) => turn?.faulted && turn.budget > (data.turns[index - 1]?.budget ?? turn.budget)).length;
  if (rebuilds.length === 0) return null;
  return (
    <p class="rebuilds">
      Results were dropped in {plural(rebuilds.length, "call")}:{" "}
      {rebuilds.slice(0, MOST).map(({ turn, dropped, restored }) => (
        <>
          <a
            key={turn}
            href={data.to("call", turn, { with: String(turn - 1) })}
            title={`${plural(dropped, "result")} dropped, ${restored} restored`}
          >
            {turn}
          </a>{" "}
        </>
      ))}
      {faults > 0 && (
        <span title="Words with a capital letter count here as well. They are no misses.">
          The automatic budget grew in {plural(faults, "call")}, because the answer before used a word of a result that its prompt did not have.
        </span>
      )}
    </p>
  );
}
