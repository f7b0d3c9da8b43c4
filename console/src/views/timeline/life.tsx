// The life of the result under the cursor in one line, which screen readers announce.
import { number, plural, ranges } from "../../format";
import type { Cell } from "../../parts/grid";
import { COMPLETE, OMITTED, EXCERPT, type SessionData } from "../../session";
import type { Rebuild } from "./rebuilds";

const MARKS = { use: ", used", elsewhere: ", used, but the value was visible elsewhere", miss: ", missed" };
const STATES = ["omitted", "shown complete", "shown as an excerpt"];

interface Props {
  data: SessionData;
  cell: Cell | null;
  rows: number[];
  rebuild: Rebuild | undefined;
}

export function Life({ data, cell, rows, rebuild }: Props) {
  const result = cell && data.results[rows[cell.row]];
  if (!cell || !result || result.position < 0) {
    return (
      <p class="card life hint">
        Point at a cell to see when its result was shown and used. Click to keep it; double-click or press Enter to open the call.
      </p>
    );
  }
  const life = lifeOf(data, result.number);
  return (
    <p class="card life">
      <strong>
        #{result.position} {data.tools[result.tool] || "tool"}
      </strong>{" "}
      <span class="muted">{plural(result.tokens, "token")}</span> · created in turn {result.turn} ·{" "}
      {phrase("used in", life.uses) || "never used"}
      {[phrase("omitted from", life.omitted), phrase("restored at", life.restored)].map((words) => words && ` · ${words}`)}
      {cell.turn >= 0 && (
        <>
          {" "}
          · <strong>turn {cell.turn + 1}: {stateWords(data, cell, result.number)}</strong>
          {rebuild && ` · this call dropped ${plural(rebuild.dropped, "result")} and restored ${number(rebuild.restored)}`}
        </>
      )}
      <span class="links">
        {cell.turn >= 0 && <a href={data.to("call", cell.turn + 1)}>Call {cell.turn + 1}</a>}
        {cell.turn > 0 && <a href={data.to("call", cell.turn + 1, { with: String(cell.turn) })}>Against call {cell.turn}</a>}
        <a href={data.to("result", result.position)}>Result</a>
      </span>
    </p>
  );
}

/** Return words followed by at most twelve turns. */
const phrase = (words: string, turns: number[]): string =>
  turns.length ? `${words} ${turns.length === 1 ? "turn" : "turns"} ${ranges(turns.slice(0, 12))}${turns.length > 12 ? "…" : ""}` : "";

function stateWords(data: SessionData, cell: Cell, result: number): string {
  if (!data.turns[cell.turn]) return "not loaded yet";
  const state = data.state(cell.turn, result);
  const marked = data.markedAt(result).includes(cell.turn + 1);
  const old = data.turns[cell.turn].old_versions.includes(result) ? ", used an old version" : "";
  return (state < 0 ? "not there yet" : STATES[state]) + (marked ? MARKS[data.markAt(cell.turn, result)] : "") + old;
}

export const describeCell = (data: SessionData, cell: Cell, rows: number[]): string => {
  const result = data.results[rows[cell.row]];
  return result.position < 0 ? "Not loaded yet" : `Turn ${cell.turn + 1}, result ${result.position} of ${data.tools[result.tool]}, ${stateWords(data, cell, result.number)}, ${number(result.tokens)} tokens`;
};

function lifeOf(data: SessionData, result: number): { uses: number[]; omitted: number[]; restored: number[] } {
  const omitted: number[] = [];
  const restored: number[] = [];
  let before = -1;
  for (let turn = 0; turn < data.turns.length; turn++) {
    const state = data.state(turn, result);
    if (state === OMITTED && before !== OMITTED) omitted.push(turn + 1);
    if ((state === COMPLETE || state === EXCERPT) && before === OMITTED) restored.push(turn + 1);
    before = state;
  }
  return { uses: data.usedAt[result] ?? [], omitted, restored };
}
