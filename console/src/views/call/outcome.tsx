// What the answer to a call then used, and what it lacked.
import { plural } from "../../format";
import { address } from "../../route";
import { COMPLETE, type SessionData } from "../../session";

interface Props {
  data: SessionData;
  turn: number;
  session: string;
  branch: number | null;
}

export function Outcome({ data, turn, session, branch }: Props) {
  const call = data.turns[turn - 1];
  if (!call) return null;
  const hidden = newest(data, turn).filter((result) => data.state(turn - 1, result) !== COMPLETE);
  const used = call.uses.filter((result) => !call.missed.includes(result));
  const link = (result: number, place: number) => {
    const found = data.results[result];
    return (
      <>
        {place > 0 && ", "}
        <a key={result} href={address(session, "result", found.position, branch)}>
          #{found.position} {data.tools[found.tool]}
        </a>
      </>
    );
  };
  if (!hidden.length && !call.uses.length && !call.missed.length) return null;
  return (
    <ul class="answer">
      {hidden.length > 0 && (
        <li class="bad">The newest {hidden.length === 1 ? "result was" : "results were"} not shown whole: {hidden.map(link)}</li>
      )}
      {call.missed.length > 0 && (
        <li class="bad">
          Its answer lacked {plural(call.missed.length, "result")}: {call.missed.map(link)}
        </li>
      )}
      {used.length > 0 && (
        <li>
          Its answer used {plural(used.length, "result")}: {used.map(link)}
        </li>
      )}
    </ul>
  );
}

/** The results of the turn before. */
function newest(data: SessionData, turn: number): number[] {
  const known = data.turns[turn - 1].results;
  const found: number[] = [];
  for (let result = known - 1; result >= 0 && data.results[result]?.turn === turn - 1; result--) found.unshift(result);
  return found;
}
