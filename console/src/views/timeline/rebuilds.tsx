// Each time something had to leave: what was dropped, what came back, the budget.
import { number, plural } from "../../format";
import { ResultLink } from "../../parts/places";
import { num, Table, text } from "../../parts/table";
import { address } from "../../route";
import type { ViewProps } from "../props";
import type { Rebuild } from "./rebuilt";

const NAMED = 6;
const COLUMNS = [text("Call"), num("Budget"), text("Dropped", "In view in the call before, and not in this one"), text("Came back", "Out of view in the call before")];

export function Rebuilds({ place, data, rebuilds }: ViewProps & { rebuilds: Rebuild[] }) {
  const faults = data.turns.filter((turn) => turn?.faulted).length;
  if (rebuilds.length === 0) return null;
  const named = (results: number[]) => (
    <>
      {results.slice(0, NAMED).map((result) => (
        <>
          <ResultLink session={place.session} branch={place.branch} position={data.results[result]?.position ?? -1} name={data.tools[data.results[result]?.tool]} />{" "}
        </>
      ))}
      {results.length > NAMED && <small>{number(results.length - NAMED)} more</small>}
      {results.length === 0 && "–"}
    </>
  );
  return (
    <details class="rebuilds">
      <summary>
        Something had to leave in {plural(rebuilds.length, "call")}
        {faults > 0 && `; the budget grew in ${plural(faults, "call")} for what the turn before had missed`}
      </summary>
      <Table label="Calls in which something had to leave" columns={COLUMNS}>
        {rebuilds.map(({ turn, budget, dropped, back }) => (
          <tr key={turn}>
            <th scope="row">
              <a href={address(place.session, "call", turn, place.branch)}>{number(turn)}</a>
            </th>
            <td class="num">{number(budget)}</td>
            <td>{named(dropped)}</td>
            <td>{named(back)}</td>
          </tr>
        ))}
      </Table>
    </details>
  );
}
